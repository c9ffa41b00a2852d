"""From a frame to a handler and back: header, version check, context, quota, metrics; one place for what every API
shares.

A request that cannot be parsed, an unknown key or a version that is not announced closes the connection, as Kafka
does, unless the API answers such versions itself.

What takes long, requests and answers about thousands of partitions above all, is done in turns (work/turns): the
connection is parked, and everybody else is served in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

from moldau.metrics import Counter, Histogram
from moldau.security.context import RequestContext
from moldau.server.busy import Timed, timed
from moldau.server.connection import Connection, Frame, Slot
from moldau.server.coordination.futures import Later
from moldau.server.forwarding import Answered
from moldau.server.registry import LARGE_REQUEST_BYTES, Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.codec import decode, decode_in_turns, encode, encode_in_turns
from moldau.wire.framing import (
    FIXED_HEADER,
    SIZE,
    RequestHeader,
    frame_response,
    read_request_header,
    response_has_tags,
    skip_header_tags,
)
from moldau.wire.primitives import DecodeError
from moldau.wire.schema import Message
from moldau.work import turns

if TYPE_CHECKING:
    from moldau.server.broker import Broker

log = logging.getLogger("moldau.server.dispatch")

NETWORK = "kafka.network"


class Dispatcher:
    def __init__(self, broker: Broker, apis: dict[int, Api]) -> None:
        self.broker = broker
        self.apis = apis
        self._requests: dict[tuple[int, int], Counter] = {}
        self._times: dict[int, Histogram] = {key: self._histogram(api) for key, api in apis.items()}
        self._shortcuts = {key: api.shortcut(broker) for key, api in apis.items() if api.shortcut is not None}
        self._tasks: set[asyncio.Task[None]] = set()

    def _histogram(self, api: Api) -> Histogram:
        return self.broker.metrics.histogram(NETWORK, "RequestMetrics", "TotalTimeMs", request=request_name(api.key))

    def _count(self, key: int, version: int) -> None:
        counter = self._requests.get((key, version))
        if counter is None:
            name = request_name(key)
            counter = self.broker.metrics.counter(
                NETWORK, "RequestMetrics", "RequestsPerSec", request=name, version=str(version)
            )
            self._requests[key, version] = counter
        counter.value += 1

    def _count_error(self, key: int, code: int) -> None:
        """Errors of whole requests; those of single topics and partitions stand in the answers alone."""
        self.broker.metrics.counter(
            NETWORK, "RequestMetrics", "ErrorsPerSec", request=request_name(key), error=ErrorCode(code).name
        ).value += 1

    def dispatch(self, connection: Connection, frame: Frame) -> None:
        try:
            shortcut = connection.shortcut
            if shortcut is not None and shortcut.take(connection, frame):
                return
            if frame.size >= FIXED_HEADER.size and not frame.view[0]:
                shortcut = self._shortcuts.get(frame.view[1])
                if shortcut is not None and shortcut.take(connection, frame):
                    return
            header = read_request_header(frame.view)
            api = self.apis.get(header.api_key)
            if api is None or not max(api.first, api.refused_below) <= header.api_version <= api.last:
                self._refuse_version(connection, header, api)
                frame.release()
                return
            body = header.body
            if header.api_version >= api.request.FLEXIBLE_FROM:
                body = skip_header_tags(frame.view, body)
            self._handle(connection, frame, header, api, body)
        except DecodeError as error:
            log.warning("%s: closing: a request cannot be read: %s", connection.client.address, error)
            frame.release()
            connection.close()
        except Exception:
            log.exception("%s: closing: a request failed", connection.client.address)
            self.broker.appends.flush()  # what is staged lies in the frame
            frame.release()
            connection.close()

    def _refuse_version(self, connection: Connection, header: RequestHeader, api: Api | None) -> None:
        if api is not None and api.refuse_version is not None:
            body = encode(api.refuse_version(api), 0)
            connection.reserve().answer([frame_response(header.correlation_id, False, body)])
            return
        log.warning(
            "%s: closing: api key %d version %d is not served",
            connection.client.address,
            header.api_key,
            header.api_version,
        )
        connection.close()

    def _handle(self, connection: Connection, frame: Frame, header: RequestHeader, api: Api, body: int) -> None:
        self._count(header.api_key, header.api_version)
        context = RequestContext(
            connection.client, header.client_id or "", header.api_key, header.api_version, header.correlation_id
        )
        slot = connection.reserve()
        if not api.pipelined:
            self.broker.appends.flush()
        if api.raw is not None:
            if not api.pipelined:
                connection.park()
            api.raw(self.broker, context, frame, body, slot)
            return
        started = perf_counter()
        if frame.size >= LARGE_REQUEST_BYTES:
            connection.park()
            self._answer_later(slot, context, api, self._handle_large(context, api, frame, body), frame, started)
            return
        request, _ = decode(api.request, header.api_version, frame.view, body)
        answer = self._begin(context, api, request, frame)
        slot.busy_seconds = perf_counter() - started
        if isinstance(answer, Message):
            frame.release()
            self._answer(slot, context, api, answer, started)
        else:
            connection.park()
            self._answer_later(slot, context, api, answer, frame, started)

    async def _handle_large(self, context: RequestContext, api: Api, frame: Frame, body: int) -> Message | Answered:
        request, _ = await turns.run(decode_in_turns(api.request, context.api_version, frame.view, body))
        answer = self._begin(context, api, request, frame)
        return answer if isinstance(answer, Message) else await answer

    def _begin(
        self, context: RequestContext, api: Api, request: Message, frame: Frame
    ) -> Message | Awaitable[Message | Answered]:
        forwarding = self.broker.forwarding
        if forwarding is not None and forwarding.concerns(api.key, request):
            return forwarding.serve(context, api, request, bytes(frame.view))
        assert api.handle is not None
        return api.handle(self.broker, context, request)

    def _answer(self, slot: Slot, context: RequestContext, api: Api, answer: Message, started: float) -> None:
        self._complete(slot, context, api, answer)
        if self.broker.quotas.active:
            slot.begin_busy()
        self._send(slot, context, api, encode(answer, context.api_version), started)

    def _complete(self, slot: Slot, context: RequestContext, api: Api, answer: Message) -> None:
        if self.broker.quotas.active:
            self._throttle(slot, context, api, answer)
        error = getattr(answer, "error_code", 0)
        if error:
            self._count_error(api.key, error)

    def _throttle(self, slot: Slot, context: RequestContext, api: Api, answer: Message) -> None:
        """A handler may have found a reason of its own to let the client wait: the longer time counts."""
        if context.client.is_exempt:
            return
        own_ms: int = getattr(answer, "throttle_time_ms", 0)
        slot.mute_ms = max(own_ms, self.broker.quotas.handled(context, slot.take_busy_seconds()))
        if slot.mute_ms:
            self.broker.request_times.throttled(request_name(api.key), slot.mute_ms)
            if hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms = slot.mute_ms

    def _send(self, slot: Slot, context: RequestContext, api: Api, body: bytes, started: float) -> None:
        tags = response_has_tags(api.key, context.api_version >= api.request.FLEXIBLE_FROM)
        if self.broker.quotas.active and not context.client.is_exempt:
            self.broker.quotas.spent(context, slot.take_busy_seconds())
        slot.answer([frame_response(context.correlation_id, tags, body)])
        self._times[api.key].record((perf_counter() - started) * 1000)

    def _pass_on(self, slot: Slot, context: RequestContext, api: Api, answer: Answered, started: float) -> None:
        """The controller's answer, with the longer of its wait and ours."""
        slot.mute_ms = answer.throttle_ms
        quotas = self.broker.quotas
        if quotas.active and not context.client.is_exempt:
            slot.mute_ms = max(slot.mute_ms, quotas.handled(context, slot.take_busy_seconds()))
        data = answer.with_throttle(slot.mute_ms)
        slot.answer([SIZE.pack(len(data)), data])
        self._times[api.key].record((perf_counter() - started) * 1000)

    def _answer_later(
        self,
        slot: Slot,
        context: RequestContext,
        api: Api,
        answer: Awaitable[Message | Answered],
        frame: Frame,
        started: float,
    ) -> None:
        begun = perf_counter()

        def finish(result: Callable[[], Message | Answered]) -> None:
            is_timed = self.broker.quotas.active and slot.begin_busy()
            try:
                message = result()
                self.broker.request_times.waited(request_name(api.key), perf_counter() - begun)
                if isinstance(message, Answered):
                    self._pass_on(slot, context, api, message, started)
                    return
                self._complete(slot, context, api, message)
                work = encode_in_turns(message, context.api_version)
                body = turns.begin(timed(slot, work) if is_timed else work)
                if isinstance(body, bytes):
                    self._send(slot, context, api, body, started)
                else:
                    self._run(send(body))
            except DecodeError as error:
                log.warning("%s: closing: a request cannot be read: %s", context.client.address, error)
                slot.disconnect()
            except Exception as error:
                self._failed(slot, context, api, error)
            finally:
                if is_timed:
                    slot.end_busy()
                frame.release()

        async def send(body: Awaitable[bytes]) -> None:
            try:
                self._send(slot, context, api, await body, started)
            except Exception as error:
                self._failed(slot, context, api, error)

        is_measured = self.broker.quotas.active and not isinstance(answer, Later)
        self._when_known(Timed(slot, answer) if is_measured else answer, finish)

    def _when_known(
        self, answer: Awaitable[Message | Answered], finish: Callable[[Callable[[], Message | Answered]], None]
    ) -> None:
        if isinstance(answer, Later):
            # Without a task: coordinators answer thousands of small requests per second.
            answer.when_done(partial(asyncio.get_running_loop().call_soon, finish, answer.result))
            return

        async def follow() -> None:
            try:
                message = await answer
            except Exception as error:
                finish(partial(reraise, error))
            else:
                finish(lambda: message)

        self._run(follow())

    def _failed(self, slot: Slot, context: RequestContext, api: Api, error: Exception) -> None:
        log.error("%s: closing: %s failed", context.client.address, request_name(api.key), exc_info=error)
        slot.disconnect()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def reraise(error: Exception) -> NoReturn:
    raise error


@cache
def request_name(key: int) -> str:
    """Kafka's name of a request in metrics: FindCoordinator, OffsetForLeaderEpoch."""
    return "".join(part.capitalize() for part in ApiKey(key).name.split("_"))
