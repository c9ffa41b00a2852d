"""The disks of one simulated machine, one for each of its log directories; handles are numbered for the whole process,
so that the product's own reads of a descriptor find the file.

Any of the disks may be broken: whatever is asked of it then fails, except for what a kernel knows without asking. Any
may be replaced by an empty one while the broker is down.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import ClassVar

from moldau.storage.files import Buffer, FileStatus, WritableBuffer
from tests.fakes.lossy_files import LossyFiles, is_inside

_numbers = count(1_000_000)
_owners: dict[int, SimulatedDisk] = {}


class SimulatedDisk(LossyFiles):
    #: By whoever judges, who sees what is on broken disks, too.
    is_looked_into: ClassVar[bool] = False

    def __init__(self, directories: Sequence[str] = ()) -> None:
        super().__init__()
        #: Log directories whose disks are broken.
        self.broken: set[str] = set()
        self._paths: dict[int, str] = {}
        for directory in directories:
            self.make_directory(directory)

    def _handle(self, inode: object) -> int:
        number = next(_numbers)
        self._handles[number] = inode  # type: ignore[assignment]
        _owners[number] = self
        return number

    def close(self, fd: int) -> None:
        super().close(fd)
        _owners.pop(fd, None)
        self._paths.pop(fd, None)

    def process_died(self) -> None:
        self._forget_handles()
        self.kill()

    def power_failed(self, random: Random) -> None:
        self._forget_handles()
        self.crash(random)

    def replaced(self, directory: str) -> None:
        """By an empty one. Nobody has anything open."""
        for files in (self._now, self._disk):
            for path in [each for each in files if is_inside(each, directory)]:
                del files[path]
        self._pending = {
            folder: changes for folder, changes in self._pending.items() if not is_inside(folder, directory)
        }
        self._folders = {folder for folder in self._folders if not is_inside(folder, directory)}
        self.make_directory(directory)

    def _forget_handles(self) -> None:
        for number in self._handles:
            _owners.pop(number, None)
        self._paths.clear()

    # --- a broken disk ---

    def _reach(self, path: str) -> None:
        if self.broken and not self.is_looked_into and any(is_inside(path, directory) for directory in self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _reach_file(self, fd: int) -> None:
        if self.broken and not self.is_looked_into:
            self._reach(self._paths[fd])

    def open(self, path: str, *, create: bool = False) -> int:
        self._reach(path)
        number = super().open(path, create=create)
        self._paths[number] = path
        return number

    def duplicate(self, fd: int) -> int:
        number = super().duplicate(fd)
        self._paths[number] = self._paths[fd]
        return number

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._reach_file(fd)
        return super().pwritev(fd, buffers, position)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self._reach_file(fd)
        return super().pread(fd, length, position)

    def truncate(self, fd: int, size: int) -> None:
        self._reach_file(fd)
        super().truncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        self._reach_file(fd)
        super().allocate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._reach_file(fd)
        super().fdatasync(fd)

    def rename(self, source: str, target: str) -> None:
        self._reach(source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._reach(path)
        super().unlink(path)

    def status(self, path: str) -> FileStatus:
        self._reach(path)
        return super().status(path)

    def list(self, directory: str) -> list[str]:
        self._reach(directory)
        return super().list(directory)

    def make_directory(self, path: str) -> None:
        self._reach(path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._reach(path)
        super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self._reach(path)
        super().sync_directory(path)


@contextmanager
def looked_into() -> Iterator[None]:
    SimulatedDisk.is_looked_into = True
    try:
        yield
    finally:
        SimulatedDisk.is_looked_into = False


def preadv(fd: int, buffers: list[WritableBuffer], position: int, flags: int = 0) -> int:
    return _owners[fd].preadv(fd, buffers, position)


def pread(fd: int, length: int, position: int) -> bytes:
    return _owners[fd].pread(fd, length, position)


#: Stands for the module `os` where the product reads from descriptors.
READING_OS = SimpleNamespace(preadv=preadv, pread=pread, RWF_NOWAIT=0)
