"""A blocking client that knows frames and nothing else: bytes of a request out, bytes of an answer or its absence back.

Frame: int32 size, then size bytes. Request: int16 api key, int16 api version, int32 correlation id, nullable string
client id, tagged fields (header version 2 only), body. Answer: int32 correlation id, tagged
fields (header version 1 only), body.
"""

import socket
import struct
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

CLIENT_ID: Final = "conformance"
ANSWER_SECONDS: Final = 30.0
_CHUNK: Final = 1 << 16


class NoAnswer(Enum):
    """Ways in which a broker stays silent."""

    CLOSED = "connection closed"
    SILENT = "connection open, no answer"


def string_field(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def request_header(
    api_key: int, api_version: int, correlation_id: int, *, flexible: bool, client_id: str | None = CLIENT_ID
) -> bytes:
    tags = b"\x00" if flexible else b""
    return struct.pack(">hhi", api_key, api_version, correlation_id) + string_field(client_id) + tags


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@dataclass(slots=True)
class WireClient:
    """One connection at a time; it is opened when needed and again after the broker closed it."""

    host: str
    port: int
    source: str | None = None
    """The address to come from; by default the one that the system takes."""
    client_id: str = CLIENT_ID
    _socket: socket.socket | None = None
    _correlation: int = 0
    _unread: bytearray = field(default_factory=bytearray)

    def another(self) -> "WireClient":
        return WireClient(self.host, self.port, self.source, self.client_id)

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def exchange(self, raw: bytes, seconds: float = ANSWER_SECONDS) -> bytes | NoAnswer:
        """Send bytes as they are and return the payload of the next frame."""
        try:
            self.send(raw)
            return self.receive(seconds)
        except OSError:
            self.close()
            return NoAnswer.CLOSED

    def send(self, raw: bytes) -> None:
        self._connected().sendall(raw)

    def receive(self, seconds: float = ANSWER_SECONDS) -> bytes | NoAnswer:
        connection = self._connected()
        connection.settimeout(seconds)
        try:
            head = self._read(connection, 4)
            payload = None if head is None else self._read(connection, struct.unpack(">i", head)[0])
        except TimeoutError:
            self.close()
            return NoAnswer.SILENT
        except OSError:
            payload = None
        if payload is None:
            self.close()
            return NoAnswer.CLOSED
        return payload

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._unread.clear()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            source = None if self.source is None else (self.source, 0)
            self._socket = socket.create_connection((self.host, self.port), ANSWER_SECONDS, source)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _read(self, connection: socket.socket, size: int) -> bytes | None:
        while len(self._unread) < size:
            piece = connection.recv(_CHUNK)
            if not piece:
                return None
            self._unread += piece
        taken = bytes(self._unread[:size])
        del self._unread[:size]
        return taken
