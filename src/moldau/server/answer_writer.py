"""The way out of a connection: answers are handed to the socket as it takes them, files piece by piece.

Small answers are joined into one write. Records are read from their file only when the socket has room; what the
socket holds unsent counts against the broker's budget. A read that would block goes to a thread, which keeps the file
open until it is done. Records that were written a moment ago, which followers ask for, go from the page cache into the
socket without being read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from moldau.server.buffers import Budget
from moldau.server.file_pieces import PIECE_BYTES, SHORT_OF_MEMORY_PIECE_BYTES, FilePiece, Piece

WRITE_HIGH_WATER_BYTES = 256 * 1024


class WriterHost(Protocol):
    budget: Budget

    def run_blocking(self, work: Callable[[], bytearray]) -> asyncio.Future[bytearray]: ...


class AnswerWriter:
    __slots__ = (
        "_failed",
        "_host",
        "_is_over",
        "_outbox",
        "_socket",
        "_transport",
        "_unsent",
        "is_paused",
        "is_reading",
    )

    def __init__(self, transport: asyncio.Transport, host: WriterHost, failed: Callable[[BaseException], None]) -> None:
        """`failed` is told that records cannot be read: the head of their answer is sent already."""
        self._transport = transport
        self._host = host
        self._failed = failed
        #: None while nothing waits: an empty deque is as large as all the rest of an idle connection's writer.
        self._outbox: deque[Piece] | None = None
        self._unsent = 0
        self._is_over = False
        self.is_paused = False
        self.is_reading = False
        self._socket = direct_socket(transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)

    @property
    def is_empty(self) -> bool:
        return not self._outbox

    def add(self, pieces: Iterable[Piece]) -> None:
        """Puts pieces behind those that wait; `pump` sends them."""
        if self._outbox is None:
            self._outbox = deque(pieces)
        else:
            self._outbox.extend(pieces)

    def pump(self) -> None:
        """Hands to the socket what it takes."""
        outbox = self._outbox
        if outbox is None:
            return
        small: list[bytes | bytearray] = []
        while outbox and not self.is_paused and not self.is_reading:
            piece = outbox[0]
            if not isinstance(piece, FilePiece):
                small.append(piece)
                outbox.popleft()
            elif small:
                self._transport.write(b"".join(small))
                small = []
            else:
                self._send_from_file(piece)
        if not outbox:
            self._outbox = None
        if small:
            self._transport.write(small[0] if len(small) == 1 else b"".join(small))

    def pause(self) -> None:
        """The socket has more than it can take."""
        self.is_paused = True
        self._unsent = self._transport.get_write_buffer_size()
        self._host.budget.take(self._unsent)

    def resume(self) -> None:
        self.is_paused = False
        self._give_back()
        self.pump()

    def close(self) -> None:
        """Nothing more is sent; files are let go, but for one that a thread is reading from."""
        self._is_over = True
        self._give_back()
        outbox, self._outbox = self._outbox, None
        if outbox:
            held = outbox[0] if self.is_reading else None
            release_files(piece for piece in outbox if piece is not held)
            outbox.clear()

    def _give_back(self) -> None:
        self._host.budget.give_back(self._unsent)
        self._unsent = 0

    def _send_from_file(self, piece: FilePiece) -> None:
        if piece.is_fresh and self._socket >= 0 and not self._transport.get_write_buffer_size():
            try:
                piece.send_now(self._socket)
            except OSError as error:
                self._fail(error)
                return
            if piece.length == 0:
                self._sent(piece)
                return
        limit = SHORT_OF_MEMORY_PIECE_BYTES if self._host.budget.exhausted else PIECE_BYTES
        try:
            data = piece.read_now(limit)
        except OSError as error:
            self._fail(error)
            return
        if data is None:
            self.is_reading = True
            future = self._host.run_blocking(lambda: piece.read_blocking(limit))
            future.add_done_callback(lambda done: self._file_read(piece, done))
        else:
            self._write(piece, data)

    def _file_read(self, piece: FilePiece, done: asyncio.Future[bytearray]) -> None:
        self.is_reading = False
        error = None if done.cancelled() else done.exception()
        if self._is_over:
            piece.file.release()
        elif done.cancelled() or error is not None:
            self._fail(error or asyncio.CancelledError())
        else:
            self._write(piece, done.result())
            self.pump()

    def _write(self, piece: FilePiece, data: bytearray) -> None:
        if piece.length == 0:
            self._sent(piece)
        self._transport.write(data)

    def _sent(self, piece: FilePiece) -> None:
        if self._outbox is not None:
            self._outbox.popleft()
            piece.file.release()

    def _fail(self, error: BaseException) -> None:
        self.close()
        self._failed(error)


def release_files(pieces: Iterable[Piece]) -> None:
    for piece in pieces:
        if isinstance(piece, FilePiece):
            piece.file.release()


def direct_socket(transport: asyncio.Transport) -> int:
    """The socket's number if what is written to it goes out as it is; -1 if it is encrypted on the way."""
    socket = transport.get_extra_info("socket")
    return -1 if socket is None or transport.get_extra_info("sslcontext") is not None else int(socket.fileno())
