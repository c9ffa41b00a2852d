"""The embedded metadata store: one process, crash-safe files in one folder.

Commits are checked against the entries as all earlier commits will leave them, then queued. A single writer takes
everything queued as one frame, writes and syncs it, and only then makes it visible: entries, watchers, answers. Files
are touched only through `run_blocking`, so a slow disk never stalls the event loop.

A write that fails is cut off again and fails its commits; the store goes on. If it cannot be cut off, or a sync fails,
nobody knows what the disk holds: the store stops serving and tells its session watchers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Protocol, TypeVar

from moldau.metadata import journal
from moldau.metadata.journal_directory import JournalDirectory
from moldau.metadata.store import (
    ABSENT,
    Change,
    Changes,
    Check,
    CommitFailedError,
    Delete,
    Listing,
    Operation,
    OutcomeUnknownError,
    Put,
    Revision,
    SessionWatcher,
    StoreClosedError,
    StoreError,
    Unwatch,
    VersionConflictError,
    Versioned,
    Watcher,
    checking_operations,
    is_within,
)
from moldau.storage.files import FileSystem, OsFiles
from moldau.work.turns import Work, pauses, run

LOG = logging.getLogger(__name__)

ROTATE_BYTES = 4 << 20
MAX_GROUP_CHANGES = 20_000

T = TypeVar("T")


class RunBlocking(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Runs `work` where it may block; calls of one store never overlap."""


@dataclass(slots=True, eq=False)
class _Pending:
    revision: Revision
    changes: tuple[Change, ...]
    durable: tuple[Change, ...]
    removed: list[str]
    done: asyncio.Future[Revision]


_path_of: Callable[[Change], str] = itemgetter(0)
_entry_of: Callable[[Change], Versioned | None] = itemgetter(1)


