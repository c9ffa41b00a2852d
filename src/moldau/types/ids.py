"""Names and numbers that identify things in a cluster, and the values that stand for "none"."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias
from uuid import UUID

TopicId: TypeAlias = UUID

ZERO_UUID = UUID(int=0)
"""Stands for an id that is not known, or that there is none."""
ZERO_TOPIC_ID: TopicId = ZERO_UUID
NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_SEQUENCE = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
