"""Requests that only the controller decides, on a broker that is not it: handed on whole, in an Envelope.

Principal, client address and correlation id stay the client's, and the controller's answer goes back as it is. While
the controller is unknown, changes or cannot be reached, the request waits within its own time-out. A request that
another broker has sent here is served or refused, never handed on again.

As in Apache Kafka, a request whose answer was lost with the connection is sent again: what was done by the first one
may be told as if somebody else had done it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from moldau.security.context import ClientIdentity, RequestContext
from moldau.server.busy import Stopwatch, Timed
from moldau.server.controller_requests import CONTROLLER_REQUESTS, Decided
from moldau.server.peers.peer import Lane, PeerLostError, Peers
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.codec import decode_in_turns, encode_in_turns
from moldau.wire.framing import frame_response, read_request_header, response_has_tags, skip_header_tags
from moldau.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.wire.schema import Buffer, Message
from moldau.work import turns

if TYPE_CHECKING:
    from moldau.server.broker import Broker

log = logging.getLogger("moldau.server.forwarding")

R = TypeVar("R", bound=Message)
T = TypeVar("T")

DEFAULT_SECONDS: Final = 30.0
LONGEST_LOOK_SECONDS: Final = 0.1
"""A new controller shows in the image; this only bounds what else may have passed."""
SIZE_BYTES: Final = 4
INT32: Final = Struct(">i")


class Authority(Protocol):
    """Who decides, as the image says."""

    @property
    def is_active(self) -> bool: ...

    @property
    def active_id(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Answered:
    """The controller's answer behind its size: header and body, with the client's correlation id."""

    data: bytes
    throttle_ms: int = 0
    """How long the client has to wait, as the controller says."""
    throttle_at: int | None = None
    """Where that stands, if it does."""

    def with_throttle(self, milliseconds: int) -> bytes:
        if self.throttle_at is None or milliseconds == self.throttle_ms:
            return self.data
        end = self.throttle_at + INT32.size
        return self.data[: self.throttle_at] + INT32.pack(milliseconds) + self.data[end:]


class Forwarding:
    def __init__(
        self,
        broker: Broker,
        authority: Authority,
        peers: Peers,
        next_image: Callable[[], Awaitable[object]],
        monotonic: Callable[[], float],
    ) -> None:
        """`next_image` waits until the image has changed."""
        self._broker = broker
        self._authority = authority
        self.peers = peers
        self._next_image = next_image
        self._monotonic = monotonic
        self._requests: Mapping[int, Decided] = CONTROLLER_REQUESTS

    @property
    def decides_here(self) -> bool:
        return self._authority.is_active

    def concerns(self, api_key: int, request: Message) -> bool:
        decided = self._requests.get(api_key)
        return decided is not None and decided.applies(request)

    # --- on the broker that the client asks ---

    async def serve(self, context: RequestContext, api: Api, request: Message, frame: bytes) -> Message | Answered:
        """Decides here or asks the controller, whoever it is by then; the answer, or a refusal that says why not."""
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=context.client.principal.encode(),
            client_host_address=packed_address(context.client.address),
        )

        async def attempt() -> Message | Answered | None:
            if self._authority.is_active:
                return await self._handle_if_controller(context, api, request)
            controller = self._authority.active_id
            return None if controller is None else await self._hand_on(controller, envelope, context, api)

        try:
            refusal = self._requests[context.api_key].refusal_of(self._broker, context)
            if refusal is not None:
                raise KafkaError(refusal)
            if context.client.broker_id is not None:
                return await self._handle(context, api, request)
            return await self._until_decided(attempt, seconds_of(request))
        except KafkaError as error:
            decided = self._requests[context.api_key]
            return decided.completed(decided.refuse(request, error.code, error.message), context, request)

    async def ask(self, request: Message, answer_class: type[R], is_refused: Callable[[R], bool]) -> R:
        """This broker's own request, to a controller that is another broker. `is_refused` tells an answer that says
        NOT_CONTROLLER. Raises KafkaError."""

        async def attempt() -> R | None:
            controller = self._authority.active_id
            if controller is None or self._authority.is_active:
                return None
            answer = await self.peers.get(controller).call(request, answer_class, Lane.FORWARD)
            return None if is_refused(answer) else answer

        return await self._until_decided(attempt, DEFAULT_SECONDS)

    async def _hand_on(
        self, controller: int, envelope: EnvelopeRequest, context: RequestContext, api: Api
    ) -> Answered | None:
        answer = await self.peers.get(controller).call(envelope, EnvelopeResponse, Lane.FORWARD)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return None
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        data = bytes(answer.response_data or b"")
        if not self._requests[api.key].begins_with_throttle:
            return Answered(data)
        at = throttle_at(data, response_has_tags(api.key, is_flexible(context, api)))
        return Answered(data, INT32.unpack_from(data, at)[0], at)

    async def _handle_if_controller(self, context: RequestContext, api: Api, request: Message) -> Message | None:
        try:
            return await self._handle(context, api, request)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            return None

    async def _until_decided(self, attempt: Callable[[], Awaitable[T | None]], seconds: float) -> T:
        """An attempt is never cancelled: what it has begun is done, and the client should hear of it."""
        end = self._monotonic() + seconds
        while True:
            # Begun before the attempt: an image that comes meanwhile counts.
            changed = asyncio.ensure_future(self._next_image())
            try:
                try:
                    answer = await attempt()
                    if answer is not None:
                        return answer
                except PeerLostError as error:
                    log.info("the controller will be asked again: %s", error)
                left = end - self._monotonic()
                if left <= 0:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No controller has answered within {seconds:g} s.")
                await asyncio.wait((changed,), timeout=min(left, LONGEST_LOOK_SECONDS))
            finally:
                changed.cancel()

    # --- on the controller ---

    async def unwrap(self, context: RequestContext, envelope: EnvelopeRequest) -> bytes:
        """The answer to what is inside, as the client reads it. Raises KafkaError (NOT_CONTROLLER), DecodeError."""
        if not self._authority.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        data = envelope.request_data
        header = read_request_header(data)
        api = self._broker.apis.get(header.api_key)
        decided = self._requests.get(header.api_key)
        if api is None or decided is None or not api.first <= header.api_version <= api.last:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        flexible = header.api_version >= api.request.FLEXIBLE_FROM
        body = skip_header_tags(data, header.body) if flexible else header.body
        client = ClientIdentity(
            bytes(envelope.request_principal or b"").decode(),
            context.client.listener,
            unpacked_address(envelope.client_host_address),
        )
        inside = RequestContext(
            client, header.client_id or "", header.api_key, header.api_version, header.correlation_id
        )
        watch = Stopwatch()
        answer = await Timed(watch, self._handle_inside(inside, api, data, body))
        self._throttle(inside, answer, watch)
        written = await turns.run(encode_in_turns(answer, header.api_version))
        tags = response_has_tags(header.api_key, flexible)
        return frame_response(header.correlation_id, tags, written)[SIZE_BYTES:]

    async def _handle_inside(self, context: RequestContext, api: Api, data: Buffer, body: int) -> Message:
        request, _ = await turns.run(decode_in_turns(api.request, context.api_version, data, body))
        return await self._handle(context, api, request)

    def _throttle(self, context: RequestContext, answer: Message, watch: Stopwatch) -> None:
        """The client's broker tells it the longer of its own time and this, and makes it wait."""
        quotas = self._broker.quotas
        wait_ms = quotas.handled(context, watch.take_busy_seconds()) if quotas.active else 0
        if wait_ms and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = max(answer.throttle_time_ms, wait_ms)

    async def _handle(self, context: RequestContext, api: Api, request: Message) -> Message:
        assert api.handle is not None
        answer = api.handle(self._broker, context, request)
        return answer if isinstance(answer, Message) else await answer


def is_flexible(context: RequestContext, api: Api) -> bool:
    return context.api_version >= api.request.FLEXIBLE_FROM


def throttle_at(data: bytes, has_tags: bool) -> int:
    """Where the time to wait stands: the first field of nearly all answers to what the controller decides."""
    return skip_header_tags(data, INT32.size) if has_tags else INT32.size


def seconds_of(request: Message) -> float:
    """How long the client waits, where the request says so."""
    timeout_ms = getattr(request, "timeout_ms", 0)
    return timeout_ms / 1000 if timeout_ms > 0 else DEFAULT_SECONDS


def packed_address(address: str) -> bytes:
    try:
        return ipaddress.ip_address(address).packed
    except ValueError:
        return b""


def unpacked_address(packed: Buffer) -> str:
    return str(ipaddress.ip_address(bytes(packed))) if packed else "unknown"
