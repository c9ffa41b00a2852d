"""From offset ranges to tasks.

Without options each partition with something to read is one task. `maxRecordsPerPartition` cuts ranges until no task
has more; then `minPartitions` cuts further, the largest pieces first, until there are that many tasks or no range
can be cut. Cuts of a range are as even as whole numbers allow.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from moldau.spark.errors import ForeignCheckpoint
from moldau.spark.planning.offsets import Position
from moldau.spark.split import Split
from moldau.types.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of one partition."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


def cut(
    ranges: Mapping[TopicPartition, Range], min_partitions: int | None = None, max_records: int | None = None
) -> dict[TopicPartition, tuple[int, ...]]:
    """The offsets inside each range where a new task begins; ranges that stay whole are left out."""
    filled = {place: span for place, span in sorted(ranges.items()) if span.size > 0}
    pieces = {place: 1 if max_records is None else -(-span.size // max_records) for place, span in filled.items()}
    if min_partitions is not None:
        add_pieces(filled, pieces, min_partitions - sum(pieces.values()))
    return {place: even_cuts(span, pieces[place]) for place, span in filled.items() if pieces[place] > 1}


def add_pieces(ranges: Mapping[TopicPartition, Range], pieces: dict[TopicPartition, int], missing: int) -> None:
    """Gives one more piece at a time to the range whose pieces are largest."""
    by_size = [(-span.size / pieces[place], place) for place, span in ranges.items() if span.size > pieces[place]]
    heapq.heapify(by_size)
    while missing > 0 and by_size:
        _, place = heapq.heappop(by_size)
        pieces[place] += 1
        missing -= 1
        if ranges[place].size > pieces[place]:
            heapq.heappush(by_size, (-ranges[place].size / pieces[place], place))


def even_cuts(span: Range, pieces: int) -> tuple[int, ...]:
    return tuple(span.start + span.size * number // pieces for number in range(1, pieces))


def ranges_between(start: Position, end: Position) -> dict[TopicPartition, Range]:
    """What a batch reads, from the recorded offsets alone: nothing that has changed since makes a difference."""
    if end.is_initial:
        return {}
    ranges: dict[TopicPartition, Range] = {}
    for place, offset in end.offsets.items():
        begin = end.begins.get(place, start.offsets.get(place))
        if begin is None:
            raise ForeignCheckpoint(f"the checkpoint says where a batch ends in {place}, but not where it begins")
        ranges[place] = Range(begin, offset)
    return ranges


def splits_of(
    ranges: Mapping[TopicPartition, Range],
    position: Position,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> list[Split]:
    """The tasks of a batch that ends at `position`, in an order that only depends on ranges and recorded cuts."""
    splits: list[Split] = []
    for place, span in sorted(ranges.items()):
        if span.size == 0:
            continue
        inside = [offset for offset in position.cuts.get(place, ()) if span.start < offset < span.end]
        borders = [span.start, *inside, span.end]
        leader = (leaders or {}).get(place)
        topic_id = position.topic_ids.get(place.topic)
        splits.extend(
            Split(place.topic, topic_id, place.partition, start, end, leader) for start, end in pairwise(borders)
        )
    return splits
