"""Half a minute of clients that do as much as they can, in virtual time: each kind of quota is held within five percent
by the real connection, dispatcher and handlers, and whoever is beside them is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import pack, unpack_from
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, cast

import pytest

from moldau.metadata.image import EMPTY_IMAGE, QuotasImage
from moldau.metrics import Metrics
from moldau.security.context import RequestContext
from moldau.security.quotas import ClientQuotas
from moldau.server import busy, dispatch
from moldau.server.connection import Connection
from moldau.server.dispatch import Dispatcher
from moldau.server.fetching import FetchRound
from moldau.server.handlers import fetch, produce
from moldau.server.registry import Api
from moldau.types.errors import KafkaError
from moldau.types.quotas import QuotaKey, quota_entity
from moldau.wire.apis import ApiKey
from moldau.wire.codec import encode
from moldau.wire.messages.fetch import FetchRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.produce import ProduceRequest
from moldau.wire.primitives import uvarint
from moldau.work.slices import Work
from tests.simulation.scheduler import NodeLoop, Scheduler
from tests.unit.server.test_connection import Host, Transport

WINDOWS: Final = 11
MEASURED_SECONDS: Final = 3.0 * WINDOWS
"""Thrice all windows: what was sent in a burst counts as long, and so are bursts apart."""
TOLERANCE: Final = 0.05
GREEDY, NEIGHBOUR = "greedy", "neighbour"
NEIGHBOURS_PAUSE: Final = 0.01
BYTES: Final = 100_000
WORK_SECONDS: Final = 0.004


class Line(Transport):
    """To a client, which is told of each answer at once."""

    def __init__(self, answered: Callable[[bytes], None]) -> None:
        super().__init__()
        self._answered = answered

    def write(self, data: bytes) -> None:
        self._answered(bytes(data))


class World:
    """A broker's edge with one quota for one client id."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, key: QuotaKey, limit: float) -> None:
        self.scheduler = Scheduler(1)
        self.loop = NodeLoop(self.scheduler, "broker")
        for module, name in ((busy, "clock"), (dispatch, "perf_counter")):
            monkeypatch.setattr(module, name, lambda: self.scheduler.now)
        self.quotas = ClientQuotas(
            lambda: self.scheduler.now * 1000, Metrics(), windows=WINDOWS, window_seconds=1,
            controller_windows=WINDOWS, controller_window_seconds=1,
        )  # fmt: skip
        entity: dict[str, str | None] = (
            {"ip": "10.0.0.1"} if key is QuotaKey.CONNECTION_CREATION_RATE else {"client-id": GREEDY}
        )
        limits = MappingProxyType({quota_entity(entity): QuotasImage(MappingProxyType({key: limit}), 0)})
        self.quotas.load(SimpleNamespace(quotas=limits))  # type: ignore[arg-type]
        apis: dict[int, Api] = {
            ApiKey.FIND_COORDINATOR: Api(ApiKey.FIND_COORDINATOR, 0, 3, FindCoordinatorRequest, handle=self._handle),
            ApiKey.PRODUCE: produce.API,
            ApiKey.FETCH: fetch.API,
        }
        self.served = 0.0
        self.work: Callable[[RequestContext], FindCoordinatorResponse] = lambda _: FindCoordinatorResponse()
        self.host = Host(Dispatcher(self._broker(), apis).dispatch)

    def _broker(self) -> Any:
        ignore = lambda *_: None  # noqa: E731
        request_times = SimpleNamespace(throttled=ignore, waited=ignore)
        return SimpleNamespace(
            metrics=Metrics(), appends=SimpleNamespace(flush=ignore), forwarding=None, quotas=self.quotas,
            producing=SimpleNamespace(count_answer=ignore, request_times=request_times), nodes=lambda _: [],
            start=self.loop.create_task, image=EMPTY_IMAGE, config=SimpleNamespace(fetch_max_bytes=50 << 20),
            wall_ms=lambda: 0, fetch_sessions=SimpleNamespace(close=ignore), record_fetch=ignore,
            request_times=request_times,
        )  # fmt: skip

    def _handle(self, _broker: Any, context: RequestContext, _request: Any) -> FindCoordinatorResponse:
        return self.work(context) if context.client_id == GREEDY else FindCoordinatorResponse()

    def measured(self, *clients: Client, seconds: float = MEASURED_SECONDS) -> float:
        """What was served per second, once the first burst is over."""
        for client in clients:
            self.loop.call_soon(client.send)
        self._run(2.0 * WINDOWS)
        before = self.served
        self._run(seconds)
        assert not self.scheduler.problems
        return (self.served - before) / seconds

    def _run(self, seconds: float) -> None:
        self.scheduler.run_until(lambda: False, self.scheduler.now + seconds)


