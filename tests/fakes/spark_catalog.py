"""A cluster as a table: topics, where their partitions begin and end, and what groups were told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from moldau.spark.planning.catalog import TopicView
from moldau.spark.planning.offsets import EARLIEST, LATEST
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition


@dataclass
class FakeLog:
    """`times` holds the timestamp of each record from `first` on; what is undecided begins at `stable`."""

    first: int = 0
    end: int = 0
    times: list[int] = field(default_factory=list)
    stable: int | None = None
    dips: list[int] = field(default_factory=list)
    """Ends that the next questions are answered with, before the true one."""

    def offset_at(self, time: int, *, committed: bool = True) -> int:
        if time == EARLIEST:
            return self.first
        if time == LATEST:
            end = self.dips.pop(0) if self.dips else self.end
            return end if self.stable is None or not committed else min(end, self.stable)
        return next((self.first + at for at, each in enumerate(self.times) if each >= time), -1)


class FakeCatalog:
    def __init__(self) -> None:
        self.ids: dict[str, UUID] = {}
        self.logs: dict[str, list[FakeLog]] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.publishing_fails = False
        self.asked_topics = 0
        self.asked_log_ends = 0
        self.closed = False

    def create(self, topic: str, *ends: int) -> None:
        self.ids[topic] = UUID(int=len(self.ids) + 1 + (self.ids[topic].int * 1000 if topic in self.ids else 0))
        self.logs[topic] = [FakeLog(0, end) for end in ends]

    def topics(self, names: frozenset[str] | None) -> dict[str, TopicView]:
        self.asked_topics += 1
        return {
            name: TopicView(
                self.ids[name], dict.fromkeys(range(len(logs)), 1), name.startswith("__") and "moldau" not in name
            )
            for name, logs in self.logs.items()
            if names is None or name in names
        }

    def offsets(self, wanted: Mapping[TopicPartition, int], *, committed: bool) -> dict[TopicPartition, int]:
        self.asked_log_ends += not committed
        return {
            place: self.logs[place.topic][place.partition].offset_at(time, committed=committed)
            for place, time in wanted.items()
            if place.topic in self.logs and place.partition < len(self.logs[place.topic])
        }

    def publish(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.publishing_fails:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody coordinates")
        self.groups.setdefault(group, {}).update(offsets)

    def close(self) -> None:
        self.closed = True
