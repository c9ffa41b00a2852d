"""The disk of one simulated machine; handles are numbered for the whole process, so that the product's own reads of a
descriptor find the file.
"""

from __future__ import annotations

from itertools import count
from random import Random
from types import SimpleNamespace

from moldau.storage.files import WritableBuffer
from tests.fakes.lossy_files import LossyFiles

_numbers = count(1_000_000)
_owners: dict[int, SimulatedDisk] = {}


class SimulatedDisk(LossyFiles):
    def _handle(self, inode: object) -> int:
        number = next(_numbers)
        self._handles[number] = inode  # type: ignore[assignment]
        _owners[number] = self
        return number

    def close(self, fd: int) -> None:
        super().close(fd)
        _owners.pop(fd, None)

    def process_died(self) -> None:
        self._forget_handles()
        self.kill()

    def power_failed(self, random: Random) -> None:
        self._forget_handles()
        self.crash(random)

    def wiped(self) -> None:
        self._forget_handles()
        self.__init__()  # type: ignore[misc]

    def _forget_handles(self) -> None:
        for number in self._handles:
            _owners.pop(number, None)


def preadv(fd: int, buffers: list[WritableBuffer], position: int, flags: int = 0) -> int:
    return _owners[fd].preadv(fd, buffers, position)


def pread(fd: int, length: int, position: int) -> bytes:
    return _owners[fd].pread(fd, length, position)


#: Stands for the module `os` where the product reads from descriptors.
READING_OS = SimpleNamespace(preadv=preadv, pread=pread, RWF_NOWAIT=0)