class LocalStore:
    def __init__(
        self, directory: JournalDirectory, run_blocking: RunBlocking, rotate_bytes: int = ROTATE_BYTES
    ) -> None:
        """Use `open`."""
        self._directory = directory
        self._run_blocking = run_blocking
        self._rotate_bytes = rotate_bytes
        self._entries: dict[str, Versioned] = {}
        self._staged: dict[str, tuple[Revision, Versioned | None]] = {}
        self._revision: Revision = 0
        self._staged_revision: Revision = 0
        self._planning = asyncio.Lock()
        self._failures = 0
        self._queue: deque[_Pending] = deque()
        self._last_commit: asyncio.Future[Revision] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._watchers: dict[object, tuple[str, Watcher]] = {}
        self._session_watchers: dict[object, SessionWatcher] = {}
        self._ended: StoreError | None = None
        self.cut_bytes = 0

    @classmethod
    async def open(
        cls,
        folder: str,
        run_blocking: RunBlocking,
        *,
        files: FileSystem | None = None,
        rotate_bytes: int = ROTATE_BYTES,
    ) -> LocalStore:
        """Reads the folder, making it if need be. Raises StoreLockedError, CorruptStoreError or OSError."""
        directory = JournalDirectory(files or OsFiles(), folder)
        store = cls(directory, run_blocking, rotate_bytes)
        loaded = await run_blocking(directory.open)
        store._entries = loaded.entries
        store._revision = store._staged_revision = loaded.revision
        store.cut_bytes = loaded.cut_bytes
        return store

    async def read(self, path: str) -> Versioned | None:
        self._check_open()
        return self._entries.get(path)

    async def list(self, prefix: str) -> Listing:
        self._check_open()
        found = {path: entry for path, entry in self._entries.items() if is_within(path, prefix)}
        return Listing(self._revision, found)

    async def commit(self, operations: Sequence[Operation]) -> Revision:
        self._check_open()
        # One after the other: a large commit is planned in turns, on entries that no other one may change meanwhile.
        async with self._planning:
            await run(checking_operations(operations))
            pending = await self._planned(operations)
        self._queue.append(pending)
        self._last_commit = pending.done
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_queued())
        # A caller that gives up does not take back what is queued.
        return await asyncio.shield(pending.done)

    async def _planned(self, operations: Sequence[Operation]) -> _Pending:
        while True:
            self._check_open()
            failures, revision = self._failures, self._staged_revision + 1
            pending = await run(self._plan(operations, revision))
            if failures == self._failures:  # otherwise it may rest on what was undone
                self._check_open()
                break
        self._staged_revision = revision
        changes = pending.changes
        self._staged.update(zip(map(_path_of, changes), zip(repeat(revision), map(_entry_of, changes)), strict=False))
        return pending

    async def sync(self) -> Revision:
        self._check_open()
        if self._last_commit is not None:
            await asyncio.wait([self._last_commit])
        return self._revision

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        key = object()
        self._watchers[key] = (prefix, watcher)

        def unwatch() -> None:
            self._watchers.pop(key, None)

        return unwatch

    def on_session_lost(self, watcher: SessionWatcher) -> Unwatch:
        key = object()
        self._session_watchers[key] = watcher

        def unwatch() -> None:
            self._session_watchers.pop(key, None)

        return unwatch

    async def close(self) -> None:
        if self._ended is None:
            self._ended = StoreClosedError("the metadata store is closed")
        if self._writer is not None:
            await self._writer
        await self._run_blocking(self._directory.close)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _staged_entry(self, path: str) -> Versioned | None:
        staged = self._staged.get(path)
        return self._entries.get(path) if staged is None else staged[1]

    def _plan(self, operations: Sequence[Operation], revision: Revision) -> Work[_Pending]:
        """What the operations change, and the part of it that outlives this process. Raises VersionConflictError."""
        paused = pauses()
        changes: list[Change] = []
        durable: list[Change] = []
        removed: list[str] = []
        for operation in operations:
            if next(paused):
                yield
            path = operation.path
            entry = self._staged_entry(path)
            version = ABSENT if entry is None else entry.version
            expected = operation.expected_version
            if (expected is not None and expected != version) or (entry is None and type(operation) is Delete):
                raise VersionConflictError(path, expected, version)
            if type(operation) is Check:
                continue
            if type(operation) is Delete:
                change = Change(path, None)
                removed.append(path)
                ephemeral = entry is not None and entry.ephemeral
            else:
                assert isinstance(operation, Put)
                ephemeral = operation.ephemeral if entry is None else entry.ephemeral
                created = revision if entry is None else entry.created
                change = Change(path, Versioned(operation.value, version + 1, created, revision, ephemeral))
            changes.append(change)
            if not ephemeral:
                durable.append(change)
        done: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        return _Pending(revision, tuple(changes), tuple(durable), removed, done)

    async def _write_queued(self) -> None:
        group: Sequence[_Pending] = ()
        try:
            while self._queue:
                group = self._next_group()
                data = await run(journal.encode_group(group[0].revision, [pending.durable for pending in group]))
                try:
                    await self._run_blocking(partial(self._directory.append, data))
                except CommitFailedError as error:
                    self._fail(group, error)
                    continue
                self._publish(group)
                group = ()
                if self._directory.journal_bytes >= max(self._rotate_bytes, 2 * self._directory.snapshot_bytes):
                    await self._rotate()
        except OutcomeUnknownError as error:
            self._end(group, error)
        except BaseException as error:
            self._end(group, OutcomeUnknownError(f"the writer of the metadata journal ended: {error!r}"))
            if not isinstance(error, Exception):
                raise
        finally:
            self._writer = None

    def _next_group(self) -> Sequence[_Pending]:
        group = [self._queue.popleft()]
        size = len(group[0].durable)
        while self._queue and size + len(self._queue[0].durable) <= MAX_GROUP_CHANGES:
            group.append(self._queue.popleft())
            size += len(group[-1].durable)
        return group

    def _publish(self, group: Sequence[_Pending]) -> None:
        for pending in group:
            # Readers see all of a commit or nothing: without turns, but without a line of ours for each entry either.
            self._entries.update(pending.changes)  # type: ignore[arg-type]  # what is removed goes with the next line
            deque(map(self._entries.__delitem__, pending.removed), maxlen=0)
            self._revision = pending.revision
            self._unstage(pending)
            self._notify(Changes(pending.revision, pending.changes))
            if not pending.done.done():
                pending.done.set_result(pending.revision)

    def _unstage(self, published: _Pending) -> None:
        if self._staged_revision == published.revision:
            self._staged.clear()
            return
        for change in published.changes:
            if self._staged[change.path][0] == published.revision:
                del self._staged[change.path]

    def _notify(self, changes: Changes) -> None:
        for prefix, watcher in tuple(self._watchers.values()):
            seen = changes
            if prefix != "/":
                seen = Changes(changes.revision, tuple(c for c in changes.changes if is_within(c.path, prefix)))
            if not seen.changes:
                continue
            try:
                watcher(seen)
            except Exception:
                LOG.exception("a watcher of %s failed", prefix)

    def _fail(self, group: Sequence[_Pending], error: StoreError) -> None:
        """Undoes the group and all that was planned on top of it."""
        self._failures += 1
        failed = (*group, *self._queue)
        self._queue.clear()
        self._staged.clear()
        self._staged_revision = self._revision
        for pending in failed:
            if not pending.done.done():
                pending.done.set_exception(error)
                # Its caller may be gone; the log has the error.
                pending.done.exception()
        LOG.error("%d metadata commit(s) failed: %s", len(failed), error)

    def _end(self, group: Sequence[_Pending], error: OutcomeUnknownError) -> None:
        self._ended = error
        self._fail(group, error)
        for watcher in tuple(self._session_watchers.values()):
            try:
                watcher(error)
            except Exception:
                LOG.exception("a session watcher failed")

    async def _rotate(self) -> None:
        """Starts a new journal and writes a snapshot. A failed snapshot costs only disk space until the next one."""
        revision = self._revision
        entries = {path: entry for path, entry in self._entries.items() if not entry.ephemeral}
        frames = []
        # Encoded here in slices: a thread that computes would hold up the loop more.
        for frame in journal.encode_snapshot(revision, entries):
            frames.append(frame)
            await asyncio.sleep(0)
        try:
            await self._run_blocking(partial(self._directory.start_journal, revision))
            await self._run_blocking(partial(self._directory.write_snapshot, revision, frames))
        except OSError as error:
            LOG.warning("cannot write a metadata snapshot, the journal grows on: %s", error)
