"""What every client of ours does, whatever its sockets are like: requests to bytes, bytes to frames, frames to
answers, the steps of opening a connection. No I/O: `connection` drives it with a blocking socket, `server.peers` on
the event loop.

A frame is int32 size + that many bytes. Answers come in the order of their requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from moldau.client import sasl
from moldau.client.errors import AuthenticationFailed, ConnectionLost, VersionUnsupported
from moldau.client.sasl import no_tickets, no_token
from moldau.client.settings import SaslSettings
from moldau.client.ticket_source import Initiator, TicketSource
from moldau.client.token_source import TokenSource
from moldau.types.errors import ErrorCode
from moldau.version import VERSION
from moldau.wire import codec
from moldau.wire.framing import FIXED_HEADER, SIZE, response_has_tags, skip_header_tags
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.wire.primitives import DecodeError
from moldau.wire.primitives import string as legacy_string
from moldau.wire.schema import Buffer, Message

R = TypeVar("R", bound=Message)

CORRELATION: Final = SIZE
USED_OF_A_SESSION: Final = 0.85
"""A broker cuts off who asks for something after its login has ended: before that another connection is opened."""
LARGEST_ANSWER: Final = (1 << 31) - 1
LARGEST_CORRELATION: Final = (1 << 31) - 1
FIRST_QUESTION_VERSION: Final = 3
"""ApiVersions before the broker's versions are known; it answers in version 0 if this is too new for it."""


class Pending(Generic[R]):
    """A request that was sent and whose answer was not read yet."""

    __slots__ = ("answer_class", "correlation_id", "sent_at", "version")

    def __init__(self, correlation_id: int, version: int, answer_class: type[R], sent_at: float) -> None:
        self.correlation_id = correlation_id
        self.version = version
        self.answer_class = answer_class
        self.sent_at = sent_at


class Step(NamedTuple):
    """A question of the opening, at a version that the opening has chosen."""

    request: Message
    answer_class: type[Message]
    version: int


Opening = Generator[Step, Any, None]
"""Yields what to ask, is sent the answers, and ends when the connection may be used."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """Who this client is."""

    client_id: str
    software_name: str = "moldau"
    sasl: SaslSettings | None = None
    token_of: Callable[[TokenSource], str] = no_token
    """Gets a bearer token, which may take its time."""
    tickets_of: Callable[[TicketSource], Initiator] = no_tickets
    """Begins to show a Kerberos ticket for this broker, which may take its time too."""
    asks_again: bool = False
    """Whether there are APIs that the other side tells of only once it knows who asks."""


class ClientCore:
    """One connection's state; `broker` names the other side in messages."""

    def __init__(self, broker: object, introduction: Introduction) -> None:
        self.broker = broker
        self._introduction = introduction
        self._client_id = legacy_string(introduction.client_id)
        self._correlation = 0
        self._pending: deque[Pending[Any]] = deque()
        self.versions: dict[int, tuple[int, int]] = {}
        self.finalized_features: dict[str, int] = {}
        self.session_seconds: float | None = None
        """How long the login holds; None: without end."""

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    @property
    def logs_in(self) -> bool:
        return self._introduction.sasl is not None

    def is_stale(self, age_seconds: float) -> bool:
        """Whether a connection of this age, counted from before its login, should get no more requests."""
        return self.session_seconds is not None and age_seconds > USED_OF_A_SESSION * self.session_seconds

    def forget(self) -> None:
        """The connection has ended: nothing that was asked will be answered."""
        self._pending.clear()

    # -- requests ------------------------------------------------------------------------------------------------

    def version_of(self, request: Message, max_version: int | None = None) -> int:
        """The highest version that the request's class, the broker and the caller allow."""
        first, last = self.versions.get(request.API_KEY, (0, -1))
        version = min(last, request.LAST_VERSION, request.LAST_VERSION if max_version is None else max_version)
        if version < max(first, request.FIRST_VERSION):
            name = type(request).__name__.removesuffix("Request")
            raise VersionUnsupported(f"{self.broker} serves {name} {first} to {last}, which is not enough")
        return version

    def write(
        self, request: Message, answer_class: type[R], version: int, now: float = 0.0, *, answered: bool = True
    ) -> tuple[bytes, Pending[R]]:
        """The bytes of a request. If it has an answer, that is the next one behind those still under way."""
        self._correlation = self._correlation % LARGEST_CORRELATION + 1
        head = FIXED_HEADER.pack(request.API_KEY, version, self._correlation) + self._client_id
        if version >= request.FLEXIBLE_FROM:
            head += b"\0"
        body = codec.encode(request, version)
        pending = Pending(self._correlation, version, answer_class, now)
        if answered:
            self._pending.append(pending)
        return SIZE.pack(len(head) + len(body)) + head + body, pending

    def is_next(self, pending: Pending[Any]) -> bool:
        return bool(self._pending) and self._pending[0] is pending

    def read(self, frame: Buffer) -> tuple[Pending[Any], Message]:
        """The request that this frame answers, and its answer, whose `bytes` are slices of the frame.

        Raises ConnectionLost: after that the connection is of no use.
        """
        if not self._pending:
            raise ConnectionLost(f"{self.broker}: an answer came that nobody has asked for")
        pending = self._pending.popleft()
        (correlation_id,) = CORRELATION.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            raise ConnectionLost(f"{self.broker}: an answer to request {correlation_id} came out of order")
        position = CORRELATION.size
        cls, version = pending.answer_class, pending.version
        try:
            if response_has_tags(cls.API_KEY, version >= cls.FLEXIBLE_FROM):
                position = skip_header_tags(frame, position)
            return pending, codec.decode(cls, version, frame, position)[0]
        except DecodeError as error:
            raise ConnectionLost(f"{self.broker}: an answer could not be read: {error}") from error

    # -- opening -------------------------------------------------------------------------------------------------

    def opening(self, random_bytes: Callable[[int], bytes]) -> Opening:
        """Learns the broker's versions, then says who we are; raises AuthenticationFailed, ConnectionLost."""
        yield from self._learn_versions()
        if self._introduction.sasl is not None:
            yield from self._authenticate(self._introduction.sasl, random_bytes)
            if self._introduction.asks_again:
                yield from self._learn_versions()

    def _learn_versions(self) -> Opening:
        request = ApiVersionsRequest(
            client_software_name=self._introduction.software_name, client_software_version=VERSION
        )
        version = min(request.LAST_VERSION, FIRST_QUESTION_VERSION)
        answer: ApiVersionsResponse = yield Step(request, ApiVersionsResponse, version)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = yield Step(request, ApiVersionsResponse, 0)
        if answer.error_code:
            raise ConnectionLost(f"{self.broker} refused ApiVersions: {ErrorCode(answer.error_code).name}")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.finalized_features = {item.name: item.max_version_level for item in answer.finalized_features}

    def _authenticate(self, settings: SaslSettings, random_bytes: Callable[[int], bytes]) -> Opening:
        handshake: SaslHandshakeResponse = yield self._step(
            SaslHandshakeRequest(mechanism=settings.mechanism), SaslHandshakeResponse
        )
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(f"{self.broker} does not speak SASL {settings.mechanism}; it offers {offered}")
        introduction = self._introduction
        exchange = sasl.exchange(settings, random_bytes, introduction.token_of, introduction.tickets_of)
        message = next(exchange)
        while True:
            answer: SaslAuthenticateResponse = yield self._step(
                SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse
            )
            if answer.error_code:
                who = f"user {settings.username!r}" if settings.username else f"this {settings.mechanism} login"
                raise AuthenticationFailed(f"{self.broker} refused {who}: {answer.error_message}")
            try:
                message = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                self.session_seconds = answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else None
                return

    def _step(self, request: Message, answer_class: type[Message]) -> Step:
        return Step(request, answer_class, self.version_of(request))


