"""A Kafka connection without a Kafka client, for requests that no client would send.

A frame is a 4-byte big-endian length and that many bytes. A request header (version 1) is
    api key i16 | api version i16 | correlation id i32 | client id: i16 length + bytes
and a response header (version 0) is the correlation id alone.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType

API_VERSIONS = 18
METADATA = 3
PRODUCE = 0
FETCH = 1


def request(api_key: int, version: int, body: bytes, correlation_id: int = 1, client_id: bytes = b"raw") -> bytes:
    """One whole request frame with a version 1 header."""
    head = struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id
    return struct.pack(">i", len(head) + len(body)) + head + body


def string(text: str) -> bytes:
    """A string as versions before the compact forms write it."""
    return struct.pack(">h", len(text.encode())) + text.encode()


def fetch_body(topic: str, offset: int = 0, wait_ms: int = 0, max_bytes: int = 50 << 20) -> bytes:
    """Fetch v4 of one topic's partition 0; with a wait it asks for more than there will ever be."""
    min_bytes = 1 if wait_ms == 0 else 2**31 - 1
    head = struct.pack(">iiiib", -1, wait_ms, min_bytes, max_bytes, 0)
    return head + struct.pack(">i", 1) + string(topic) + struct.pack(">iiqi", 1, 0, offset, max_bytes)


class RawConnection:
    """A blocking socket that knows frames."""

    def __init__(self, address: str, seconds: float = 20.0, source: str = "") -> None:
        host, port = address.rsplit(":", 1)
        # A bound source takes a port of its own from the system for each connection, and those run out.
        bound = (source, 0) if source else None
        self.socket = socket.create_connection((host, int(port)), timeout=seconds, source_address=bound)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            piece = self.socket.recv(size - len(parts))
            if not piece:
                return None
            parts += piece
        return bytes(parts)

    def receive(self) -> bytes | None:
        """The next frame's content, None when the broker closed the connection."""
        try:
            head = self._exactly(4)
            return None if head is None else self._exactly(struct.unpack(">i", head)[0])
        except (ConnectionResetError, BrokenPipeError):
            return None

    def is_closed_by_peer(self) -> bool:
        """Waits for the end of the stream; anything the broker still says is read and dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False
        return True


def api_versions(connection: RawConnection, correlation_id: int = 7) -> int:
    """Asks ApiVersions v0 and returns how many APIs the broker announces."""
    connection.send(request(API_VERSIONS, 0, b"", correlation_id))
    answer = connection.receive()
    if answer is None:
        raise ConnectionError("closed instead of an ApiVersions answer")
    echoed, error, count = struct.unpack_from(">ihi", answer)
    if echoed != correlation_id or error != 0:
        raise ConnectionError(f"ApiVersions answered correlation id {echoed}, error {error}")
    return int(count)


def known_brokers(connection: RawConnection) -> int:
    """Asks Metadata v1 for no topic and returns how many brokers the answer lists."""
    connection.send(request(METADATA, 1, struct.pack(">i", 0)))
    answer = connection.receive()
    if answer is None:
        raise ConnectionError("closed instead of a Metadata answer")
    return int(struct.unpack_from(">ii", answer)[1])


def answers(address: str) -> bool:
    """Whether a broker at this address serves a Metadata request that lists at least one broker."""
    try:
        with RawConnection(address, seconds=5.0) as connection:
            return known_brokers(connection) > 0
    except OSError:
        return False
