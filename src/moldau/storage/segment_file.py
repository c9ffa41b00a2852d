"""The .log file of a segment as a counted handle: whoever still reads from it keeps it open after its deletion."""

from __future__ import annotations

from moldau.storage.files import FileSystem


class SegmentFile:
    """Opened at first use, since most partitions of a large broker are idle. Counted on the owner's thread only:
    a thread that reads or syncs works on a handle that was acquired for it before and is released for it after."""

    __slots__ = ("_closed", "_fd", "_files", "_references", "_resting", "path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self._fd = -1
        self._references = 0
        self._closed = False
        self._resting = False

    @property
    def fileno(self) -> int:
        if self._fd < 0:
            self._fd = self._files.open(self.path)
        return self._fd

    def create(self) -> None:
        self._fd = self._files.open(self.path, create=True)

    def acquire(self) -> None:
        self.fileno  # noqa: B018  a file that is deleted later must be open by now
        self._references += 1

    def release(self) -> None:
        self._references -= 1
        if not self._references and (self._closed or self._resting):
            self._close_now()

    def close(self) -> None:
        """Close as soon as nobody holds it any more."""
        self._closed = True
        if not self._references:
            self._close_now()

    def rest(self) -> None:
        """Nobody is expected to need it soon: give the handle back, until the next use."""
        if self._references:
            self._resting = True
        else:
            self._close_now()

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def _close_now(self) -> None:
        self._resting = False
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)
