"""Kafka: The Definitive Guide, chapter 3, Avro: the fax number of customers gives way to an e-mail address.

Whoever wrote and whoever reads, the old program or the new one: id and name are there, and what the writer did not know
is null. The registry lets the change pass because both fields have a default.

python examples/clients/contacts.py localhost:9092 http://localhost:8081 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
from typing import Any

from moldau import Consumer, Producer
from moldau.clients.records import TopicPartition
from moldau.clients.registered import Avro


def schema(contact: str) -> dict[str, Any]:
    fields = [
        {"name": "id", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": contact, "type": ["null", "string"], "default": None},
    ]
    return {"namespace": "customerManagement.avro", "type": "record", "name": "Customer", "fields": fields}


OLD, NEW = schema("faxNumber"), schema("email")


def send(bootstrap: str, registry: str, topic: str, own: dict[str, Any], customers: list[dict[str, Any]]) -> None:
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry}
    with Producer(settings, value_serializer=Avro(own)) as producer:
        for customer in customers:
            producer.send(topic, customer)


def read(bootstrap: str, registry: str, topic: str, own: dict[str, Any], count: int) -> list[dict[str, Any]]:
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry, "auto.offset.reset": "earliest"}
    with Consumer(settings, value_deserializer=Avro(own)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        records = consumer.records(30.0)
        return [next(records).value for _ in range(count)]


if __name__ == "__main__":
    address, registry_url, prefix = (*sys.argv[1:], "example-")[:3]
    place = (address, registry_url, f"{prefix}customerContacts")
    send(*place, OLD, [{"id": 1, "name": "Ann", "faxNumber": "555-1"}])
    send(*place, NEW, [{"id": 2, "name": "Bob", "email": "bob@example.com"}])
    for own in (OLD, NEW):
        print(read(*place, own, 2))
