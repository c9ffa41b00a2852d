"""Kafka in Action 5.5 and 5.7, and the guide's "Combining synchronous and asynchronous commits": when what was read is
committed, and where reading begins.

python examples/clients/commit_modes.py localhost:9092
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping

from moldau import Consumer
from moldau.clients.errors import KafkaFailure
from moldau.clients.records import ConsumerRecord, OffsetAndMetadata, TopicPartition

Handle = Callable[[ConsumerRecord], None]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]

log = logging.getLogger(__name__)


def told(offsets: Offsets, error: KafkaFailure | None) -> None:
    """Listing 5.8: both outcomes are logged."""
    for place, committed in offsets.items():
        if error is not None:
            log.warning("topic %s, partition %d, offset %d: %s", *place, committed.offset, error)
        else:
            log.info("topic %s, partition %d, offset %d", *place, committed.offset)


def automatic(properties: Mapping[str, object], topic: str, handle: Handle, idle_seconds: float | None = None) -> None:
    """Every auto.commit.interval.ms, and at the end."""
    with Consumer(properties, enable_auto_commit=True) as consumer:
        consumer.subscribe([topic])
        for record in consumer.records(idle_seconds):
            handle(record)


def synchronous(properties: Mapping[str, object], topic: str, handle: Handle, idle_seconds: float) -> None:
    """Listing 5.6: each batch is committed before the next is asked for."""
    with Consumer(properties, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        while records := consumer.poll(idle_seconds):
            for record in records:
                handle(record)
            consumer.commit()


def asynchronous(properties: Mapping[str, object], topic: str, handle: Handle, idle_seconds: float) -> None:
    """Listings 5.7 and 5.8: the loop goes on, and hears later; the offset is named, one behind the record."""
    with Consumer(properties, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        for record in consumer.records(idle_seconds):
            handle(record)
            consumer.commit_async(told, {record.topic_partition: OffsetAndMetadata(record.offset + 1, "")})


def both(properties: Mapping[str, object], topic: str, handle: Handle, idle_seconds: float) -> None:
    """Asynchronous while it runs, where a later commit makes up for a lost one; the last one waits and is sure. What
    was handled is counted here: the position is already behind the whole batch."""
    handled: dict[TopicPartition, int] = {}
    with Consumer(properties, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        try:
            while records := consumer.poll(idle_seconds):
                for record in records:
                    handle(record)
                    handled[record.topic_partition] = record.offset + 1
                consumer.commit_async(told, dict(handled))
        finally:
            consumer.commit({place: offset for place, offset in handled.items() if place in consumer.assignment()})


def read_from(
    properties: Mapping[str, object], place: TopicPartition, begin: Callable[[Consumer], None], idle_seconds: float
) -> Iterator[ConsumerRecord]:
    with Consumer(properties) as consumer:
        consumer.assign([place])
        begin(consumer)
        yield from consumer.records(idle_seconds)


def from_beginning(consumer: Consumer) -> None:
    """Listing 5.9."""
    consumer.seek_to_beginning()


def from_end(consumer: Consumer) -> None:
    """Listing 5.10."""
    consumer.seek_to_end()


def from_offset(offset: int) -> Callable[[Consumer], None]:
    """Listing 5.11."""

    def begin(consumer: Consumer) -> None:
        for place in consumer.assignment():
            consumer.seek(place, offset)

    return begin


def from_time(timestamp: int) -> Callable[[Consumer], None]:
    """Listing 5.12: the first record at or after a time, in milliseconds since 1970."""

    def begin(consumer: Consumer) -> None:
        for place, found in consumer.offsets_for_times(dict.fromkeys(consumer.assignment(), timestamp)).items():
            if found is None:
                consumer.seek_to_end(place)
            else:
                consumer.seek(place, found.offset)

    return begin


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    given = {"bootstrap.servers": sys.argv[1], "group.id": "kinaction_webconsumer", "auto.offset.reset": "earliest"}
    both(given, "kinaction_webclicks", print, idle_seconds=60.0)
