"""Kafka in Action 3.14 and 3.15: alerts in Avro with a schema registry, each under the number of its sensor.

python examples/clients/alerts_in_avro.py localhost:9092 http://localhost:8081 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
import time
from itertools import islice
from typing import Any

from moldau import Consumer, Producer
from moldau.clients.registered import Avro

ALERT = {
    "namespace": "org.kafkainaction",
    "type": "record",
    "name": "Alert",
    "fields": [
        {"name": "sensor_id", "type": "long", "doc": "The unique id that identifies the sensor"},
        {"name": "time", "type": "long", "doc": "Time the alert was generated as UTC milliseconds from epoch"},
        {"name": "status", "type": {"type": "enum", "name": "AlertStatus", "symbols": ["Critical", "Major", "Minor"]}},
    ],
}


def send(bootstrap: str, registry: str, topic: str = "avrotest") -> int:
    """The offset of an alert of sensor 12345."""
    settings = {
        "bootstrap.servers": bootstrap,
        "schema.registry.url": registry,
        "key.serializer": "org.apache.kafka.common.serialization.LongSerializer",
        "value.serializer": Avro(ALERT),
    }
    alert = {"sensor_id": 12345, "time": int(time.time() * 1000), "status": "Critical"}
    with Producer(settings) as producer:
        return producer.send(topic, alert, key=alert["sensor_id"]).result().offset


def read(bootstrap: str, registry: str, topic: str = "avrotest", count: int = 1) -> list[tuple[int, dict[str, Any]]]:
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry, "auto.offset.reset": "earliest"}
    with Consumer(settings, key_deserializer="long", value_deserializer="avro") as consumer:
        consumer.assign([(topic, 0)])
        return [(record.key, record.value) for record in islice(consumer, count)]


if __name__ == "__main__":
    address, registry_url, prefix = (*sys.argv[1:], "example-")[:3]
    print("offset", send(address, registry_url, f"{prefix}avrotest"))
    print(read(address, registry_url, f"{prefix}avrotest"))
