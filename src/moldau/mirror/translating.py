"""From offsets of the source to offsets of the target. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from moldau.mirror.formats import Checkpoint, OffsetSync
from moldau.types.ids import TopicPartition

KEPT: Final = 4096
"""Syncs of one partition. When there are more, every second one of the older half goes: where a group is far behind, it
is taken back a little further."""


@dataclass(slots=True)
class Translation:
    """One partition: what is known of which offset became which."""

    upstream: list[int] = field(default_factory=list)
    syncs: list[OffsetSync] = field(default_factory=list)

    def add(self, sync: OffsetSync) -> None:
        if self.syncs:
            last = self.syncs[-1]
            if sync.upstream < last.upstream or sync.downstream < last.downstream:
                self._begin_anew(sync)
            if self.syncs and sync.upstream == self.syncs[-1].upstream:
                self.syncs[-1] = sync
                return
        self.syncs.append(sync)
        self.upstream.append(sync.upstream)
        if len(self.syncs) > KEPT:
            old = KEPT // 2
            self.syncs[:old] = self.syncs[:old:2]
            self.upstream[:old] = self.upstream[:old:2]

    def _begin_anew(self, sync: OffsetSync) -> None:
        """A partition that was copied again from an earlier place: what was known of later places is no longer so.
        Two workers may tell theirs in another order, so what lies before is kept where it agrees."""
        keep = bisect_right(self.upstream, sync.upstream)
        if keep and self.syncs[keep - 1].downstream > sync.downstream:
            keep = 0
        del self.syncs[keep:], self.upstream[keep:]

    def translate(self, offset: int) -> int | None:
        """The first record that a reader at `offset` has not read, or an earlier one; None where it is too far back."""
        index = bisect_right(self.upstream, offset) - 1
        if index < 0:
            return None
        sync = self.syncs[index]
        return sync.downstream + min(offset - sync.upstream, sync.run)

    def back(self, offset: int) -> int | None:
        """The same from an offset of the target to one of the source."""
        index = bisect_right(self.syncs, offset, key=lambda sync: sync.downstream) - 1
        if index < 0:
            return None
        sync = self.syncs[index]
        return sync.upstream + min(offset - sync.downstream, sync.run)


def is_newer(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Forward always; backward only where the group itself went back."""
    if last is None or checkpoint.upstream < last.upstream:
        return last != checkpoint
    return checkpoint.downstream > last.downstream


def to_commit(
    checkpoints: dict[TopicPartition, Checkpoint], there: dict[TopicPartition, int]
) -> dict[TopicPartition, Checkpoint]:
    """What moves a group forward in the target: never back, since it may have read on there."""
    return {place: each for place, each in checkpoints.items() if each.downstream > there.get(place, -1)}
