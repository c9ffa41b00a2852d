"""Kafka's own documentation, "Manual offset control": records are gathered, stored in a database together, and only
then committed. After a crash some are stored again: at most as many as were gathered once.

python examples/clients/batches_to_database.py localhost:9092 clicks.db
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable

from moldau import Consumer
from moldau.clients.records import ConsumerRecord

LEAST = 200
STEPS = ("gathered", "stored", "committed")


def run(
    bootstrap: str,
    topic: str,
    path: str,
    *,
    idle_seconds: float | None = None,
    watch: Callable[[str], None] = lambda step: None,
) -> None:
    """`watch` is told each step of the work."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE IF NOT EXISTS clicks (place INTEGER, number INTEGER)")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-batches",
        "group.instance.id": "only",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    gathered: list[ConsumerRecord] = []
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        for record in consumer.records(idle_seconds):
            gathered.append(record)
            if len(gathered) < LEAST:
                continue
            watch("gathered")
            with database:
                rows = [(each.partition, each.offset) for each in gathered]
                database.executemany("INSERT INTO clicks VALUES (?, ?)", rows)
            watch("stored")
            consumer.commit()
            gathered.clear()
            watch("committed")


if __name__ == "__main__":
    run(sys.argv[1], "clicks", sys.argv[2])
