"""The embedded store's folder: which files hold the entries, how they are opened, rotated and cut.

    journal-<revision>     the commits after that revision (the last one is written to)
    snapshot-<revision>    all entries at that revision
    *.tmp                  a snapshot that was not finished; removed at open
    .lock                  held while a store has the folder open

Rotation starts a new journal first and writes the snapshot after it; only when the snapshot is durable are the files it
replaces removed. Whatever the moment of a crash, one snapshot (or none, from revision 0) and an unbroken chain of
journals from it are there.

All methods block and are called from one thread at a time.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.metadata import journal
from moldau.metadata.store import (
    CommitFailedError,
    CorruptStoreError,
    OutcomeUnknownError,
    Revision,
    StoreLockedError,
    Versioned,
)
from moldau.storage.files import FileSystem, read_file, replace_file, write_fully

LOG = logging.getLogger(__name__)
LOCK_FILE = ".lock"
TEMPORARY = ".tmp"

_NAME = re.compile(r"(journal|snapshot)-(\d{20})")


@dataclass(frozen=True, slots=True)
class Loaded:
    revision: Revision
    entries: dict[str, Versioned]
    cut_bytes: int


class JournalDirectory:
    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._lock: int | None = None
        self._journal: int | None = None
        self.journal_bytes = 0
        self.snapshot_bytes = 0

    def open(self) -> Loaded:
        """Takes the folder, reads what is durable and leaves a journal open at its end."""
        if not self._files.is_directory(self._folder):
            self._files.make_directory(self._folder)
            self._files.sync_directory(os.path.dirname(self._folder) or ".")
        try:
            self._lock = self._files.lock(f"{self._folder}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise StoreLockedError(f"{self._folder} is in use by another process") from error
        try:
            return self._load()
        except BaseException:
            self.close()
            raise

    def append(self, data: bytes) -> None:
        """Makes `data` durable. CommitFailedError: nothing of it was kept. OutcomeUnknownError: nobody can tell."""
        try:
            write_fully(self._files, self._open_journal, data, self.journal_bytes)
        except OSError as error:
            self._cut_back()
            raise CommitFailedError(f"cannot write to the metadata journal: {error}") from error
        try:
            self._files.fdatasync(self._open_journal)
        except OSError as error:
            raise OutcomeUnknownError(f"cannot sync the metadata journal: {error}") from error
        self.journal_bytes += len(data)

    def start_journal(self, revision: Revision) -> None:
        """Ends the current journal; later appends go to a new one that begins after `revision`.

        OSError: the current one is still in use. OutcomeUnknownError: it is not known which files a restart would find.
        """
        started = self._files.open(self._path("journal", revision), create=True)
        try:
            self._files.sync_directory(self._folder)
        except OSError as error:
            self._files.close(started)
            raise OutcomeUnknownError(f"cannot sync {self._folder}: {error}") from error
        self._files.close(self._open_journal)
        self._journal = started
        self.journal_bytes = 0

    def write_snapshot(self, revision: Revision, frames: Sequence[bytes]) -> None:
        """Makes the snapshot durable under its name and removes the files that it replaces."""
        data = b"".join(frames)
        replace_file(self._files, self._path("snapshot", revision), data)
        self.snapshot_bytes = len(data)
        self._remove_before(revision)

    def close(self) -> None:
        if self._journal is not None:
            self._files.close(self._journal)
            self._journal = None
        if self._lock is not None:
            self._files.close(self._lock)
            self._lock = None

    @property
    def _open_journal(self) -> int:
        assert self._journal is not None
        return self._journal

    def _cut_back(self) -> None:
        try:
            self._files.truncate(self._open_journal, self.journal_bytes)
            self._files.fdatasync(self._open_journal)
        except OSError as error:
            raise OutcomeUnknownError(f"cannot cut an unfinished write off the metadata journal: {error}") from error

    def _load(self) -> Loaded:
        journals, snapshots = self._names()
        revision = snapshots[-1] if snapshots else 0
        entries: dict[str, Versioned] = {}
        if snapshots:
            entries = self._read_snapshot(revision)
        needed = [first for first in journals if first >= revision]
        if (journals or snapshots) and needed[:1] != [revision]:
            raise CorruptStoreError(self._path("journal", revision), 0, "the file is missing")
        cut = 0
        for first in needed:
            revision, cut = self._replay(first, revision, entries, last=first == needed[-1])
        self._journal = self._files.open(self._path("journal", needed[-1] if needed else revision), create=not needed)
        # A process that was killed may have left what is visible but not durable; nothing may build on that.
        self._cut_back()
        self._files.sync_directory(self._folder)
        self._remove_before(snapshots[-1] if snapshots else 0)
        return Loaded(revision, entries, cut)

    def _read_snapshot(self, revision: Revision) -> dict[str, Versioned]:
        path = self._path("snapshot", revision)
        data = read_file(self._files, path)
        written, entries = journal.decode_snapshot(data, path)
        if written != revision:
            raise CorruptStoreError(path, journal.FRAME_HEAD_BYTES, f"its head says revision {written}")
        self.snapshot_bytes = len(data)
        return entries

    def _replay(
        self, first: Revision, revision: Revision, entries: dict[str, Versioned], *, last: bool
    ) -> tuple[Revision, int]:
        path = self._path("journal", first)
        if first != revision:
            raise CorruptStoreError(path, 0, f"the files before it end at revision {revision}")
        data = read_file(self._files, path)
        replayed = journal.replay(data, path, last=last)
        for number, changes in replayed.commits:
            if number != revision + 1:
                raise CorruptStoreError(path, 0, f"revision {number} follows {revision}")
            revision = number
            for change in changes:
                if change.entry is None:
                    entries.pop(change.path, None)
                else:
                    entries[change.path] = change.entry
        cut = len(data) - replayed.valid_bytes
        if cut:
            LOG.warning("%s: cut %d bytes of an unfinished write at byte %d", path, cut, replayed.valid_bytes)
        self.journal_bytes = replayed.valid_bytes
        return revision, cut

    def _names(self) -> tuple[list[Revision], list[Revision]]:
        found: dict[str, list[Revision]] = {"journal": [], "snapshot": []}
        for name in self._files.list(self._folder):
            if match := _NAME.fullmatch(name):
                found[match[1]].append(int(match[2]))
            elif name.endswith(TEMPORARY):
                self._files.unlink(f"{self._folder}/{name}")
        return sorted(found["journal"]), sorted(found["snapshot"])

    def _remove_before(self, revision: Revision) -> None:
        journals, snapshots = self._names()
        for kind, numbers in (("snapshot", snapshots), ("journal", journals)):
            for number in numbers:
                if number < revision:
                    self._files.unlink(self._path(kind, number))

    def _path(self, kind: str, revision: Revision) -> str:
        return f"{self._folder}/{kind}-{revision:020d}"
