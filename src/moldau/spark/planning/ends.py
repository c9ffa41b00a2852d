"""How far the partitions of a stream can be read, and which of their logs were cut.

A query can stand behind the last stable offset: its checkpoint comes from a run that read undecided records, or
`startingOffsets` says so. It waits there, and nothing is lost. A log whose own end lies before the place to read on was
cut, by an unclean election, or belongs to another topic whose id nobody recorded. After a change of leaders that can be
a view that passes, so the cluster is asked again before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from moldau.spark.planning.looking import Look
from moldau.spark.planning.offsets import LATEST, PartitionOffsets
from moldau.types.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Dips:
    """How often, and after which pause, an end that would mean lost data is asked for again."""

    retries: int
    pause_seconds: float


@dataclass(frozen=True, slots=True)
class Ends:
    reached: PartitionOffsets
    """As far as each partition can be read now."""
    cut: PartitionOffsets
    """The ends of the logs that end before the place to read on."""

    def undecided(self, begins: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """The partitions that are read on once a transaction is decided."""
        return frozenset(place for place, end in self.reached.items() if end < begins[place] and place not in self.cut)


def find_ends(begins: Mapping[TopicPartition, int], look: Look, dips: Dips, sleep: Callable[[float], None]) -> Ends:
    reached = look(dict.fromkeys(begins, LATEST))
    cut = cut_logs(begins, reached, look)
    for _ in range(dips.retries):
        if not cut:
            break
        sleep(dips.pause_seconds)
        reached |= look(dict.fromkeys(cut, LATEST))
        cut = cut_logs(begins, reached, look)
    return Ends(reached, cut)


def cut_logs(begins: Mapping[TopicPartition, int], reached: PartitionOffsets, look: Look) -> PartitionOffsets:
    """A log's own end is asked for only where its stable one says too little."""
    behind = [place for place, end in reached.items() if end < begins[place]]
    ends = look.log_ends(behind) if behind else {}
    return {place: end for place, end in ends.items() if end < begins[place]}
