"""Reads the log, place by place, and judges each: one task that never ends.

At the end of the log one watch waits for the place that comes next; somewhere behind, several places are asked for at
once. Own commits are known when their place is, and not read again. A place that is missing although there is a newer
snapshot was cut off: that snapshot is loaded, and watchers are told the difference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from moldau.metadata import frames
from moldau.metadata.store import CorruptStoreError, Revision, SessionState
from moldau.metadata.zookeeper import snapshots
from moldau.metadata.zookeeper.history import History, Judged
from moldau.metadata.zookeeper.layout import Layout
from moldau.metadata.zookeeper.port import ConnectionLostError, Port
from moldau.metadata.zookeeper.snapshots import Head
from moldau.work.turns import run

LOG = logging.getLogger(__name__)

READ_AHEAD = 32


class FollowedStore(Protocol):
    """Whom the follower tells."""

    def judged(self, commit: frames.Commit, judged: Judged) -> None: ...

    def replaced(self, before: History, after: History) -> None: ...

    def read_to_the_end(self, as_of: float) -> None: ...


class Follower:
    def __init__(self, port: Port, layout: Layout, store: FollowedStore) -> None:
        self._port = port
        self._layout = layout
        self._store = store
        self._wake = asyncio.Event()
        self._known: dict[Revision, bytes] = {}
        self._watched: Revision | None = None
        self._suspicious: Revision | None = None
        self._head_is_old = True
        self._answered_at: float | None = None
        self.head = Head()
        self.head_version: int | None = None
        self.history = History()

    def entry_known(self, revision: Revision, frame: bytes) -> None:
        """An own commit has this place."""
        if revision > self.history.revision:
            self._known[revision] = frame
            self._wake.set()

    def look_again(self, *, reconnected: bool = False) -> None:
        """Some time has passed, or there is a connection again, without any watch."""
        if reconnected:
            self._watched = None
        self._head_is_old = True
        self._wake.set()

    def prove_the_end(self, answered_at: float) -> None:
        """A majority has answered what was sent then. Once the log is read to its end, as it is from now on, nothing of
        that time is missing: the store is told."""
        self._answered_at = answered_at
        self._wake.set()

    def _watch_fired(self) -> None:
        self._watched = None
        self._wake.set()

    async def _is_there(self, revision: Revision) -> bool:
        """If it is not, one watch waits for it."""
        self._watched = revision
        return await self._port.exists(self._layout.entry(revision), self._watch_fired)

    async def follow(self) -> None:
        """Ends only in an error that ends the store."""
        while True:
            self._wake.clear()
            try:
                await self._advance()
            except ConnectionLostError:
                self._watched, self._head_is_old = None, True
                if self._port.state is not SessionState.CONNECTED:
                    await self._wake.wait()

    async def _advance(self) -> None:
        """Judges what can be had; at the end of the log waits for more."""
        following = self.history.revision + 1
        if following in self._known:
            await self._judge(self._known.pop(following))
            return
        answered_at = self._answered_at
        if self._head_is_old or answered_at is not None:
            await self._read_head()
        # An own commit that has a later place: this one is there too, or it is missing for good.
        later_is_known = bool(self._known)
        is_asked = answered_at is not None or self._watched != following
        ask = is_asked or self.head.revision >= following or later_is_known
        if ask and await self._is_there(following):
            await self._read_many(following)
        elif self.head.revision >= following:
            await self._load_snapshot()
        elif self._suspicious == following or later_is_known:
            await self._check_gap(following)
        elif answered_at is not None:
            if self._answered_at == answered_at:
                self._answered_at = None
            self._store.read_to_the_end(answered_at)
        elif following not in self._known:
            await self._wake.wait()

    async def _read_many(self, first: Revision) -> None:
        """As long as there is more: many answers on the way, judged in order."""
        ahead = 1
        asked: dict[Revision, asyncio.Future[object]] = {}
        try:
            while True:
                for revision in range(first, first + ahead):
                    if revision not in asked and revision not in self._known:
                        asked[revision] = self._port.get(self._layout.entry(revision))  # type: ignore[assignment]
                answer = asked.pop(first, None)
                frame = self._known.pop(first, None)
                if answer is not None:
                    node = await answer
                    frame = node.value if node is not None else frame  # type: ignore[attr-defined]
                if frame is None:
                    self._head_is_old = True
                    await self._note_if_later_exists(first, asked)
                    return
                await self._judge(frame)
                first += 1
                ahead = min(2 * ahead, READ_AHEAD)
        finally:
            for answer in asked.values():
                answer.cancel()

    async def _note_if_later_exists(self, missing: Revision, asked: dict[Revision, asyncio.Future[object]]) -> None:
        later = [await answer for answer in asked.values()]
        asked.clear()
        self._suspicious = missing if any(node is not None for node in later) else None

    async def _check_gap(self, missing: Revision) -> None:
        """Later places were there while this one was not. That may have been chance, or the cut of the log; what a
        majority has confirmed since is certain."""
        await self._port.touch(self._layout.root)
        await self._read_head()
        self._suspicious = None
        if self.head.revision < missing and not await self._is_there(missing):
            raise CorruptStoreError(self._layout.entry(missing), 0, "the entry is gone, and later ones are there")
        self._watched = None

    async def _judge(self, frame: bytes) -> None:
        history = self.history
        place = history.revision + 1
        self._known.pop(place, None)
        try:
            commit = await run(frames.decoding(frame))
        except frames.ForeignFrameError as error:
            LOG.warning("%s: passed by: %s", self._layout.entry(place), error)
            history.pass_by()
            return
        except frames.UnreadableFrameError as error:
            raise CorruptStoreError(self._layout.entry(place), 0, str(error)) from error
        judged = await run(history.judging(commit))
        self._store.judged(commit, judged)

    async def _read_head(self) -> None:
        self._head_is_old = False
        node = await self._port.get(self._layout.head)
        if node is not None:
            self.head, self.head_version = snapshots.decode_head(node.value, self._layout.head), node.version

    async def _load_snapshot(self) -> None:
        newest = self.head.snapshots[0]
        nodes = await asyncio.gather(
            *(self._port.get(self._layout.part(newest.name, number)) for number in range(newest.parts))
        )
        parts = [node.value for node in nodes if node is not None]
        if len(parts) < newest.parts:  # newer ones have come meanwhile, and this one was removed
            seen = self.head
            await self._port.touch(self._layout.root)
            await self._read_head()
            if self.head == seen:
                raise CorruptStoreError(self._layout.snapshot(newest.name), 0, "parts of the snapshot are gone")
            return
        loaded = snapshots.decode(parts, self._layout.snapshot(newest.name))
        if loaded.revision > self.history.revision:
            LOG.info("metadata from a snapshot at revision %d", loaded.revision)
            before, self.history = self.history, loaded
            self._known = {place: frame for place, frame in self._known.items() if place > loaded.revision}
            self._store.replaced(before, loaded)


def difference(before: History, after: History, tell: Callable[[str], None]) -> None:
    """Calls `tell` with every path whose entry is another one."""
    for path, entry in after.entries.items():
        if before.entries.get(path) != entry:
            tell(path)
    for path in before.entries:
        if path not in after.entries:
            tell(path)
