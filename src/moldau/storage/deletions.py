"""What waits to be removed from disk, and the small work that follows a removal. All of it blocks, so it is handed out
in lots, to be run where that does no harm."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from moldau.storage.files import FileSystem, remove_if_exists
from moldau.storage.log_directory import LogDirectory
from moldau.types.ids import TopicPartition

log = logging.getLogger("moldau.storage.deletions")

Chore: TypeAlias = Callable[[], None]
PATHS_PER_LOT = 16


@dataclass(frozen=True, slots=True)
class _Doomed:
    due_ms: int
    directory: LogDirectory
    paths: Sequence[str]
    is_folder: bool


class Deletions:
    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._doomed: list[_Doomed] = []
        self._chores: list[tuple[LogDirectory, Chore]] = []
        self._renamed: dict[str, tuple[LogDirectory, set[TopicPartition]]] = {}

    def add_files(self, due_ms: int, directory: LogDirectory, paths: Sequence[str]) -> None:
        self._doomed.append(_Doomed(due_ms, directory, paths, is_folder=False))

    def add_folder(self, due_ms: int, directory: LogDirectory, path: str) -> None:
        self._doomed.append(_Doomed(due_ms, directory, [path], is_folder=True))

    def add_chore(self, directory: LogDirectory, chore: Chore) -> None:
        """Something that blocks and can wait for the next round."""
        self._chores.append((directory, chore))

    def renamed(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """A partition's folder got another name: the directory is to be synced, its checkpoints are to forget it."""
        self._renamed.setdefault(directory.path, (directory, set()))[1].add(partition)

    def take_chores(self) -> list[tuple[LogDirectory, Chore]]:
        chores, self._chores = self._chores, []
        renamed, self._renamed = self._renamed, {}
        for directory, partitions in renamed.values():
            chores.extend((directory, write) for write in directory.forget(partitions))
            chores.append((directory, lambda path=directory.path: self._files.sync_directory(path)))  # type: ignore[misc]
        return chores

    def take_due(self, now_ms: int) -> Iterator[tuple[LogDirectory, int, Chore]]:
        """Lots of one directory each: how many things go, and the work."""
        due = [each for each in self._doomed if each.due_ms <= now_ms]
        self._doomed = [each for each in self._doomed if each.due_ms > now_ms]
        by_directory: dict[str, list[_Doomed]] = {}
        for each in due:
            by_directory.setdefault(each.directory.path, []).append(each)
        for group in by_directory.values():
            for start in range(0, len(group), PATHS_PER_LOT):
                lot = group[start : start + PATHS_PER_LOT]
                yield lot[0].directory, len(lot), lambda lot=lot: self._remove(lot)  # type: ignore[misc]

    def _remove(self, lot: Sequence[_Doomed]) -> None:
        for doomed in lot:
            for path in doomed.paths:
                if doomed.is_folder:
                    self._remove_folder(path)
                else:
                    remove_if_exists(self._files, path)

    def _remove_folder(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in self._files.list(path):
                remove_if_exists(self._files, os.path.join(path, name))
            self._files.remove_directory(path)
            log.info("deleted %s", path)
