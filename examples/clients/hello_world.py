"""Kafka in Action 2.8 and 2.10: one record sent, and the loop that prints what it reads.

python examples/clients/hello_world.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from moldau import Consumer, Producer


def send(bootstrap: str, topic: str = "helloworld") -> None:
    properties = {
        "bootstrap.servers": bootstrap,
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    }
    with Producer(properties) as producer:
        producer.send(topic, "hello world again!")


def read(bootstrap: str, topic: str = "helloworld", group: str = "helloconsumer") -> Iterator[str]:
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": "true",
        "auto.commit.interval.ms": "1000",
        "auto.offset.reset": "earliest",
        "key.deserializer": "string",
        "value.deserializer": "string",
    }
    with Consumer(properties) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            yield f"offset = {record.offset}, key = {record.key}, value = {record.value}"


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    send(address, f"{prefix}helloworld")
    for line in read(address, f"{prefix}helloworld", f"{prefix}helloconsumer"):
        print(line)
