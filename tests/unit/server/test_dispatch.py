"""From a frame to a handler and back: what every request has in common."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from struct import pack, unpack_from
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.metrics import Metrics
from moldau.security.context import RequestContext
from moldau.server import busy, dispatch
from moldau.server.connection import Connection, Frame, Slot
from moldau.server.dispatch import Dispatcher
from moldau.server.forwarding import Answered
from moldau.server.registry import LARGE_REQUEST_BYTES, Api
from moldau.server.request_times import RequestTimes
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.codec import encode
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.schema import Message
from tests.fakes.unlimited import Unlimited
from tests.unit.server.test_connection import Host, Transport

KEY, VERSION = ApiKey.FIND_COORDINATOR, 2
Given = Message | Awaitable[Message]


class Scene:
    """One API, whose handler the test is, behind a connected client."""

    def __init__(self, handle: Callable[[FindCoordinatorRequest], Given], **quota: int) -> None:
        self.flushed = 0
        self.metrics = Metrics()
        self.asked: list[str] = []
        self.handle = handle
        self.quotas = Quotas(**quota) if quota else Unlimited()
        broker = SimpleNamespace(
            metrics=self.metrics,
            appends=self,
            forwarding=None,
            quotas=self.quotas,
            request_times=RequestTimes(self.metrics),
        )
        api = Api(KEY, 0, 3, FindCoordinatorRequest, handle=self._handle, refused_below=1)
        self.host = Host(Dispatcher(cast(Any, broker), {KEY: api}).dispatch)
        self.transport = Transport()
        self.connection = Connection(cast(Any, self.host), "PLAINTEXT")
        self.connection.connection_made(cast(Any, self.transport))

    def flush(self) -> None:
        self.flushed += 1

    def _handle(self, _broker: Any, _context: RequestContext, request: FindCoordinatorRequest) -> Given:
        self.asked.append(request.key)
        return self.handle(request)

    def send(self, key: str = "g", number: int = 1, version: int = VERSION, api: int = KEY) -> None:
        body = encode(FindCoordinatorRequest(key=key), min(version, VERSION))
        self.send_bytes(pack(">hhih", api, version, number, 1) + b"c" + body)

    def send_bytes(self, frame: bytes) -> None:
        data = pack(">i", len(frame)) + frame
        while data:
            buffer = self.connection.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            self.connection.buffer_updated(taken)
            data = data[taken:]

    @property
    def answered(self) -> list[int]:
        """The numbers of the requests whose answers were sent."""
        sent, found = self.transport.sent, []
        while sent:
            size, number = unpack_from(">ii", sent)
            found.append(number)
            sent = sent[4 + size :]
        return found

    def counted(self, name: str, **tags: str) -> float:
        return self.metrics.counter("kafka.network", "RequestMetrics", name, request="FindCoordinator", **tags).value


class Quotas(Unlimited):
    active = True

    def __init__(self, wait_ms: int) -> None:
        self.wait_ms = wait_ms
        self.seconds: list[float] = []
        self.later: list[float] = []

    def handled(self, context: RequestContext, seconds: float) -> int:
        self.seconds.append(seconds)
        return self.wait_ms

    def spent(self, context: RequestContext, seconds: float) -> None:
        self.later.append(seconds)


def answer(code: ErrorCode = ErrorCode.NONE, throttle_time_ms: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=code, throttle_time_ms=throttle_time_ms)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


async def turns_of_the_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_what_is_known_is_answered_at_once_and_counted() -> None:
    async def main() -> None:
        one = Scene(lambda _: answer(ErrorCode.NOT_COORDINATOR))
        one.send("first", 1)
        one.send("second", 2)
        assert one.asked == ["first", "second"]
        assert one.answered == [1, 2]
        assert one.flushed == 2  # whatever was produced before is written before
        assert one.counted("RequestsPerSec", version="2") == 2
        assert one.counted("ErrorsPerSec", error="NOT_COORDINATOR") == 2

    run(main)


def test_the_next_request_waits_until_the_answer_is_known() -> None:
    async def main() -> None:
        decided = asyncio.get_running_loop().create_future()
        one = Scene(lambda request: decided if request.key == "slow" else answer())
        one.send("slow", 1)
        one.send("quick", 2)
        assert (one.asked, one.answered) == (["slow"], [])
        decided.set_result(answer())
        await turns_of_the_loop()
        assert (one.asked, one.answered) == (["slow", "quick"], [1, 2])

    run(main)


def test_large_requests_are_read_in_turns() -> None:
    async def main() -> None:
        one = Scene(lambda _: answer())
        one.send("x" * (LARGE_REQUEST_BYTES + 1), 1)
        one.send("after", 2)
        await turns_of_the_loop()
        assert one.answered == [1, 2]
        assert [len(key) for key in one.asked] == [LARGE_REQUEST_BYTES + 1, 5]

    run(main)


@pytest.mark.parametrize(
    ("version", "api"), [(9, KEY), (0, KEY), (VERSION, 999), (VERSION, ApiKey.CREATE_TOPICS)], ids=str
)
def test_what_is_not_served_closes_the_connection(version: int, api: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        one = Scene(lambda _: answer())
        one.send(version=version, api=api)
        assert one.transport.closed
        assert (one.asked, one.answered) == ([], [])

    run(main)
    assert "is not served" in caplog.text


def test_bytes_that_are_no_request_close_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        one = Scene(lambda _: answer())
        one.send_bytes(pack(">hhih", KEY, VERSION, 1, 1) + b"c" + b"\x7f")
        assert one.transport.closed
        assert one.asked == []

    run(main)
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("is_late", [False, True])
def test_a_handler_that_fails_closes_this_connection_and_says_why(
    is_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def later() -> Message:
        await asyncio.sleep(0)
        raise RuntimeError("a bug")

    def fail(_request: FindCoordinatorRequest) -> Given:
        if is_late:
            return later()
        raise RuntimeError("a bug")

    async def main() -> None:
        one = Scene(fail)
        one.send()
        await turns_of_the_loop()
        assert one.transport.closed
        assert one.host.budget.used == 0

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "a bug" in caplog.text


@pytest.mark.parametrize("how", ["at once", "later", "refused", "failing", "not served", "no request"])
def test_every_buffer_is_given_back_when_its_request_is_over(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[Frame] = []

    def release(frame: Frame) -> None:
        released.append(frame)

    monkeypatch.setattr(Frame, "release", release)

    async def main() -> None:
        decided = asyncio.get_running_loop().create_future()

        def handle(_request: FindCoordinatorRequest) -> Given:
            if how == "failing":
                raise RuntimeError("a bug")
            return decided if how in ("later", "refused") else answer()

        one = Scene(handle)
        if how == "no request":
            one.send_bytes(pack(">hhih", KEY, VERSION, 1, 1) + b"c" + b"\x7f")
        else:
            one.send(version=9 if how == "not served" else VERSION)
        assert len(released) == (0 if how in ("later", "refused") else 1)
        if how == "refused":
            decided.set_exception(RuntimeError("a bug"))
        elif how == "later":
            decided.set_result(answer())
        await turns_of_the_loop()
        assert len(released) == 1

    run(main)


@pytest.mark.parametrize(("own_ms", "told_ms"), [(0, 70), (500, 500)])
def test_who_is_over_a_quota_is_told_the_longer_wait_and_heard_no_more(own_ms: int, told_ms: int) -> None:
    async def main() -> None:
        one = Scene(lambda _: answer(throttle_time_ms=own_ms), wait_ms=70)
        one.send("first", 1)
        one.send("second", 2)
        assert one.asked == ["first"]
        (told,) = unpack_from(">i", one.transport.sent, 8)
        assert told == told_ms

    run(main)


class Ticking:
    """A clock that goes on while somebody works, and not by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(busy, "clock", lambda: self.now)


