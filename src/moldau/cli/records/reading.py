"""Reading ranges of partitions with librdkafka's consumer, and looking back for the last records of a log.

Offsets are no count of records: the markers of transactions, aborted records and what compaction has removed have
offsets too. So whoever wants the last ten records begins ten offsets before the end, and looks further back until
there are ten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import for_client
from moldau.cli.output import warn
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from moldau.cli.connection import Connection

BATCH: Final = 500
LOOK_SECONDS: Final = 0.2
"""Short waits, so that Ctrl-C is heard and the end is noticed."""
READ_COMMITTED: Final = "read_committed"
LEAST_STEP_BACK: Final = 100
"""One fetch brings this many anyway."""
WIDENING: Final = 4


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one partition that are wanted: first <= offset < last."""

    first: int
    last: int


def reader(cluster: Connection, isolation: str) -> Consumer:
    """A consumer for assigned partitions that tells where they end."""
    return cluster.consumer(
        **{
            "group.id": "moldau-consume",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )


def in_ranges(
    consumer: Consumer, wanted: Mapping[TopicPartition, Range], follow: bool = False
) -> Iterator[list[Message]]:
    """The records of these ranges, as many at a time as arrived together, maybe none; with `follow` they never end."""
    left = {place: span for place, span in wanted.items() if follow or span.first < span.last}
    consumer.assign([for_client(place, span.first) for place, span in left.items()])
    while left:
        taken = []
        for message in consumer.consume(BATCH, LOOK_SECONDS):
            place, offset = place_of(message), number(message.offset())
            ended = is_news(message)
            if place not in left:
                continue
            if not ended and (follow or offset < left[place].last):
                taken.append(message)
            # The news of an end too: where a transaction's marker stands last, no record carries the last offset.
            if not follow and offset + (not ended) >= left[place].last:
                del left[place]
                consumer.incremental_unassign([for_client(place)])
        yield taken


def place_of(message: Message) -> TopicPartition:
    return TopicPartition(str(message.topic()), number(message.partition()))


def number(value: int | None) -> int:
    return -1 if value is None else value


def is_news(message: Message) -> bool:
    """Whether this is news instead of a record; news that cannot pass ends the command."""
    from confluent_kafka import KafkaException

    error: Any = message.error()
    if error is None:
        return False
    if error.name() != "_PARTITION_EOF" and not error.retriable() and not error.name().startswith("_"):
        raise KafkaException(error)
    if error.name() != "_PARTITION_EOF":
        warn(str(error.str()))
    return True


def is_end(message: Message) -> bool:
    error: Any = message.error()
    return error is not None and error.name() == "_PARTITION_EOF"


def count_records(
    cluster: Connection, logs: Mapping[TopicPartition, Range], advance: Callable[[int], None] = lambda done: None
) -> dict[TopicPartition, int]:
    """How many records of decided transactions there are: everything is read."""
    found = dict.fromkeys(logs, 0)
    consumer = reader(cluster, READ_COMMITTED)
    try:
        for messages in in_ranges(consumer, logs):
            for message in messages:
                found[place_of(message)] += 1
            advance(sum(found.values()))
    finally:
        consumer.close()
    return found


def last_records(
    cluster: Connection, logs: Mapping[TopicPartition, Range], count: int, isolation: str
) -> dict[TopicPartition, int]:
    """Where the last `count` records of each log begin."""
    if count == 0:
        return {place: log.last for place, log in logs.items()}
    found: dict[TopicPartition, int] = {}
    step = max(count, LEAST_STEP_BACK)
    consumer = reader(cluster, isolation)
    try:
        while open_logs := {place: log for place, log in logs.items() if place not in found}:
            spans = {place: Range(max(log.first, log.last - step), log.last) for place, log in open_logs.items()}
            for place, offsets in _offsets(consumer, spans, count).items():
                if len(offsets) == count:
                    found[place] = offsets[0]
                elif spans[place].first == logs[place].first:
                    found[place] = logs[place].first
            step *= WIDENING
    finally:
        consumer.close()
    return found


def _offsets(consumer: Consumer, spans: Mapping[TopicPartition, Range], count: int) -> dict[TopicPartition, deque[int]]:
    """The offsets of the last `count` records in each range."""
    found: dict[TopicPartition, deque[int]] = {place: deque(maxlen=count) for place in spans}
    for messages in in_ranges(consumer, spans):
        for message in messages:
            found[place_of(message)].append(number(message.offset()))
    return found
