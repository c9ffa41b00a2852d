"""Kafka: The Definitive Guide, chapters 3 and 4: customers by country, counted by a group whose members come and go.

The largest customer has the last partition for itself, so that it holds nobody else up. Each member counts what it is
given, and commits before its partitions go to somebody else: whatever the group does, every customer is counted once.

python examples/clients/countries.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterable

from moldau import Consumer, Producer
from moldau.clients.partitioners import SpecialKeys
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import TopicPartition

CUSTOMERS = [("Precision Products", "France"), ("Biomedical Materials", "USA"), ("Laboratory Equipment", "USA")]


def send(bootstrap: str, topic: str, customers: Iterable[tuple[str, str]], largest: str = "Banana") -> None:
    settings = {"bootstrap.servers": bootstrap, "partitioner.class": SpecialKeys, SpecialKeys.KEYS: largest}
    with Producer(settings, key_serializer="string", value_serializer="string") as producer:
        for customer, country in customers:
            producer.send(topic, country, customer)


class CountryCounter(RebalanceListener):
    """One member of the group. `changed` is told of records and of partitions."""

    def __init__(self, bootstrap: str, topic: str, group: str = "CountryCounter") -> None:
        self.counts: Counter[str] = Counter()
        self.partitions: set[TopicPartition] = set()
        self.changed = threading.Condition()
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                    "enable.auto.commit": False}  # fmt: skip
        self._consumer = Consumer(settings, value_deserializer="string")

    def run(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe([self._topic], self)
            for record in consumer:
                with self.changed:
                    self.counts[record.value] += 1
                    self.changed.notify_all()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        with self.changed:
            self.partitions |= set(partitions)
            self.changed.notify_all()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.commit()
        with self.changed:
            self.partitions -= set(partitions)
            self.changed.notify_all()

    def stop(self) -> None:
        """From any thread."""
        self._consumer.wakeup()


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    send(address, f"{prefix}customerCountries", CUSTOMERS)
    counter = CountryCounter(address, f"{prefix}customerCountries", f"{prefix}CountryCounter")
    try:
        counter.run()
    except KeyboardInterrupt:
        counter.stop()
    print(json.dumps(counter.counts))
