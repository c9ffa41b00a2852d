"""Kafka in Action 9.6: a business consumer logs the ids that it has processed; an auditor reads the topic and tells
which are missing.

python examples/clients/audit.py localhost:9092 orders processed
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from moldau import Consumer, Producer
from moldau.clients.records import ConsumerRecord, TopicPartition

ID = "eventId"


@dataclass
class Span:
    """One step of a trace: what was done with which event."""

    name: str
    event: str
    notes: dict[str, str] = field(default_factory=dict)


class TracingConsumer:
    """Decorates a consumer: behaves as it does, and tells a span of each record (listing 9.18, without Zipkin)."""

    def __init__(self, delegate: Consumer, report: Callable[[Span], None]) -> None:
        self._delegate = delegate
        self._report = report

    def __getattr__(self, name: str) -> object:
        return getattr(self._delegate, name)

    def records(self, idle_seconds: float | None = None) -> Iterator[ConsumerRecord]:
        for record in self._delegate.records(idle_seconds):
            place = f"{record.topic}-{record.partition}@{record.offset}"
            self._report(Span("consume", id_of(record), {"place": place}))
            yield record


def id_of(record: ConsumerRecord) -> str:
    found = record.header(ID)
    return "" if found is None else found.decode()


def everything(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """What a topic holds now."""
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        places = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        left = sum(consumer.end_offsets(places).values()) - sum(consumer.beginning_offsets(places).values())
        found: list[ConsumerRecord] = []
        while len(found) < left:
            found += consumer.poll(1.0)
        return found


def process(bootstrap: str, topic: str, log: str, skip: Iterable[str] = ()) -> list[Span]:
    """The business: handles each event and logs its id, but for those that it fails to handle."""
    spans: list[Span] = []
    left = len(everything(bootstrap, topic))
    with business(bootstrap, topic, spans) as consumer, Producer({"bootstrap.servers": bootstrap}) as producer:
        for record in consumer.records():
            if id_of(record) not in skip:
                producer.send(log, id_of(record).encode())
            left -= 1
            if left <= 0:
                break
    return spans


@contextmanager
def business(bootstrap: str, topic: str, spans: list[Span]) -> Iterator[TracingConsumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-business", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        yield TracingConsumer(consumer, spans.append)


def missing(bootstrap: str, topic: str, log: str) -> list[str]:
    """The audit: ids of events that nobody has processed."""
    processed = {record.value.decode() for record in everything(bootstrap, log)}
    return [id_of(record) for record in everything(bootstrap, topic) if id_of(record) not in processed]


if __name__ == "__main__":
    for event in missing(*sys.argv[1:4]):
        print("not processed:", event)