def test_what_a_handler_does_after_it_waited_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticking(monkeypatch)

    async def main() -> None:
        needed = asyncio.get_running_loop().create_future()

        async def handle() -> Message:
            await needed
            clock.now += 5
            return answer()

        one = Scene(lambda _: handle(), wait_ms=70)
        one.send()
        await turns_of_the_loop()
        clock.now += 1000
        needed.set_result(None)
        await turns_of_the_loop()
        assert one.answered == [1]
        assert int(sum(one.quotas.seconds)) == 5  # type: ignore[attr-defined]

    run(main)


def test_to_read_a_large_request_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticking(monkeypatch)

    def decode_in_turns(*_: Any) -> Any:
        clock.now += 3
        yield
        clock.now += 4
        return FindCoordinatorRequest(key="g"), 0

    monkeypatch.setattr(dispatch, "decode_in_turns", decode_in_turns)

    async def main() -> None:
        one = Scene(lambda _: answer(), wait_ms=70)
        one.send("x" * (LARGE_REQUEST_BYTES + 1))
        await turns_of_the_loop()
        assert one.answered == [1]
        assert one.quotas.seconds == [7]  # type: ignore[attr-defined]

    run(main)


@pytest.mark.parametrize("is_late", [False, True])
def test_to_write_an_answer_counts_for_the_next_request(is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticking(monkeypatch)

    def write(*_: Any) -> bytes:
        clock.now += 2
        return b"\0\0\0\0"

    def write_in_turns(*_: Any) -> Any:
        clock.now += 1
        yield
        clock.now += 1
        return b"\0\0\0\0"

    monkeypatch.setattr(dispatch, "encode", write)
    monkeypatch.setattr(dispatch, "encode_in_turns", write_in_turns)

    async def later() -> Message:
        await asyncio.sleep(0)
        return answer()

    async def main() -> None:
        one = Scene(lambda _: later() if is_late else answer(), wait_ms=70)
        one.send()
        await turns_of_the_loop()
        assert one.answered == [1]
        assert one.quotas.later == [2]  # type: ignore[attr-defined]

    run(main)


@pytest.mark.parametrize(("told_ms", "waits_ms"), [(10, 70), (500, 500)])
def test_a_request_that_was_handed_on_counts_too(told_ms: int, waits_ms: int) -> None:
    """The controller has written its own time to wait into the answer."""
    data = pack(">iii", 1, told_ms, 77)

    async def passed_on() -> Answered:
        return Answered(data, told_ms, 4)

    async def main() -> None:
        one = Scene(cast(Any, lambda _: passed_on()), wait_ms=70)
        one.send()
        await turns_of_the_loop()
        assert one.transport.sent == pack(">iiii", len(data), 1, waits_ms, 77)
        assert len(one.quotas.seconds) == 1  # type: ignore[attr-defined]
        one.send("after", 2)
        assert one.asked == ["g"]

    run(main)


def test_only_brokers_are_not_held_back() -> None:
    async def main() -> None:
        one = Scene(lambda _: answer(), wait_ms=70)
        one.connection.client.broker_id = 2  # on a listener where clients could say the same
        one.send("first", 1)
        one.send("second", 2)
        assert one.asked == ["first"]
        other = Scene(lambda _: answer(), wait_ms=70)
        other.connection.client.is_exempt = True
        other.send("first", 1)
        other.send("second", 2)
        assert other.asked == ["first", "second"]

    run(main)


def test_the_answer_of_a_raw_handler_is_its_own() -> None:
    taken: list[tuple[Frame, int, Slot]] = []

    async def main() -> None:
        one = Scene(lambda _: answer())
        raw = Api(
            KEY, 0, 3, FindCoordinatorRequest, raw=lambda b, c, frame, body, slot: taken.append((frame, body, slot))
        )
        broker = SimpleNamespace(metrics=one.metrics, appends=one, forwarding=None, quotas=Unlimited())
        one.host.dispatch = Dispatcher(cast(Any, broker), {KEY: raw}).dispatch
        one.send("first", 1)
        one.send("second", 2)
        [(frame, body, slot)] = taken
        assert bytes(frame.view[body:])[2:7] == b"first"
        slot.answer([pack(">ii", 4, 1)])
        frame.release()
        assert len(taken) == 2
        assert one.answered == [1]

    run(main)
