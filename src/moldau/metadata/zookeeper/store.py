"""The metadata store of a cluster over ZooKeeper; see __init__.py for what stands where.

What it reads it has in memory: the history as far as the log was followed. A commit returns when the log, read up to
its place, has said whether it is accepted. A lost connection delays commits and never ends the store; only damage in
ZooKeeper, data of a later release, or another broker with this one's id do.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.metadata.frames import Commit
from moldau.metadata.store import (
    AliveWatcher,
    Change,
    Changes,
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
from moldau.metadata.zookeeper.appending import Appender, ensure
from moldau.metadata.zookeeper.following import Follower, difference
from moldau.metadata.zookeeper.hearing import Hearing
from moldau.metadata.zookeeper.history import History, Judged
from moldau.metadata.zookeeper.layout import GENERATION_ENTRIES, Layout, parents_of
from moldau.metadata.zookeeper.port import ConnectionLostError, NodeExistsError, Port, PortError
from moldau.metadata.zookeeper.presence import BrokerPresence
from moldau.metadata.zookeeper.snapshots import copy_of
from moldau.metadata.zookeeper.snapshotting import ENTRIES_BETWEEN, Snapshotter
from moldau.metadata.zookeeper.view import ViewWriter
from moldau.work.clocks import boot_seconds
from moldau.work.turns import run

LOG = logging.getLogger(__name__)


#: A lease ends well before the session does, whose end another clock counts.
LEASE_SHARE = 2 / 3


def random_writer() -> int:
    return int.from_bytes(os.urandom(8), "big")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """`session_seconds` is what the ensemble was asked for; the rest are for tests."""

    session_seconds: float = 6.0
    entries_between_snapshots: int = ENTRIES_BETWEEN
    generation_entries: int = GENERATION_ENTRIES
    close_seconds: float = 5.0
    boot_clock: Callable[[], float] = boot_seconds
    new_writer: Callable[[], int] = random_writer

    @property
    def beat_seconds(self) -> float:
        return self.session_seconds / 6

    @property
    def announcement_patience_seconds(self) -> float:
        """Expiry is rounded up to a tick, and waits for an election of the ensemble."""
        return 1.5 * self.session_seconds


class ZooKeeperStore:
    def __init__(self, port: Port, layout: Layout, options: StoreOptions) -> None:
        """Use `open`."""
        self._port = port
        self._layout = layout
        self._options = options
        self._clock = options.boot_clock
        self._follower = Follower(port, layout, self)
        self._hearing = Hearing()
        self._appender = Appender(
            port,
            layout,
            options.new_writer,
            self._clock,
            self._follower.entry_known,
            self.read_to_the_end,
            self._end,
        )
        self._presence = BrokerPresence(port, layout, options.announcement_patience_seconds, self._clock)
        self._snapshotter = Snapshotter(port, layout, self._appender.writer, options.entries_between_snapshots)
        self.view = ViewWriter(port, layout)
        self._ordering = asyncio.Lock()
        self._snapshotting = asyncio.Lock()
        self._watchers = PrefixWatchers()
        self._end_watchers: Listeners[StoreError] = Listeners("the store's end")
        self._session_watchers: Listeners[SessionState] = Listeners("the session")
        self._state = port.state
        self._heard = 0.0
        self._touching: asyncio.Future[None] | None = None
        self._lost_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: StoreError | None = None
        self._closed = False

    @classmethod
    async def open(cls, port: Port, chroot: str, options: StoreOptions | None = None) -> ZooKeeperStore:
        """Makes what is missing below the chroot, and follows the log to its end. A port that is not connected is
        waited for: set a time-out around it. Raises StoreError; the port is then closed by the caller."""
        options = options or StoreOptions()
        layout = await _laid_out(port, Layout(chroot, options.generation_entries))
        store = cls(port, layout, options)
        try:
            store._start()
            await store.sync()
        except BaseException:
            store._stop(StoreClosedError("the metadata store could not be opened"))
            raise
        return store

    def _start(self) -> None:
        self._port.on_state(self._on_state)
        self._run(self._follower.follow())
        self._run(self._presence.follow())
        self._run(self._beat())

    # --- entries ---

    @property
    def _history(self) -> History:
        return self._follower.history

    async def read(self, path: str) -> Versioned | None:
        self._check_open()
        return self._history.entries.get(path)

    async def list(self, prefix: str) -> Listing:
        self._check_open()
        entries = self._history.entries
        return Listing(
            self._history.accepted, {path: entry for path, entry in entries.items() if is_within(path, prefix)}
        )

    async def commit(self, operations: Sequence[Operation]) -> Revision:
        self._check_open()
        kept = tuple(operations)
        async with self._ordering:
            await run(checking_operations(kept))
            self._check_open()
            self._appender.reconcile_if_forgotten(self._history)
            done = await self._appender.append(kept)
        # A caller that gives up does not take back what is under way.
        outcome = await asyncio.shield(done)
        if outcome.refusal is not None:
            raise outcome.refusal.as_error(kept)
        return outcome.revision if kept else self._history.accepted

    async def sync(self) -> Revision:
        """An entry of the log like any other, since ZooKeeper's own sync does not ask a majority."""
        return await self.commit(())

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        return self._watchers.watch(prefix, watcher)

    def judged(self, commit: Commit, judged: Judged) -> None:
        if judged.planned is not None and commit.operations:
            self._watchers.tell(Changes(judged.planned.revision, judged.planned.changes))
        if judged.outcome is not None and commit.writer == self._appender.writer:
            self._appender.judged(judged.outcome)
        self._appender.passed(self._history.revision)

    def replaced(self, before: History, after: History) -> None:
        changes: list[Change] = []
        difference(before, after, lambda path: changes.append(Change(path, after.entries.get(path))))
        if after.accepted > before.accepted:
            self._watchers.tell(Changes(after.accepted, tuple(changes)))
        self._appender.reconcile(after)

    def read_to_the_end(self, as_of: float) -> None:
        self._hearing.prove(self._history.accepted, as_of)

    async def snapshot_if_due(self) -> None:
        """Nothing is lost where it fails: the log is longer, and the next call tries again."""
        if self._ended is not None or self._snapshotting.locked():
            return
        async with self._snapshotting:
            if self._history.revision < self._follower.head.revision + self._snapshotter.entries_between:
                return
            try:
                head = await self._snapshotter.write(copy_of(self._history))
                self._follower.look_again()
                if head is not None:
                    await self._snapshotter.trim(head)
            except PortError as error:
                LOG.warning("the snapshot of the metadata is not finished: %s", error or type(error).__name__)

    # --- presence ---

    async def announce(self, broker_id: int, value: bytes) -> None:
        await self._while_connected(lambda: self._presence.announce(broker_id, value))

    async def withdraw(self) -> None:
        """A node that cannot be reached ends with its session: nobody has to wait for longer than that."""
        if self._state is SessionState.LOST:
            return
        try:
            async with asyncio.timeout(self._options.session_seconds):
                await self._while_connected(self._presence.withdraw)
        except TimeoutError:
            LOG.warning("ZooKeeper is away: that this broker has gone shows when its session ends")

    def alive(self) -> Mapping[int, bytes]:
        return self._presence.alive()

    def watch_alive(self, watcher: AliveWatcher) -> Unwatch:
        return self._presence.watch(watcher)

    async def _while_connected(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Again with the next connection, as often as one is lost meanwhile."""
        while True:
            self._check_open()
            try:
                return await call()
            except ConnectionLostError:
                await self.sync()  # returns when there is a connection again

    # --- session ---

    @property
    def session_state(self) -> SessionState:
        return self._state

    def on_session(self, watcher: SessionWatcher) -> Unwatch:
        return self._session_watchers.add(watcher)

    def on_session_lost(self, watcher: EndWatcher) -> Unwatch:
        return self._end_watchers.add(watcher)

    @property
    def lease_seconds(self) -> float:
        return min(self._options.session_seconds, self._port.granted_seconds) * LEASE_SHARE

    def current_as_of(self, revision: Revision) -> float:
        return self._hearing.as_of(revision)

    @property
    def _last_heard(self) -> float:
        return max(self._heard, self._appender.last_heard)

    def _on_state(self, state: SessionState) -> None:
        if self._lost_timer is not None:
            self._lost_timer.cancel()
            self._lost_timer = None
        if state is SessionState.CONNECTED:
            self._appender.resume(self._layout.generation_of(self._history.revision + 1))
            self._follower.look_again(reconnected=True)
            self._presence.look_again()
            if self._ended is None:
                self._run(self._return())
            return
        if self._ended is None and state is SessionState.SUSPENDED:
            # Who is cut off is not told that the session has ended.
            loop = asyncio.get_running_loop()
            self._lost_timer = loop.call_later(self._options.session_seconds, self._tell_state, SessionState.LOST)
        self._tell_state(state)

    async def _return(self) -> None:
        try:
            await self._presence.announce_again()
        except ConnectionLostError:
            return
        if self._port.state is SessionState.CONNECTED:
            self._tell_state(SessionState.CONNECTED)

    def _tell_state(self, state: SessionState) -> None:
        if state is not self._state and self._ended is None:
            LOG.log(logging.INFO if state is SessionState.CONNECTED else logging.WARNING, "ZooKeeper: %s", state.value)
            self._state = state
            self._session_watchers.tell(state)

    async def _beat(self) -> None:
        """Shows that the loop lives, that the ensemble does, and that nothing of the log was missed."""
        while True:
            self._port.loop_lives()
            if self._port.state is SessionState.CONNECTED:
                self._follower.look_again()
                if self._touching is None and self._clock() - self._last_heard >= self._options.beat_seconds:
                    self._touch()
            await asyncio.sleep(self._options.beat_seconds)

    def _touch(self) -> None:
        sent_at = self._clock()

        def answered(answer: asyncio.Future[None]) -> None:
            self._touching = None
            if not answer.cancelled() and answer.exception() is None:
                self._heard = max(self._heard, sent_at)
                self._follower.prove_the_end(sent_at)

        self._touching = self._port.touch(self._layout.root)
        self._touching.add_done_callback(answered)

    def time_requests(self, timed: Callable[[float], None]) -> None:
        """Of each answer of the ensemble from now on: how many milliseconds it took."""
        self._port.timed = timed

    # --- end ---

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._ended is None:
            self._ended = StoreClosedError("the metadata store is closed")
            await self._appender.finish(self._options.close_seconds)
        self._stop(OutcomeUnknownError("the store was closed before the outcome of the commit was known"))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._port.close()

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _end(self, error: StoreError) -> None:
        if self._ended is None:
            LOG.critical("the metadata store has ended: %s", error)
            self._ended = error
            self._stop(OutcomeUnknownError(str(error)))
            self._state = SessionState.LOST
            self._end_watchers.tell(error)

    def _stop(self, error: StoreError) -> None:
        if self._lost_timer is not None:
            self._lost_timer.cancel()
        for task in self._tasks:
            task.cancel()
        self._appender.fail(error)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ran)

    def _ran(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            self._end(error)
        elif error is not None:
            LOG.error("a task of the metadata store failed", exc_info=error)
            self._end(StoreError(f"the metadata cannot be followed: {error!r}"))


async def _laid_out(port: Port, layout: Layout) -> Layout:
    while True:
        try:
            await ensure(port, [*parents_of(layout.root)[:-1], *parents_of(layout.broker_ids)])
            try:
                await port.create(layout.root, layout.description())
            except NodeExistsError:
                node = await port.get(layout.root)
                layout = layout.as_described(b"" if node is None else node.value)
            await ensure(port, [layout.log, layout.snapshots, layout.generation(0)])
            return layout
        except ConnectionLostError:
            await _connected(port)
        except PortError as error:
            raise StoreError(f"{layout.root} cannot be made in ZooKeeper: {error}") from error


async def _connected(port: Port) -> None:
    again = asyncio.Event()
    port.on_state(lambda state: again.set() if state is SessionState.CONNECTED else None)
    if port.state is not SessionState.CONNECTED:
        await again.wait()
