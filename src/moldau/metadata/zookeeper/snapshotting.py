"""Writes snapshots of the history and cuts the log below the older of the two that are kept. The controller's duty."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from moldau.metadata.store import Revision
from moldau.metadata.zookeeper import snapshots
from moldau.metadata.zookeeper.history import History
from moldau.metadata.zookeeper.layout import Layout
from moldau.metadata.zookeeper.port import BadVersionError, NodeExistsError, NoNodeError, Port
from moldau.metadata.zookeeper.snapshots import Head, SnapshotName
from moldau.work.turns import run

LOG = logging.getLogger(__name__)

ENTRIES_BETWEEN = 1_000
DELETES_AT_ONCE = 100


class Snapshotter:
    def __init__(self, port: Port, layout: Layout, writer: int, entries_between: int = ENTRIES_BETWEEN) -> None:
        self._port = port
        self._layout = layout
        self._writer = writer
        self.entries_between = entries_between

    async def write(self, history: History) -> Head | None:
        """The new head; None where somebody else has written one. `history` is not changed by others meanwhile."""
        node = await self._port.get(self._layout.head)
        head = Head() if node is None else snapshots.decode_head(node.value, self._layout.head)
        if history.revision < head.revision + self.entries_between:
            return None
        parts = await run(snapshots.encoding(history))
        # Two may write at the same time: each has a folder of its own, and one of them wins the head.
        newest = SnapshotName(f"{history.revision}-{self._writer:016x}", history.revision, len(parts))
        await self._create(self._layout.snapshot(newest.name), b"")
        for number, part in enumerate(parts):
            await self._create(self._layout.part(newest.name, number), part)
        head = head.with_newest(newest)
        try:
            if node is None:
                await self._port.create(self._layout.head, snapshots.encode_head(head))
            else:
                await self._port.set(self._layout.head, snapshots.encode_head(head), node.version)
        except (BadVersionError, NodeExistsError):
            return None
        LOG.info("wrote a snapshot of the metadata at revision %d in %d part(s)", history.revision, len(parts))
        return head

    async def _create(self, path: str, value: bytes) -> None:
        try:
            await self._port.create(path, value)
        except NodeExistsError:  # an attempt before this one, with the same history
            node = await self._port.get(path)
            if node is not None:
                await self._port.set(path, value, node.version)

    async def trim(self, head: Head) -> None:
        """Removes what no reader needs: snapshots that head does not name, and the log below the older one that it
        does. What an earlier attempt has left is found again."""
        named = {each.name for each in head.snapshots}
        for name in await self._port.children(self._layout.snapshots):
            if name not in named and int(name.partition("-")[0]) < head.revision:
                parts = await self._port.children(self._layout.snapshot(name))
                await self._delete(self._layout.part(name, int(part)) for part in parts)
                await self._delete([self._layout.snapshot(name)])
        if head.trimmed_below:
            await self._trim_log(head.trimmed_below)

    async def _trim_log(self, last: Revision) -> None:
        current = self._layout.generation_of(last + 1)
        for name in await self._port.children(self._layout.log):
            generation = int(name)
            if generation > current:
                continue
            folder = self._layout.generation(generation)
            below = []
            for child in await self._port.children(folder):
                revision = self._layout.revision_of(generation, child)
                if generation < current or (revision is not None and revision <= last):
                    below.append(f"{folder}/{child}")
            # The folder stays: its counter tells whoever comes late that it is full.
            await self._delete(below)

    async def _delete(self, paths: Iterable[str]) -> None:
        waiting = list(paths)
        while waiting:
            group, waiting = waiting[:DELETES_AT_ONCE], waiting[DELETES_AT_ONCE:]
            answers = await asyncio.gather(*map(self._port.delete, group), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException) and not isinstance(answer, NoNodeError):
                    raise answer