class Client:
    """Sends its request again as soon as it is answered, or after a pause."""

    def __init__(self, world: World, client_id: str, frame: bytes, pause: float = 0.0) -> None:
        self._world, self._pause = world, pause
        self._frame = pack(">i", len(frame)) + frame
        self._sent_at = 0.0
        self.answers = 0
        self.longest_wait = 0.0
        self.throttled = 0
        self.connection = world.loop.call(lambda: Connection(cast(Any, world.host), "PLAINTEXT"))
        world.loop.call(lambda: self.connection.connection_made(cast(Any, Line(self._answered))))

    def send(self) -> None:
        self._sent_at = self._world.scheduler.now
        data = self._frame
        while data:
            buffer = self.connection.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            self.connection.buffer_updated(taken)
            data = data[taken:]

    def _answered(self, data: bytes) -> None:
        self.answers += 1
        self.longest_wait = max(self.longest_wait, self._world.scheduler.now - self._sent_at)
        self.heard(data)
        self._world.loop.call_later(self._pause, self.send)

    def heard(self, data: bytes) -> None:
        """What it takes from an answer."""


Worlds = Callable[[QuotaKey, float], World]


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worlds]:
    made: list[World] = []

    def make(key: QuotaKey, limit: float) -> World:
        made.append(World(monkeypatch, key, limit))
        return made[-1]

    yield make
    for world in made:
        world.loop.close()


def header(key: int, version: int, client_id: str) -> bytes:
    return pack(">hhih", key, version, 1, len(client_id)) + client_id.encode()


def asking(client_id: str) -> bytes:
    return header(ApiKey.FIND_COORDINATOR, 2, client_id) + encode(FindCoordinatorRequest(key="g"), 2)


def producing(client_id: str) -> bytes:
    """To no topic, and as large as it is by a field that nobody knows."""
    body = encode(ProduceRequest(acks=1, timeout_ms=1000), 9)
    assert body.endswith(b"\0")
    head = header(ApiKey.PRODUCE, 9, client_id) + b"\0" + body[:-1] + b"\x01" + uvarint(99)
    padding = BYTES - len(head) - 3
    return head + uvarint(padding) + b"x" * padding


def fetching(client_id: str) -> bytes:
    return header(ApiKey.FETCH, 11, client_id) + encode(FetchRequest(max_bytes=BYTES, session_epoch=-1), 11)


def held(world: World, greedy: Client, limit: float, longest_wait: float = 0.001) -> None:
    neighbour = Client(world, NEIGHBOUR, asking(NEIGHBOUR), NEIGHBOURS_PAUSE)
    assert world.measured(greedy, neighbour) == pytest.approx(limit, rel=TOLERANCE)
    assert neighbour.answers > 0.6 * (MEASURED_SECONDS + 2 * WINDOWS) / NEIGHBOURS_PAUSE
    assert neighbour.longest_wait <= longest_wait


def test_a_producer_is_held_at_its_bytes(worlds: Worlds) -> None:
    world = worlds(QuotaKey.PRODUCER_BYTE_RATE, 1_000_000)

    class Producer(Client):
        def heard(self, data: bytes) -> None:
            world.served += BYTES

    held(world, Producer(world, GREEDY, producing(GREEDY)), 1_000_000)


def test_a_consumer_is_held_at_its_bytes(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds(QuotaKey.CONSUMER_BYTE_RATE, 1_000_000)

    def read_round(*_: Any) -> Work[FetchRound]:
        yield from ()
        return FetchRound([], record_bytes=BYTES)

    monkeypatch.setattr(fetch, "read_round", read_round)

    class Consumer(Client):
        def heard(self, data: bytes) -> None:
            (throttle_ms,) = unpack_from(">i", data, 8)
            world.served += 0 if throttle_ms else BYTES  # whoever has to wait gets no records

    held(world, Consumer(world, GREEDY, fetching(GREEDY)), 1_000_000)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_busy_client_is_held_at_its_share_of_the_time(is_late: bool, worlds: Worlds) -> None:
    world = worlds(QuotaKey.REQUEST_PERCENTAGE, 20)

    def work(_: RequestContext) -> FindCoordinatorResponse:
        world.scheduler.now += WORK_SECONDS
        world.served += 100 * WORK_SECONDS
        return FindCoordinatorResponse()

    async def work_later(context: RequestContext) -> FindCoordinatorResponse:
        return work(context)

    world.work = cast(Any, work_later) if is_late else work
    held(world, Client(world, GREEDY, asking(GREEDY)), 20, 2 * WORK_SECONDS)


@pytest.mark.parametrize("strict", [False, True])
def test_a_maker_of_topics_is_held_at_its_rate(strict: bool, worlds: Worlds) -> None:
    world = worlds(QuotaKey.CONTROLLER_MUTATION_RATE, 5)

    def work(context: RequestContext) -> FindCoordinatorResponse:
        mutations = world.quotas.mutations(context, strict)
        try:
            mutations.take(3)
            world.served += 3
        except KafkaError:
            assert strict
        return FindCoordinatorResponse(throttle_time_ms=mutations.done())

    world.work = work
    held(world, Client(world, GREEDY, asking(GREEDY)), 5)


def test_an_address_is_held_at_its_connections(worlds: Worlds) -> None:
    """They come in bursts, of which half a minute may hold three or four: it is ten of them that are looked at."""
    world = worlds(QuotaKey.CONNECTION_CREATION_RATE, 10)

    def connect() -> None:
        world.served += world.quotas.connected("10.0.0.1") == 0
        assert world.quotas.connected("10.0.0.2") == 0
        world.loop.call_later(0.01, connect)

    world.loop.call_soon(connect)
    assert world.measured(seconds=10 * MEASURED_SECONDS) == pytest.approx(10, rel=TOLERANCE)
