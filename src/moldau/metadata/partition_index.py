"""Which partitions a broker has to do with: those it leads, is in sync with, or holds a replica of.

Rules about one broker look here instead of walking over all topics. An index is a value like the image it belongs to:
the next one shares every set that a change does not touch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses

if TYPE_CHECKING:
    from moldau.metadata.image import PartitionImage, TopicImage

_NONE: Mapping[int, frozenset[TopicPartition]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionIndex:
    """Sets have no order that two processes share: who decides something sorts first (`in_order`)."""

    led: Mapping[int, frozenset[TopicPartition]] = field(default_factory=lambda: _NONE)
    in_sync: Mapping[int, frozenset[TopicPartition]] = field(default_factory=lambda: _NONE)
    held: Mapping[int, frozenset[TopicPartition]] = field(default_factory=lambda: _NONE)
    reassigning: frozenset[TopicPartition] = frozenset()

    def led_by(self, broker: int) -> Collection[TopicPartition]:
        """The partitions with this leader; NO_LEADER gives those without one."""
        return self.led.get(broker, frozenset())

    def in_sync_at(self, broker: int) -> Collection[TopicPartition]:
        return self.in_sync.get(broker, frozenset())

    def held_by(self, broker: int) -> Collection[TopicPartition]:
        return self.held.get(broker, frozenset())


class PartitionMove(NamedTuple):
    """One partition before and after; None where it did not, or does not, exist."""

    place: TopicPartition
    old: PartitionImage | None
    new: PartitionImage | None


def indexed(topics: Iterable[TopicImage]) -> Work[PartitionIndex]:
    """The index of these topics."""
    paused = pauses()
    edit = _Edit(PartitionIndex())
    for topic in topics:
        for index, partition in enumerate(topic.partitions):
            edit.apply(PartitionMove(TopicPartition(topic.name, index), None, partition))
            if next(paused):
                yield
    return edit.done()


def moved(index: PartitionIndex, moves: Iterable[PartitionMove]) -> Work[PartitionIndex]:
    """The index after these changes."""
    paused = pauses()
    edit = _Edit(index)
    for move in moves:
        edit.apply(move)
        if next(paused):
            yield
    return edit.done()


class _Edit:
    """Copies each set when it is first written to."""

    def __init__(self, index: PartitionIndex) -> None:
        self._led = _Sets(index.led)
        self._in_sync = _Sets(index.in_sync)
        self._held = _Sets(index.held)
        self._was_reassigning = index.reassigning
        self._reassigning: set[TopicPartition] | None = None

    def apply(self, move: PartitionMove) -> None:
        place, old, new = move
        self._led.move(place, () if old is None else (old.leader,), () if new is None else (new.leader,))
        self._in_sync.move(place, () if old is None else old.isr, () if new is None else new.isr)
        self._held.move(place, () if old is None else old.replicas, () if new is None else new.replicas)
        was, now = old is not None and old.is_reassigning, new is not None and new.is_reassigning
        if was != now:
            if self._reassigning is None:
                self._reassigning = set(self._was_reassigning)
            (self._reassigning.add if now else self._reassigning.discard)(place)

    def done(self) -> PartitionIndex:
        reassigning = self._was_reassigning if self._reassigning is None else frozenset(self._reassigning)
        return PartitionIndex(self._led.done(), self._in_sync.done(), self._held.done(), reassigning)


class _Sets:
    def __init__(self, before: Mapping[int, frozenset[TopicPartition]]) -> None:
        self._before = before
        self._changed: dict[int, set[TopicPartition]] = {}

    def move(self, place: TopicPartition, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        if old == new:
            return
        for broker in old:
            if broker not in new:
                self._of(broker).discard(place)
        for broker in new:
            if broker not in old:
                self._of(broker).add(place)

    def _of(self, broker: int) -> set[TopicPartition]:
        found = self._changed.get(broker)
        if found is None:
            found = self._changed[broker] = set(self._before.get(broker, ()))
        return found

    def done(self) -> Mapping[int, frozenset[TopicPartition]]:
        if not self._changed:
            return self._before
        merged = {**self._before, **{broker: frozenset(places) for broker, places in self._changed.items()}}
        return MappingProxyType({broker: places for broker, places in merged.items() if places})