class Frames:
    """Cuts received bytes into frames: `room` says where the next bytes belong, `received` how many have come.

    With `ahead_bytes` at its least, four, nothing beyond the frame under way is ever taken from the socket. With more,
    small frames need one call instead of two, and several are taken at once; of a frame that is larger than this only
    its first bytes are copied.
    """

    __slots__ = ("_ahead", "_ahead_filled", "_allocate", "_broker", "_filled", "_frame", "_largest")

    def __init__(
        self,
        broker: object,
        ahead_bytes: int = SIZE.size,
        largest: int = LARGEST_ANSWER,
        allocate: Callable[[int], memoryview] | None = None,
    ) -> None:
        self._broker = broker
        self._largest = largest
        self._allocate = allocate or fresh
        self._ahead = memoryview(bytearray(max(ahead_bytes, SIZE.size)))
        self._ahead_filled = 0
        self._frame: memoryview | None = None
        self._filled = 0

    def room(self) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._ahead[self._ahead_filled :]

    def received(self, count: int) -> list[memoryview]:
        """The frames that are complete now; raises ConnectionLost where the bytes are no frames."""
        if self._frame is not None:
            self._filled += count
            if self._filled < len(self._frame):
                return []
            frame, self._frame = self._frame, None
            return [frame]
        self._ahead_filled += count
        return self._cut()

    def _cut(self) -> list[memoryview]:
        found = []
        data, position, end = self._ahead, 0, self._ahead_filled
        while end - position >= SIZE.size:
            (size,) = SIZE.unpack_from(data, position)
            if not CORRELATION.size <= size <= self._largest:
                raise ConnectionLost(f"{self._broker}: this is not a Kafka broker (a frame of {size} bytes)")
            position += SIZE.size
            here = min(size, end - position)
            frame = self._allocate(size)
            frame[:here] = data[position : position + here]
            position += here
            if here < size:
                self._frame, self._filled = frame, here
                break
            found.append(frame)
        left = end - position
        data[:left] = bytes(data[position:end])
        self._ahead_filled = left
        return found


def fresh(size: int) -> memoryview:
    return memoryview(bytearray(size))
