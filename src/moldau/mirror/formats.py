"""The records of MirrorMaker 2's own topics. Pure.

    heartbeats         key  string source, string target          value  int16 version = 0, int64 time
    checkpoints        key  string group, string topic, int32 partition
                       value  int16 version = 0, int64 upstream offset, int64 offset, string metadata
    offset syncs       key  string topic, int32 partition          value  int64 upstream offset, int64 offset
    offsets (Connect)  key  ["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"t"}]
                       value  {"offset":7}, of the last record that was copied

A string is an int16 length and UTF-8. Headers are ours; others do not read them: an offset sync says how many records
from there on have followed each other in both logs, a position which topics (by id) it belongs to, and where in the
target the copies end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from struct import Struct, error
from typing import Any, Final
from uuid import UUID

from moldau.types.ids import TopicPartition
from moldau.wire.records import Headers

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
OFFSETS: Final = Struct(">qq")
CHECKPOINT: Final = Struct(">hqq")
HEARTBEAT: Final = Struct(">hq")
VERSION: Final = 0
CONNECTOR: Final = "MirrorSourceConnector"
RUN_HEADER: Final = "moldau.run"
SOURCE_ID_HEADER: Final = "moldau.source.topic"
TARGET_ID_HEADER: Final = "moldau.target.topic"
TARGET_END_HEADER: Final = "moldau.target.end"


class ForeignRecord(ValueError):
    """A record that is none of these."""


def string(text: str) -> bytes:
    data = text.encode()
    return INT16.pack(len(data)) + data


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: Struct) -> tuple[Any, ...]:
        try:
            found = layout.unpack_from(self._data, self._position)
        except error as cause:
            raise ForeignRecord(f"{self._data!r} ends too soon") from cause
        self._position += layout.size
        return found

    def string(self) -> str:
        (size,) = self.take(INT16)
        found = self._data[self._position : self._position + size]
        if size < 0 or len(found) != size:
            raise ForeignRecord(f"{self._data!r} ends too soon")
        self._position += size
        try:
            return found.decode()
        except UnicodeDecodeError as cause:
            raise ForeignRecord(str(cause)) from cause


# -- heartbeats ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heartbeat:
    source: str
    target: str
    time_ms: int

    def key(self) -> bytes:
        return string(self.source) + string(self.target)

    def value(self) -> bytes:
        return HEARTBEAT.pack(VERSION, self.time_ms)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Heartbeat:
        names = Reader(key)
        source, target = names.string(), names.string()
        _, time_ms = Reader(value).take(HEARTBEAT)
        return cls(source, target, time_ms)


# -- checkpoints -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checkpoint:
    group: str
    place: TopicPartition
    """In the target."""
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return string(self.group) + string(self.place.topic) + INT32.pack(self.place.partition)

    def value(self) -> bytes:
        return CHECKPOINT.pack(VERSION, self.upstream, self.downstream) + string(self.metadata)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Checkpoint:
        head, body = Reader(key), Reader(value)
        group, topic = head.string(), head.string()
        (partition,) = head.take(INT32)
        _, upstream, downstream = body.take(CHECKPOINT)
        return cls(group, TopicPartition(topic, partition), upstream, downstream, body.string())


# -- offset syncs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream` in the source stands at `downstream` in the target."""

    place: TopicPartition
    """In the source."""
    upstream: int
    downstream: int
    run: int = 1
    """So many records, this one included, have consecutive offsets in both."""

    def key(self) -> bytes:
        return string(self.place.topic) + INT32.pack(self.place.partition)

    def value(self) -> bytes:
        return OFFSETS.pack(self.upstream, self.downstream)

    def headers(self) -> Headers:
        return ((RUN_HEADER, INT64.pack(self.run)),) if self.run > 1 else ()

    @classmethod
    def read(cls, key: bytes, value: bytes, headers: Headers = ()) -> OffsetSync:
        head = Reader(key)
        topic = head.string()
        (partition,) = head.take(INT32)
        upstream, downstream = Reader(value).take(OFFSETS)
        run = dict(headers).get(RUN_HEADER)
        return cls(TopicPartition(topic, partition), upstream, downstream, INT64.unpack(run)[0] if run else 1)


# -- positions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition of the source is copied, between which topics that was, and how far the copies reach."""

    place: TopicPartition
    next_offset: int
    source_id: UUID | None = None
    target_id: UUID | None = None
    target_end: int | None = None
    """Behind the last copy; None where a former version, or MirrorMaker 2, has written this."""

    def key(self, cluster: str) -> bytes:
        return position_key(cluster, self.place)

    def value(self) -> bytes:
        return b'{"offset":%d}' % (self.next_offset - 1)

    def headers(self) -> Headers:
        named = ((SOURCE_ID_HEADER, self.source_id), (TARGET_ID_HEADER, self.target_id))
        ids = tuple((name, found.bytes) for name, found in named if found is not None)
        return ids if self.target_end is None else (*ids, (TARGET_END_HEADER, INT64.pack(self.target_end)))

    @classmethod
    def read(cls, cluster: str, key: bytes, value: bytes, headers: Headers = ()) -> Position | None:
        """None for a position of another connector or cluster."""
        try:
            connector, place = json.loads(key)
            offset = json.loads(value)["offset"]
            if connector != CONNECTOR or place.get("cluster") != cluster:
                return None
            found = TopicPartition(str(place["topic"]), int(place["partition"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        if not isinstance(offset, int):
            return None
        more = dict(headers)
        source, target, end = more.get(SOURCE_ID_HEADER), more.get(TARGET_ID_HEADER), more.get(TARGET_END_HEADER)
        return cls(
            found,
            offset + 1,
            UUID(bytes=source) if source else None,
            UUID(bytes=target) if target else None,
            INT64.unpack(end)[0] if end else None,
        )


def position_key(cluster: str, place: TopicPartition) -> bytes:
    named = {"cluster": cluster, "partition": place.partition, "topic": place.topic}
    return json.dumps([CONNECTOR, named], separators=(",", ":"), ensure_ascii=False).encode()
