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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from math import inf
from operator import itemgetter
from typing import Protocol, TypeVar

from moldau.metadata import journal
from moldau.metadata.entries import Entries, Planned, planning, take_in
from moldau.metadata.frames import checking_size
from moldau.metadata.journal_directory import JournalDirectory
from moldau.metadata.store import (
    AliveWatcher,
    Change,
    Changes,
    CommitFailedError,
    EndWatcher,
    Listing,
    Operation,
    OutcomeUnknownError,
    Revision,
    SessionState,
    SessionWatcher,
    StoreClosedError,
    StoreError,
    Unwatch,
    Versioned,
    Watcher,
    checking_operations,
    is_within,
)
from moldau.metadata.watching import Listeners, PrefixWatchers
from moldau.storage.files import FileSystem, OsFiles
from moldau.work.clocks import boot_seconds
from moldau.work.turns import run

LOG = logging.getLogger(__name__)

ROTATE_BYTES = 4 << 20
MAX_GROUP_CHANGES = 20_000

T = TypeVar("T")


class RunBlocking(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Runs `work` where it may block; calls of one store never overlap."""


@dataclass(slots=True, eq=False)
class _Pending:
    planned: Planned
    done: asyncio.Future[Revision]


_path_of: Callable[[Change], str] = itemgetter(0)
_entry_of: Callable[[Change], Versioned | None] = itemgetter(1)


class LocalStore:
    """Its session is this process: it is never suspended, and nobody but this broker is alive."""

    def __init__(
        self,
        directory: JournalDirectory,
        run_blocking: RunBlocking,
        rotate_bytes: int = ROTATE_BYTES,
        boot_clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """Use `open`."""
        self._directory = directory
        self._run_blocking = run_blocking
        self._rotate_bytes = rotate_bytes
        self._boot_clock = boot_clock
        self._entries: Entries = {}
        self._staged: dict[str, tuple[Revision, Versioned | None]] = {}
        self._revision: Revision = 0
        self._staged_revision: Revision = 0
        self._planning = asyncio.Lock()
        self._failures = 0
        self._queue: deque[_Pending] = deque()
        self._last_commit: asyncio.Future[Revision] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._watchers = PrefixWatchers()
        self._end_watchers: Listeners[StoreError] = Listeners("the store's end")
        self._alive: dict[int, bytes] = {}
        self._alive_watchers: Listeners[Mapping[int, bytes]] = Listeners("living brokers")
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
            await run(checking_size(operations))
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
            planned = await run(planning(operations, revision, self._staged_entry))
            if failures == self._failures:  # otherwise it may rest on what was undone
                self._check_open()
                break
        self._staged_revision = revision
        changes = planned.changes
        self._staged.update(zip(map(_path_of, changes), zip(repeat(revision), map(_entry_of, changes)), strict=False))
        return _Pending(planned, asyncio.get_running_loop().create_future())

    async def sync(self) -> Revision:
        self._check_open()
        if self._last_commit is not None:
            await asyncio.wait([self._last_commit])
        return self._revision

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        return self._watchers.watch(prefix, watcher)

    def on_session_lost(self, watcher: EndWatcher) -> Unwatch:
        return self._end_watchers.add(watcher)

    @property
    def session_state(self) -> SessionState:
        return SessionState.CONNECTED if self._ended is None else SessionState.LOST

    def on_session(self, watcher: SessionWatcher) -> Unwatch:
        """Never called: what ends this store ends it for good."""
        return lambda: None

    @property
    def lease_seconds(self) -> float:
        return inf

    def current_as_of(self, revision: Revision) -> float:
        return self._boot_clock()

    async def announce(self, broker_id: int, value: bytes) -> None:
        self._check_open()
        self._set_alive({broker_id: value})

    async def withdraw(self) -> None:
        self._set_alive({})

    def alive(self) -> Mapping[int, bytes]:
        return self._alive

    def watch_alive(self, watcher: AliveWatcher) -> Unwatch:
        return self._alive_watchers.add(watcher)

    def _set_alive(self, alive: dict[int, bytes]) -> None:
        if alive != self._alive:
            self._alive = alive
            self._alive_watchers.tell(alive)

    async def snapshot_if_due(self) -> None:
        """Snapshots are written with the commits."""

    async def close(self) -> None:
        if self._ended is None:
            self._ended = StoreClosedError("the metadata store is closed")
        self._set_alive({})
        if self._writer is not None:
            await self._writer
        await self._run_blocking(self._directory.close)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _staged_entry(self, path: str) -> Versioned | None:
        staged = self._staged.get(path)
        return self._entries.get(path) if staged is None else staged[1]

    async def _write_queued(self) -> None:
        group: Sequence[_Pending] = ()
        try:
            while self._queue:
                group = self._next_group()
                data = await run(
                    journal.encode_group(group[0].planned.revision, [pending.planned.changes for pending in group])
                )
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
        size = len(group[0].planned.changes)
        while self._queue and size + len(self._queue[0].planned.changes) <= MAX_GROUP_CHANGES:
            group.append(self._queue.popleft())
            size += len(group[-1].planned.changes)
        return group

    def _publish(self, group: Sequence[_Pending]) -> None:
        for pending in group:
            planned = pending.planned
            take_in(self._entries, planned)
            self._revision = planned.revision
            self._unstage(planned)
            self._watchers.tell(Changes(planned.revision, planned.changes))
            if not pending.done.done():
                pending.done.set_result(planned.revision)

    def _unstage(self, published: Planned) -> None:
        if self._staged_revision == published.revision:
            self._staged.clear()
            return
        for change in published.changes:
            if self._staged[change.path][0] == published.revision:
                del self._staged[change.path]

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
        self._end_watchers.tell(error)

    async def _rotate(self) -> None:
        """Starts a new journal and writes a snapshot. A failed snapshot costs only disk space until the next one."""
        revision = self._revision
        entries = dict(self._entries)
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
