"""Making a log's data survive a power cut."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem, replace_file, sync_file

# What a folder holds when its log is opened may never have been synced.
_FIRST_FOLDER_STATE = 1


class _Covered(NamedTuple):
    """How much of what is pending a piece of work takes care of."""

    names: int
    folder: int
    sealed_before: int
    epochs: int


class EpochsFile:
    """The file of the leader epochs, which flushes in several threads may want to write: one at a time, and an older
    state never over a newer one."""

    __slots__ = ("_lock", "_written")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written = 0

    def write(self, files: FileSystem, path: str, content: bytes, version: int) -> None:
        with self._lock:
            if version > self._written:
                replace_file(files, path, content)
                self._written = version


class PendingSync:
    """What of a log, besides its records, is not known to be on disk. Several flushes may be under way at once and end
    in any order: each covers all that is pending when it begins, and nothing is settled before one has succeeded."""

    __slots__ = (
        "_epochs_synced",
        "_first_names",
        "_folder",
        "_folder_synced",
        "_names",
        "_names_settled",
        "_sealed_before",
        "epochs_file",
    )

    def __init__(self, names: Iterable[str]) -> None:
        self.epochs_file = EpochsFile()
        self._names = list(names)
        self._first_names = len(self._names)
        self._names_settled = 0
        self._folder = _FIRST_FOLDER_STATE
        self._folder_synced = 0
        self._epochs_synced = 0
        self._sealed_before: list[int] = []

    def add_files(self, names: Iterable[str]) -> None:
        self._names += names

    def folder_changed(self) -> None:
        """Files were made, renamed or removed."""
        self._folder += 1

    def segment_sealed(self, next_base_offset: int) -> None:
        """The files beside the records of a segment were completed; the next segment begins at this offset."""
        self._sealed_before.append(next_base_offset)

    def truncated_to(self, offset: int) -> None:
        self._sealed_before = [base for base in self._sealed_before if base <= offset]

    @property
    def is_as_at_first(self) -> bool:
        """Nothing has become pending since the log was opened."""
        as_many = self._names_settled == 0 and len(self._names) == self._first_names
        return as_many and self._folder == _FIRST_FOLDER_STATE and not self._sealed_before

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._names)

    @property
    def is_folder_changed(self) -> bool:
        return self._folder_synced < self._folder

    def are_epochs_changed(self, version: int) -> bool:
        return self._epochs_synced < version

    def covered(self, epochs_version: int) -> _Covered:
        sealed = self._sealed_before[-1] if self._sealed_before else -1
        return _Covered(self._names_settled + len(self._names), self._folder, sealed, epochs_version)

    def settle(self, covered: _Covered) -> None:
        del self._names[: max(0, covered.names - self._names_settled)]
        self._names_settled = max(self._names_settled, covered.names)
        self._folder_synced = max(self._folder_synced, covered.folder)
        self._epochs_synced = max(self._epochs_synced, covered.epochs)
        self._sealed_before = [base for base in self._sealed_before if base > covered.sealed_before]

    def limit(self, offset: int) -> int:
        """How far the recovery point may go: into a segment, but not past it, whose other files are pending."""
        return min(offset, self._sealed_before[0] - 1) if self._sealed_before else offset


class FlushWork:
    """Everything that has to reach the disk before a recovery point may move. Owns its handles and touches nothing of
    the log, so it may run in a thread while the log is appended to. To be called exactly once; an error is final: after
    a failed sync the kernel may have dropped the data, and a second one would lie."""

    __slots__ = (
        "_epochs",
        "_epochs_file",
        "_files",
        "_folder",
        "_folder_changed",
        "_handles",
        "_names",
        "covered",
        "done",
        "generation",
        "up_to",
    )

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        pending: PendingSync,
        *,
        up_to: int,
        generation: int,
        handles: Sequence[int],
        epochs: bytes,
        epochs_path: str,
        epochs_version: int,
    ) -> None:
        self._files = files
        self._folder = folder
        self.up_to = up_to
        self.generation = generation
        self.covered = pending.covered(epochs_version)
        self.done = False
        self._names = pending.names
        self._folder_changed = pending.is_folder_changed
        self._epochs = (epochs_path, epochs, epochs_version) if pending.are_epochs_changed(epochs_version) else None
        self._epochs_file = pending.epochs_file
        self._handles = [files.duplicate(fd) for fd in handles]

    def __call__(self) -> None:
        try:
            for fd in self._handles:
                self._files.fdatasync(fd)
            for name in self._names:
                with contextlib.suppress(FileNotFoundError):  # its segment was deleted or replaced meanwhile
                    sync_file(self._files, f"{self._folder}/{name}")
            if self._epochs is not None:
                self._epochs_file.write(self._files, *self._epochs)
            if self._folder_changed:
                self._files.sync_directory(self._folder)
            self.done = True
        except OSError as error:
            raise LogIOError(error.filename or self._folder, error) from error
        finally:
            for fd in self._handles:
                self._files.close(fd)
            self._handles = []
