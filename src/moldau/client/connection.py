"""One connection to one broker: dialled, secured, its versions known, requests answered in the order they were sent.

A request goes out at the highest version that both sides know. `call` waits for its answer; `send` and `receive` let
several requests be under way. `bytes` fields of an answer (record batches above all) are views of the received frame.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from struct import Struct
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from moldau.client import sasl
from moldau.client.errors import AuthenticationFailed, ClientError, ConnectionLost, VersionUnsupported
from moldau.client.settings import Address, ClientSettings, SaslSettings
from moldau.client.tls import context_for
from moldau.types.errors import ErrorCode
from moldau.version import VERSION
from moldau.wire import codec
from moldau.wire.framing import response_has_tags, skip_header_tags
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.wire.primitives import DecodeError
from moldau.wire.primitives import string as legacy_string
from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)

HEAD: Final = Struct(">hhi")
SIZE: Final = Struct(">i")
CORRELATION: Final = Struct(">i")
LARGEST_ANSWER: Final = (1 << 31) - 1


class Pending(Generic[R]):
    """A request that was sent and whose answer was not read yet."""

    __slots__ = ("answer_class", "correlation_id", "sent_at", "version")

    def __init__(self, correlation_id: int, version: int, answer_class: type[R], sent_at: float) -> None:
        self.correlation_id = correlation_id
        self.version = version
        self.answer_class = answer_class
        self.sent_at = sent_at


class Connection:
    def __init__(
        self, address: Address, settings: ClientSettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.address = address
        self._settings = settings
        self._monotonic = monotonic
        self._correlation = itertools.count(1)
        self._pending: deque[Pending[Any]] = deque()
        self.versions: dict[int, tuple[int, int]] = {}
        self.finalized_features: dict[str, int] = {}
        self.round_trip_seconds = float("inf")
        """The shortest time that an answer has taken."""
        self._socket = self._dial()
        try:
            self._learn_versions()
            if settings.sasl is not None:
                self._authenticate(settings.sasl)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def close(self) -> None:
        self._pending.clear()
        self._socket.close()

    def interrupt(self) -> None:
        """Called from another thread: whoever waits here for an answer sees a lost connection at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    # -- requests ------------------------------------------------------------------------------------------------

    def supports(self, api_key: int) -> bool:
        return api_key in self.versions

    def version_of(self, request: Message, max_version: int | None = None) -> int:
        """The highest version that the request's class, the broker and the caller allow."""
        first, last = self.versions.get(request.API_KEY, (0, -1))
        version = min(last, request.LAST_VERSION, request.LAST_VERSION if max_version is None else max_version)
        if version < max(first, request.FIRST_VERSION):
            name = type(request).__name__.removesuffix("Request")
            raise VersionUnsupported(f"{self.address} serves {name} {first} to {last}, which is not enough")
        return version

    def call(self, request: Message, answer_class: type[R], *, max_version: int | None = None) -> R:
        return self.receive(self.send(request, answer_class, max_version=max_version))

    def send(self, request: Message, answer_class: type[R], *, max_version: int | None = None) -> Pending[R]:
        pending = self._write(request, answer_class, self.version_of(request, max_version))
        self._pending.append(pending)
        return pending

    def send_only(self, request: Message, *, max_version: int | None = None) -> None:
        """For a request without an answer: Produce with acks 0."""
        self._write(request, ApiVersionsResponse, self.version_of(request, max_version))

    def receive(self, pending: Pending[R]) -> R:
        if not self._pending or self._pending[0] is not pending:
            raise ClientError(f"{self.address}: answers are read in the order of their requests")
        self._pending.popleft()
        return self._read(pending)

    def fileno(self) -> int:
        return self._socket.fileno()

    # -- frames --------------------------------------------------------------------------------------------------

    def _write(self, request: Message, answer_class: type[R], version: int) -> Pending[R]:
        correlation_id = next(self._correlation)
        head = HEAD.pack(request.API_KEY, version, correlation_id) + legacy_string(self._settings.client_id)
        if version >= request.FLEXIBLE_FROM:
            head += b"\0"
        body = codec.encode(request, version)
        try:
            self._socket.sendall(SIZE.pack(len(head) + len(body)) + head + body)
        except OSError as error:
            raise self._lost(error) from error
        return Pending(correlation_id, version, answer_class, self._monotonic())

    def _read(self, pending: Pending[R]) -> R:
        frame = self._read_frame()
        self.round_trip_seconds = min(self.round_trip_seconds, self._monotonic() - pending.sent_at)
        (correlation_id,) = CORRELATION.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            self.close()
            raise ConnectionLost(f"{self.address}: an answer to request {correlation_id} came out of order")
        position = CORRELATION.size
        cls, version = pending.answer_class, pending.version
        try:
            if response_has_tags(cls.API_KEY, version >= cls.FLEXIBLE_FROM):
                position = skip_header_tags(frame, position)
            return codec.decode(cls, version, frame, position)[0]
        except DecodeError as error:
            self.close()
            raise ConnectionLost(f"{self.address}: an answer could not be read: {error}") from error

    def _read_frame(self) -> memoryview:
        try:
            (size,) = SIZE.unpack(self._read_exactly(SIZE.size))
            if not CORRELATION.size <= size <= LARGEST_ANSWER:
                raise ConnectionLost(f"{self.address}: this is not a Kafka broker (a frame of {size} bytes)")
            return self._read_exactly(size)
        except OSError as error:
            raise self._lost(error) from error

    def _read_exactly(self, size: int) -> memoryview:
        buffer = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            received = self._socket.recv_into(buffer[filled:])
            if received == 0:
                raise ConnectionResetError("the broker closed the connection")
            filled += received
        return buffer

    def _lost(self, error: OSError) -> ConnectionLost:
        self.close()
        if isinstance(error, TimeoutError):
            return ConnectionLost(f"{self.address} did not answer within {self._settings.request_seconds:g} s")
        return ConnectionLost(f"{self.address}: {error}")

    # -- opening -------------------------------------------------------------------------------------------------

    def _dial(self) -> socket.socket:
        try:
            plain = socket.create_connection(self.address, timeout=self._settings.connect_seconds)
        except OSError as error:
            raise ConnectionLost(f"cannot reach a broker at {self.address}: {error}") from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._settings.receive_buffer_bytes > 0:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._settings.receive_buffer_bytes)
            dialled = plain
            if self._settings.tls is not None:
                dialled = context_for(self._settings.tls).wrap_socket(plain, server_hostname=self.address.host)
            dialled.settimeout(self._settings.request_seconds)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise AuthenticationFailed(
                f"{self.address}: its certificate is not trusted: {error.verify_message}"
            ) from error
        except OSError as error:
            plain.close()
            raise ConnectionLost(f"{self.address}: {error}") from error
        return dialled

    def _learn_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="moldau", client_software_version=VERSION)
        answer = self._read(self._write(request, ApiVersionsResponse, min(request.LAST_VERSION, 3)))
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self._read(self._write(request, ApiVersionsResponse, 0))
        if answer.error_code:
            raise ConnectionLost(f"{self.address} refused ApiVersions: {ErrorCode(answer.error_code).name}")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.finalized_features = {item.name: item.max_version_level for item in answer.finalized_features}

    def _authenticate(self, settings: SaslSettings) -> None:
        handshake = self.call(SaslHandshakeRequest(mechanism=settings.mechanism), SaslHandshakeResponse)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(f"{self.address} does not speak SASL {settings.mechanism}; it offers {offered}")
        exchange = sasl.exchange(settings, os.urandom)
        message = next(exchange)
        while True:
            answer = self.call(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
            if answer.error_code:
                raise AuthenticationFailed(f"{self.address} refused user {settings.username!r}: {answer.error_message}")
            try:
                message = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                return
