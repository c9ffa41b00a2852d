"""What clients send and receive: records, where they ended up, offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = [
    "ConsumerRecord",
    "ConsumerRecords",
    "Headers",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "ProducerRecord",
    "RecordMetadata",
    "TopicPartition",
]

Headers: TypeAlias = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
LOG_APPEND_TIME = 2


@dataclass(slots=True)
class ProducerRecord:
    """A record to be sent: topic and value, and what else is known about it. Without a partition the partitioner
    chooses one, without a timestamp (milliseconds since 1970; 0 counts as none) it is now."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: list[tuple[str, bytes | str | None]] = field(default_factory=list)

    def header(self, name: str) -> bytes | str | None:
        """The last header of this name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


class RecordMetadata(NamedTuple):
    """Where a record was stored. The offset is -1 where nobody confirms it (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to be read, and a note that is stored beside it."""

    offset: int
    metadata: str = ""


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int


class PartitionInfo(NamedTuple):
    """A partition as the cluster describes it; the leader is None while there is none."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class ConsumerRecord:
    """A record that was read: `topic`, `partition`, `offset`, `key`, `value`, `headers`, `timestamp`."""

    __slots__ = ("_message", "key", "value")

    def __init__(self, message: Message, key: Any, value: Any) -> None:
        self._message = message
        self.key = key
        self.value = value

    @property
    def topic(self) -> str:
        return self._message.topic()  # type: ignore[return-value]  # records that were read have one

    @property
    def partition(self) -> int:
        return self._message.partition()  # type: ignore[return-value]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def offset(self) -> int:
        return self._message.offset()  # type: ignore[return-value]

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; -1 if the record has none."""
        return self._message.timestamp()[1]

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker gave the timestamp, not the producer."""
        return self._message.timestamp()[0] == LOG_APPEND_TIME

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._message.headers() or []  # type: ignore[return-value]

    def header(self, name: str) -> bytes | None:
        """The last header of this name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def leader_epoch(self) -> int | None:
        return self._message.leader_epoch()

    @property
    def key_bytes(self) -> bytes | None:
        return self._message.key()

    @property
    def value_bytes(self) -> bytes | None:
        return self._message.value()

    def __repr__(self) -> str:
        place = f"{self.topic}-{self.partition}@{self.offset}"
        return f"ConsumerRecord({place}, key={self.key!r}, value={self.value!r})"


class ConsumerRecords(Sequence[ConsumerRecord]):
    """What one poll returned, possibly nothing."""

    __slots__ = ("_records",)

    def __init__(self, records: Sequence[ConsumerRecord] = ()) -> None:
        self._records = list(records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...

    @overload
    def __getitem__(self, index: slice) -> ConsumerRecords: ...

    def __getitem__(self, index: int | slice) -> ConsumerRecord | ConsumerRecords:
        return ConsumerRecords(self._records[index]) if isinstance(index, slice) else self._records[index]

    @property
    def is_empty(self) -> bool:
        return not self._records

    def partitions(self) -> list[TopicPartition]:
        """Those that have records here, in the order of their first one."""
        return list(dict.fromkeys(record.topic_partition for record in self._records))

    def records(self, place: TopicPartition | str) -> list[ConsumerRecord]:
        """Those of one partition, or of a topic, in order."""
        if isinstance(place, str):
            return [record for record in self._records if record.topic == place]
        topic, partition = place
        return [record for record in self._records if record.partition == partition and record.topic == topic]

    def __repr__(self) -> str:
        return f"ConsumerRecords({self._records!r})"
