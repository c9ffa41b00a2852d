"""An answer on its way out: bytes, and pieces of segment files that are read only when the socket has room for them."""

from __future__ import annotations

import errno
import os
from typing import Protocol, TypeAlias

PIECE_BYTES = 1024 * 1024
SHORT_OF_MEMORY_PIECE_BYTES = 64 * 1024
#: Kernels and filesystems that cannot tell whether a read would block (tmpfs: EOPNOTSUPP) send it to a thread.
WOULD_BLOCK = frozenset((errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL))
NOWAIT = getattr(os, "RWF_NOWAIT", 0)


class ReadableFile(Protocol):
    """A segment's file; whoever holds a reference keeps it open, also after the segment was deleted."""

    @property
    def fileno(self) -> int: ...

    def release(self) -> None: ...


class FilePiece:
    __slots__ = ("file", "length", "position")

    def __init__(self, file: ReadableFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

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
