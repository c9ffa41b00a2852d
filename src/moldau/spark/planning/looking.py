"""How the rules of reading ask a cluster for offsets.

A log has two ends for whoever reads decided transactions only: the last stable offset, up to which it is read, and its
own end. Between them lies what is undecided, and nothing that lies there is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from moldau.spark.planning.catalog import Catalog
from moldau.spark.planning.offsets import LATEST, PartitionOffsets
from moldau.types.ids import TopicPartition

FindOffsets: TypeAlias = Callable[[Mapping[TopicPartition, int]], PartitionOffsets]


class Look(Protocol):
    def __call__(self, wanted: Mapping[TopicPartition, int], /) -> PartitionOffsets:
        """Turns times and places into offsets; LATEST is as far as the query reads."""

    def log_ends(self, places: Iterable[TopicPartition], /) -> PartitionOffsets:
        """Where the logs end, with all that is undecided."""


@dataclass(frozen=True, slots=True)
class Looking:
    """Looks into a cluster with a query's isolation."""

    catalog: Catalog
    committed: bool

    def __call__(self, wanted: Mapping[TopicPartition, int], /) -> PartitionOffsets:
        return self.catalog.offsets(wanted, committed=self.committed)

    def log_ends(self, places: Iterable[TopicPartition], /) -> PartitionOffsets:
        return self.catalog.offsets(dict.fromkeys(places, LATEST), committed=False)
