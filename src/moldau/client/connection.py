"""One connection to one broker: dialled, secured, its versions known, requests answered in the order they were sent.

A request goes out at the highest version that both sides know. `call` waits for its answer; `send` and `receive` let
several requests be under way. `bytes` fields of an answer (record batches above all) are views of the received frame.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from moldau.client.core import ClientCore, Frames, Introduction, Pending
from moldau.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from moldau.client.oauth import token_of
from moldau.client.settings import Address, ClientSettings
from moldau.client.ticket_source import Initiator, TicketSource
from moldau.client.tickets import tickets_of
from moldau.client.tls import context_for
from moldau.wire.messages.api_versions import ApiVersionsResponse
from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)


class Connection:
    def __init__(
        self, address: Address, settings: ClientSettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.address = address
        self._settings = settings
        self._monotonic = monotonic
        introduction = Introduction(
            settings.client_id, sasl=settings.sasl, token_of=token_of, tickets_of=self._begin_tickets
        )
        self._core = ClientCore(address, introduction)
        self._frames = Frames(address)
        self.round_trip_seconds = float("inf")
        """The shortest time that an answer has taken."""
        self._began = monotonic()
        self._socket = self._dial()
        try:
            self._open()
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
    def is_stale(self) -> bool:
        """Whether its login is about to end."""
        return self._core.is_stale(self._monotonic() - self._began)

    @property
    def in_flight(self) -> int:
        return self._core.in_flight

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        return self._core.versions

    @property
    def finalized_features(self) -> dict[str, int]:
        return self._core.finalized_features

    def close(self) -> None:
        self._core.forget()
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
        return self._core.version_of(request, max_version)

    def call(self, request: Message, answer_class: type[R], *, max_version: int | None = None) -> R:
        return self.receive(self.send(request, answer_class, max_version=max_version))

    def send(self, request: Message, answer_class: type[R], *, max_version: int | None = None) -> Pending[R]:
        return self._write(request, answer_class, self.version_of(request, max_version))

    def send_only(self, request: Message, *, max_version: int | None = None) -> None:
        """For a request without an answer: Produce with acks 0."""
        self._write(request, ApiVersionsResponse, self.version_of(request, max_version), answered=False)

    def receive(self, pending: Pending[R]) -> R:
        if not self._core.is_next(pending):
            raise ClientError(f"{self.address}: answers are read in the order of their requests")
        return self._read(pending)

    def fileno(self) -> int:
        return self._socket.fileno()

    # -- frames --------------------------------------------------------------------------------------------------

    def _write(self, request: Message, answer_class: type[R], version: int, *, answered: bool = True) -> Pending[R]:
        data, pending = self._core.write(request, answer_class, version, answered=answered)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error
        pending.sent_at = self._monotonic()
        return pending

    def _read(self, pending: Pending[R]) -> R:
        try:
            frame = self._read_frame()
            self.round_trip_seconds = min(self.round_trip_seconds, self._monotonic() - pending.sent_at)
            answer = self._core.read(frame)[1]
        except ConnectionLost:
            self.close()
            raise
        assert isinstance(answer, pending.answer_class)
        return answer

    def _read_frame(self) -> memoryview:
        frames: list[memoryview] = []
        try:
            while not frames:
                received = self._socket.recv_into(self._frames.room())
                if received == 0:
                    raise ConnectionResetError("the broker closed the connection")
                frames = self._frames.received(received)
        except OSError as error:
            raise self._lost(error) from error
        (frame,) = frames
        return frame

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

    def _begin_tickets(self, source: TicketSource) -> Initiator:
        return tickets_of(source, self.address.host)

    def _open(self) -> None:
        opening = self._core.opening(os.urandom)
        try:
            step = next(opening)
            while True:
                step = opening.send(self._read(self._write(*step)))
        except StopIteration:
            return
