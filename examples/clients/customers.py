"""Kafka: The Definitive Guide, chapters 3 and 4: a serializer of one's own, and the same data with Avro and a registry.

python examples/clients/customers.py localhost:9092 http://localhost:8081 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from typing import Any

from moldau import Consumer, Producer
from moldau.clients.records import TopicPartition
from moldau.clients.registered import Avro

SCHEMA = {
    "namespace": "customerManagement.avro",
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "email", "type": ["null", "string"], "default": None},
    ],
}


@dataclass(frozen=True)
class Customer:
    customer_id: int
    name: str | None


class CustomerSerde:
    """Four bytes of id, four bytes of the name's length (0 for none), the name in UTF-8."""

    def serialize(self, topic: str, value: Customer | None) -> bytes | None:
        if value is None:
            return None
        name = (value.name or "").encode()
        return struct.pack(">ii", value.customer_id, len(name)) + name

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) < 8:
            raise ValueError(f"a customer has at least 8 bytes, not {len(data)}")
        number, length = struct.unpack_from(">ii", data)
        return Customer(number, data[8 : 8 + length].decode() if length else None)


def send_generic(bootstrap: str, registry: str, topic: str, customers: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry}
    with Producer(settings, key_serializer="string", value_serializer=Avro(SCHEMA)) as producer:
        for number in range(customers):
            name = f"exampleCustomer{number}"
            producer.send(topic, {"id": number, "name": name, "email": f"example{number}@example.com"}, name)


def read_generic(bootstrap: str, registry: str, topic: str, customers: int) -> list[dict[str, Any]]:
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry, "auto.offset.reset": "earliest"}
    found: list[dict[str, Any]] = []
    with Consumer(settings, key_deserializer="string", value_deserializer="avro") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for record in consumer:
            found.append(record.value)
            if len(found) == customers:
                break
    return found


if __name__ == "__main__":
    address, registry_url, prefix = (*sys.argv[1:], "example-")[:3]
    send_generic(address, registry_url, f"{prefix}customerContacts", 10)
    print(read_generic(address, registry_url, f"{prefix}customerContacts", 10))
