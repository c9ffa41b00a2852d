"""What a connector implements. A class of a few methods; everything else (topics, formats, transactions, restarts,
parallel work) is the worker's.

A **source** has streams: each is one place that is read (a file, a table), with a position of its own that only this
class understands, a dict of JSON values. The worker asks for the position up to which something can be read (`latest`)
and has the records between two positions read (`read`), in any process of the Spark cluster. Records and the position
after them are committed in one transaction; after any crash reading goes on at the last position that was committed,
so a source need not be able to give the same records again.

A **sink** gets records in the order of their partitions (`write`), in Spark's tasks. It may be handed records again
that it has written before, after a crash: it either remembers in its target, atomically with the data, up to which
offset each partition is written, or writes under keys so that a repetition changes nothing. `EXACT` says which.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from moldau.connect.definitions import ConfigDef
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Position = dict[str, Any]
Headers = Sequence[tuple[str, bytes | None]]
GENERATION_BITS: Final = 48
"""Offsets stay below for nine years of a million records a second, and 32 thousand topics of a name fit."""


class RecordRefused(Exception):
    """One record cannot be read or written: with `errors.tolerance=all` it becomes a dead letter. A source yields this
    in the record's place, a sink hands it to `refuse`. Any other exception ends the task, and so does this one where
    it is raised while a source reads: nobody knows then what would have followed."""

    def __init__(self, message: str = "", raw: RawRecord | None = None) -> None:
        """`raw`: what a source has of the record."""
        super().__init__(message)
        self.raw = raw


class StreamsChanged(Exception):
    """What there is to read, or its type, is not what `streams` said: it is asked again, and reading goes on at the
    positions that are committed."""


@dataclass(frozen=True, slots=True)
class Stream:
    partition: Mapping[str, Any]
    """Its name in Connect's offsets, such as {"filename": "test.txt"}."""
    topic: str
    value: str = "string"
    """The type of the values in Spark's notation: `string`, `struct<id: bigint not null, title: string>`."""
    key: str | None = None
    """The same of the keys; None: records have none."""
    value_name: str | None = None
    """The schema's name, for converters that keep one."""
    key_name: str | None = None


class SourceRecord(NamedTuple):
    value: Any
    """As Python gives it to Spark: a struct is a dict or a tuple in the order of its fields."""
    key: Any = None
    timestamp_ms: int | None = None
    headers: Headers = ()
    topic: str | None = None
    """Instead of the stream's."""
    partition: int | None = None
    """Of the topic; by the key's hash without one."""


class RawRecord(NamedTuple):
    """A record before converters and transforms."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @classmethod
    def shown(cls, key: Any, value: Any, headers: Headers = ()) -> RawRecord:
        """Of a source's record that was never bytes, for the eyes of whoever reads dead letters."""

        def text(content: Any) -> bytes | None:
            if content is None or isinstance(content, bytes):
                return content
            return json.dumps(content, ensure_ascii=False, default=str).encode()

        return cls(text(key), text(value), headers)


class SinkRecord(NamedTuple):
    topic: str
    """Where transforms have routed it: what a target is named after."""
    partition: int
    offset: int
    timestamp_ms: int | None
    key: Any
    value: Any
    """What the converter and the transforms have made; a struct is a dict. None is a tombstone."""
    headers: Headers = ()
    source_topic: str = ""
    """Where it was read, which transforms do not change; offsets count there. Empty: `topic`."""
    raw: RawRecord | None = None
    """As it was read."""
    generation: int = 0
    """How often the topic was deleted and made anew since the connector first read it."""

    @property
    def source(self) -> TopicPartition:
        """The partition that `offset` belongs to."""
        return TopicPartition(self.source_topic or self.topic, self.partition)

    @property
    def order(self) -> int:
        """The offset, as long as the topic is the one that it was; records of one that was made anew come behind all
        of those before. What a target remembers, and names of records in it, are made of this."""
        return order_of(self.generation, self.offset)


def order_of(generation: int, offset: int) -> int:
    return (generation << GENERATION_BITS) + offset


class Connector:
    CONFIG: ClassVar[ConfigDef] = ConfigDef()
    VERSION: ClassVar[str] = ""
    OPEN: ClassVar[Sequence[str]] = ()
    """What names of settings may begin with beside those of `CONFIG`."""

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """What is wrong with values that do not go together: each with the setting that is told so. Asked before a
        configuration is taken; looks at nothing but the values. One that is wrong by itself is there with its default,
        or empty."""
        return ()

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config`: the values of `CONFIG`, and whatever else was given as text."""
        self.config = config

    def close(self) -> None:
        """Nobody will use this object any more."""


class SourceConnector(Connector):
    def streams(self) -> Sequence[Stream]:
        """What there is to read now; asked when the connector starts, and again when something raised
        StreamsChanged."""
        raise NotImplementedError

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        """The position up to which the next batch reads; `position` unchanged if there is nothing new, None for the
        beginning. Asked in one long-lived process; bounds the size of a batch."""
        raise NotImplementedError

    def read(
        self, stream: Stream, begin: Position | None, end: Position
    ) -> Iterator[SourceRecord | RecordRefused | pa.RecordBatch]:
        """The records between the two, with `RecordRefused` for those that cannot be made. Arrow batches have columns
        with the names of SourceRecord's fields."""
        raise NotImplementedError

    def committed(self, streams: Sequence[tuple[Stream, Position | None]]) -> None:
        """Positions that are committed, perhaps not the newest: what lies before them is never asked for again. Called
        every few seconds while the connector runs, on an object of its own, if a class has this method."""

    def validate_position(self, partition: Mapping[str, Any], position: Mapping[str, Any] | None) -> None:
        """Raises ValueError if somebody sets a position that cannot be one."""


class SinkConnector(Connector):
    EXACT: ClassVar[str] = ""
    """How repetitions are made harmless, in a sentence, for the documentation."""
    ONE_WRITER: ClassVar[bool] = False
    """All partitions are written by one task, one after the other."""

    def refuse(self, record: SinkRecord, problem: Exception) -> None:
        """To be called by `write` for a record that the target does not take: it becomes a dead letter, or, with
        errors.tolerance=none, `problem` is raised. The worker puts its own in the place of this."""
        raise problem

    def write(self, records: Iterator[SinkRecord]) -> None:
        """Everything of a batch that one task has, ordered within each partition; durable when it returns. A target
        that remembers how far it is compares the `order` of records, never their offsets."""
        raise NotImplementedError

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Somebody set the connector's offsets, None for unknown again; it does not run. For targets that remember:
        these are orders."""
