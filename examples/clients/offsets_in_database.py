"""Kafka: The Definitive Guide, "Consuming records with specific offsets": each record once in a database.

Record and offset are stored in one transaction of the database. After a crash, and whenever the group gives this member
partitions, it goes on where the database stands; Kafka's own committed offsets play no part.

python examples/clients/offsets_in_database.py localhost:9092 clicks.db [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Collection

from moldau import Consumer
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import ConsumerRecord, TopicPartition

TABLES = """
CREATE TABLE IF NOT EXISTS clicks (topic TEXT, place INTEGER, number INTEGER, value TEXT);
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, place INTEGER, next INTEGER, PRIMARY KEY (topic, place));
"""
STEPS = ("read", "inserted", "offset stored", "committed")
Watch = Callable[[str], None]


class Store:
    def __init__(self, path: str, watch: Watch) -> None:
        self.database = sqlite3.connect(path)
        self.database.executescript(TABLES)
        self._watch = watch

    def add(self, record: ConsumerRecord) -> None:
        """Both or none."""
        with self.database:
            self.database.execute(
                "INSERT INTO clicks VALUES (?, ?, ?, ?)", (record.topic, record.partition, record.offset, record.value)
            )
            self._watch("inserted")
            self.database.execute(
                "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (record.topic, record.partition, record.offset + 1)
            )
            self._watch("offset stored")
        self._watch("committed")

    def next_offset(self, place: TopicPartition) -> int:
        found = self.database.execute("SELECT next FROM offsets WHERE topic = ? AND place = ?", place).fetchone()
        return 0 if found is None else int(found[0])


class SeekToStored(RebalanceListener):
    def __init__(self, consumer: Consumer, store: Store) -> None:
        self._consumer = consumer
        self._store = store

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            self._consumer.seek(place, self._store.next_offset(place))


def run(
    bootstrap: str,
    topic: str,
    path: str,
    *,
    idle_seconds: float | None = None,
    watch: Watch = lambda step: None,
) -> None:
    """`watch` is told each step of the work."""
    store = Store(path, watch)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-to-database",
        # Under a name of its own, a member that comes back after a crash need not wait until it is missed.
        "group.instance.id": "only",
        "enable.auto.commit": False,
    }
    with Consumer(settings, value_deserializer="string") as consumer:
        consumer.subscribe([topic], SeekToStored(consumer, store))
        for record in consumer.records(idle_seconds):
            watch("read")
            store.add(record)


if __name__ == "__main__":
    address, database, prefix = (*sys.argv[1:], "example-")[:3]
    run(address, f"{prefix}clicks", database)
