"""The work of one task: a range of offsets of one partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets [start, end) of one partition. Offsets in it may hold no row: control batches, aborted transactions and
    holes of compaction count as read.
    """

    topic: str
    topic_id: UUID | None  # None where the cluster does not tell topic ids
    partition: int
    start: int
    end: int
    leader: int | None = None  # the broker that led the partition when the plan was made; a hint

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start
