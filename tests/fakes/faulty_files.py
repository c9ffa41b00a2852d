"""The file system in memory that forgets, with a say before every change: to count it, to fail it, to cut the power."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random

from moldau.storage.files import Buffer
from tests.fakes.lossy_files import LossyFiles


def _let_pass(_operation: str, _number: int) -> None:
    pass


class FaultyFiles(LossyFiles):
    """`before_change(operation, number)` may raise; a write that it stops is then half done."""

    def __init__(self) -> None:
        super().__init__()
        self.before_change: Callable[[str, int], None] = _let_pass
        self.changes = 0

    def heal(self) -> None:
        self.before_change = _let_pass

    def after_crash(self, random: Random) -> FaultyFiles:
        """The files as they may be found after a power cut now; these ones stay as they are."""
        found = copy.deepcopy(self)
        found.heal()
        found.crash(random)
        return found

    def after_kill(self) -> FaultyFiles:
        """The files as the next process finds them; what was not synced is not synced there either."""
        found = copy.deepcopy(self)
        found.heal()
        found._handles.clear()
        found._locks.clear()
        return found

    def content(self, path: str) -> bytes:
        fd = self.open(path)
        try:
            return self.pread(fd, self.size(fd), 0)
        finally:
            self.close(fd)

    def replace_content(self, path: str, data: bytes) -> None:
        """Changes a file behind everybody's back, durably."""
        inode = self._now[path]
        inode.data[:] = data
        inode.sync()

    def open(self, path: str, *, create: bool = False) -> int:
        if create:
            self._begin("open")
        return super().open(path, create=create)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        try:
            self._begin("pwritev")
        except BaseException:
            data = b"".join(buffers)
            self._write(self._handles[fd], data[: len(data) // 2], position)
            raise
        return super().pwritev(fd, buffers, position)

    def truncate(self, fd: int, size: int) -> None:
        self._begin("truncate")
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._begin("fdatasync")
        super().fdatasync(fd)

    def rename(self, source: str, target: str) -> None:
        self._begin("rename")
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._begin("unlink")
        super().unlink(path)

    def sync_directory(self, path: str) -> None:
        self._begin("sync_directory")
        super().sync_directory(path)

    def _begin(self, operation: str) -> None:
        self.changes += 1
        self.before_change(operation, self.changes)
