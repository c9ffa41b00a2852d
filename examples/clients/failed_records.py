"""Kafka: The Definitive Guide, "Configuring producer retries": what may pass is tried again by the producer itself; the
program sees to what will not: it writes those records into a file, with the reason.

python examples/clients/failed_records.py localhost:9092 orders failed.jsonl < orders.txt
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from moldau import Producer
from moldau.clients.errors import KafkaFailure
from moldau.clients.records import RecordMetadata


def send(properties: dict[str, object], topic: str, values: Iterable[str], errors: Path) -> int:
    """How many were stored; the others stand in the file."""
    stored = 0
    with errors.open("a") as file, Producer(properties, value_serializer="string") as producer:

        def written(value: str, error: KafkaFailure) -> None:
            told = {"value": value, "code": error.code, "retriable": error.retriable, "error": str(error)}
            file.write(json.dumps(told) + "\n")

        def told(value: str, place: RecordMetadata | None, error: KafkaFailure | None) -> None:
            nonlocal stored
            if error is None:
                stored += 1
            else:
                written(value, error)

        for value in values:
            try:
                producer.send(topic, value, on_delivery=partial(told, value))
            except KafkaFailure as error:
                written(value, error)
        producer.flush()
    return stored


if __name__ == "__main__":
    count = send({"bootstrap.servers": sys.argv[1]}, sys.argv[2], map(str.strip, sys.stdin), Path(sys.argv[3]))
    print(f"{count} stored, others in {sys.argv[3]}")
