"""An answer on its way out: bytes, and pieces of segment files that are read only when the socket has room for them."""

from __future__ import annotations

import errno
import os
from typing import Protocol, TypeAlias

PIECE_BYTES = 1024 * 1024
SHORT_OF_MEMORY_PIECE_BYTES = 64 * 1024
#: Kernels and filesystems that cannot tell whether a read would block (tmpfs: EOPNOTSUPP) send it to a thread.
WOULD_BLOCK = frozenset((errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL))
#: Of filesystems whose pages cannot be handed over.
WITHOUT_SENDFILE = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP))
NOWAIT = getattr(os, "RWF_NOWAIT", 0)


class ReadableFile(Protocol):
    """A segment's file; whoever holds a reference keeps it open, also after the segment was deleted."""

    @property
    def fileno(self) -> int: ...

    def release(self) -> None: ...


class FilePiece:
    __slots__ = ("file", "is_fresh", "length", "position")

    def __init__(self, file: ReadableFile, position: int, length: int, is_fresh: bool = False) -> None:
        """`is_fresh`: written a moment ago, so that its pages are in memory and nobody waits for a disk."""
        self.file = file
        self.position = position
        self.length = length
        self.is_fresh = is_fresh

    def send_now(self, socket: int) -> None:
        """Hands to a socket what it takes at once: pages, not copies of them. What it does not take, or cannot take
        in this way, is left to be read."""
        try:
            sent = os.sendfile(socket, self.file.fileno, self.position, self.length)
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            if error.errno in WITHOUT_SENDFILE:
                return
            raise
        self.position += sent
        self.length -= sent

    def read_now(self, limit: int) -> bytearray | None:
        """Reads from the page cache; None if the disk would have to be asked (then `read_blocking` belongs in a
        thread).
        """
        buffer = bytearray(min(self.length, limit))
        try:
            got = os.preadv(self.file.fileno, [buffer], self.position, NOWAIT)
        except OSError as error:
            if error.errno in WOULD_BLOCK:
                return None
            raise
        return self._advance(buffer, got) if got else None

    def read_blocking(self, limit: int) -> bytearray:
        buffer = bytearray(min(self.length, limit))
        got = os.preadv(self.file.fileno, [buffer], self.position)
        if got == 0:
            raise OSError(errno.EIO, "the segment became shorter while it was being sent")
        return self._advance(buffer, got)

    def _advance(self, buffer: bytearray, got: int) -> bytearray:
        if got < len(buffer):
            del buffer[got:]
        self.position += got
        self.length -= got
        return buffer


Piece: TypeAlias = bytes | bytearray | FilePiece
