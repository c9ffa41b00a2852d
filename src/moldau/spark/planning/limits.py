"""How far a batch goes: at most so many offsets, and not before so many are there."""

from __future__ import annotations

import math
from collections.abc import Mapping

from moldau.types.ids import TopicPartition


def limit_rows(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Takes `most` offsets out of those that wait, from each partition in proportion to what waits there.

    As in Spark's own connector, shares are rounded down, but a partition that waits gets at least one, so that none
    starves: with more partitions than `most` a batch can be that much larger.
    """
    waiting = {place: max(0, end[place] - start.get(place, end[place])) for place in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    limited: dict[TopicPartition, int] = {}
    for place, size in waiting.items():
        share = most * size / total
        taken = math.ceil(share) if share < 1 else math.floor(share)
        limited[place] = min(end[place], start[place] + taken) if size else end[place]
    return limited


def cap(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], targets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Ends that stop at a target; a partition without one was found after the targets were set, and stays put."""
    return {place: max(begins[place], min(end, targets.get(place, begins[place]))) for place, end in ends.items()}


def rows_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, offset - start.get(place, offset)) for place, offset in end.items())


def waits_for_more(waiting: int, least: int | None, since_last_batch_ms: float, longest_delay_ms: int) -> bool:
    """Whether a batch is put off: fewer than `minOffsetsPerTrigger` wait, and `maxTriggerDelay` is not over."""
    return least is not None and waiting < least and since_last_batch_ms < longest_delay_ms
