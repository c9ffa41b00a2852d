"""Kafka in Action 9.13 to 9.17: interceptors give each alert a trace id, and find it again where it is read.

python examples/clients/tracing.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
import uuid

from moldau import Consumer, Producer
from moldau.clients.errors import KafkaFailure
from moldau.clients.interceptors import ConsumerInterceptor, ProducerInterceptor
from moldau.clients.records import ConsumerRecords, ProducerRecord, RecordMetadata


class AlertProducerMetricsInterceptor(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        trace = str(uuid.uuid4())
        record.headers.append(("traceId", trace))
        print(f"Created traceId: {trace}")
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaFailure | None) -> None:
        if metadata is None:
            print(error)
        else:
            print(f"ack'ed topic={metadata.topic}, partition={metadata.partition}, offset={metadata.offset}")


class AlertConsumerMetricsInterceptor(ConsumerInterceptor):
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        for record in records:
            for name, value in record.headers:
                if name == "traceId" and value is not None:
                    print(f"TraceId is: {value.decode()}")
        return records


def send(bootstrap: str, topic: str = "alert") -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "interceptor.classes": "clients.tracing.AlertProducerMetricsInterceptor",
    }
    with Producer(settings, value_serializer="string") as producer:
        producer.send(topic, "Stage 1 stopped")


def read(bootstrap: str, topic: str = "alert", idle_seconds: float | None = None) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "alertinterceptor",
        "auto.offset.reset": "earliest",
        "interceptor.classes": [AlertConsumerMetricsInterceptor],
    }
    with Consumer(settings, value_deserializer="string") as consumer:
        consumer.subscribe([topic])
        for _ in consumer.records(idle_seconds):
            if idle_seconds is not None:
                break


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    send(address, f"{prefix}alert")
    read(address, f"{prefix}alert")
