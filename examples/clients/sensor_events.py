"""Kafka in Action 4.1 to 4.9: the three producers of the sensor project, and who reads critical alerts first.

Audit events must not be lost: acks=all, and every send is waited for. Health events have the stage as their key, so
that one stage's history is in one partition; one lost event does no harm. Alerts that are CRITICAL have the last
partition for themselves, and a consumer that reads nothing else.

python examples/clients/sensor_events.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from moldau import Consumer, Producer
from moldau.clients.errors import KafkaFailure
from moldau.clients.partitioners import LastForSome
from moldau.clients.records import ProducerRecord, RecordMetadata, TopicPartition

FAILURES: list[str] = []


@dataclass(frozen=True)
class Alert:
    alert_id: int
    stage_id: str
    alert_level: str
    alert_message: str


class AlertKeySerde:
    """The key of an alert is its stage, in UTF-8."""

    def serialize(self, topic: str, value: Alert | None) -> bytes | None:
        return None if value is None else value.stage_id.encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else data.decode()


class AlertLevelPartitioner(LastForSome):
    def is_special(self, topic: str, key: Alert) -> bool:
        return key.alert_level == "CRITICAL"


def alert_callback(metadata: RecordMetadata | None, error: KafkaFailure | None) -> None:
    """Speaks only of failures."""
    if error is not None:
        FAILURES.append(str(error))
        print(f"alert not delivered: {error}")


def audit(bootstrap: str, topic: str, event: str) -> str:
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "retries": 3, "value.serializer": "string"}
    with Producer(settings) as producer:
        result = producer.send(topic, event).result(60)
    return f"offset = {result.offset}, topic = {result.topic}, timestamp = {result.timestamp}"


def health(bootstrap: str, topic: str, alerts: list[Alert]) -> None:
    settings = {"bootstrap.servers": bootstrap, "key.serializer": AlertKeySerde, "value.serializer": "string"}
    with Producer(settings) as producer:
        for alert in alerts:
            producer.send(ProducerRecord(topic, alert.alert_message, alert))


def raise_alerts(bootstrap: str, topic: str, alerts: list[Alert]) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "key.serializer": AlertKeySerde,
        "value.serializer": "string",
        "partitioner.class": AlertLevelPartitioner,
    }
    with Producer(settings) as producer:
        for alert in alerts:
            producer.send(ProducerRecord(topic, alert.alert_message, alert), on_delivery=alert_callback)


def critical_alerts(bootstrap: str, topic: str, count: int) -> list[str]:
    """From the last partition alone, whatever waits in the others."""
    settings = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "key.deserializer": AlertKeySerde,
        "value.deserializer": "string",
    }
    found: list[str] = []
    with Consumer(settings) as consumer:
        last = max(each.partition for each in consumer.partitions_for(topic))
        consumer.assign([TopicPartition(topic, last)])
        for record in consumer:
            found.append(record.value)
            if len(found) == count:
                break
    return found


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    print(audit(address, f"{prefix}audit", "admin switched stage 1 on"))
    health(address, f"{prefix}health", [Alert(0, "Stage 0", "INFORMATIONAL", "working")])
    raise_alerts(address, f"{prefix}alert", [Alert(1, "Stage 1", "CRITICAL", "Stage 1 stopped")])
    print(critical_alerts(address, f"{prefix}alert", 1))
