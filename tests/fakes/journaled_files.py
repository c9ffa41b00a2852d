"""A lossy file system whose folders behave as a journaling file system's do: creating, renaming and removing a name
each happen wholly or not at all. After a power cut either a first part of what was not synced is there, or any part."""

from __future__ import annotations

import os
from random import Random

from tests.fakes.lossy_files import LossyFiles, _Inode


class JournaledFiles(LossyFiles):
    def __init__(self) -> None:
        super().__init__()
        self._journal: list[tuple[str, str, _Inode | str | None]] = []

    def open(self, path: str, *, create: bool = False) -> int:
        is_new = path not in self._now
        fd = super().open(path, create=create)
        if is_new:
            self._journal.append(("create", path, self._now[path]))
        return fd

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._journal.append(("rename", source, target))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._journal.append(("unlink", path, None))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self._journal = [entry for entry in self._journal if os.path.dirname(entry[1]) != path]

    def crash(self, random: Random) -> None:
        if random.random() < 0.5:
            happened = self._journal[: random.randint(0, len(self._journal))]
        else:
            happened = [entry for entry in self._journal if random.random() < 0.5]
        names = dict(self._disk)
        for kind, path, other in happened:
            if kind == "create":
                assert isinstance(other, _Inode)
                names[path] = other
            elif kind == "unlink":
                names.pop(path, None)
            elif path in names:
                assert isinstance(other, str)
                names[other] = names.pop(path)
        for inode in set(names.values()):
            inode.lose(random)
        self._journal = []
        self._restart(names)
