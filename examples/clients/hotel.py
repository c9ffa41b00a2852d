"""Kafka in Action 7.1: which topics a hotel needs. Searches are many and stand alone: a topic of theirs, without keys.
Booking and payment of a customer belong in order: one topic, by customer. Billing never sees a search.

python examples/clients/hotel.py localhost:9092
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau import Consumer, Producer

SEARCHES, BOOKINGS = "hotel.searches", "hotel.bookings"


class Event(NamedTuple):
    kind: str
    """searched, booked or paid."""
    customer: str
    room: int


def send(bootstrap: str, events: Iterable[Event], searches: str = SEARCHES, bookings: str = BOOKINGS) -> None:
    with Producer(bootstrap_servers=bootstrap, key_serializer="string", value_serializer="json") as producer:
        for event in events:
            value = event._asdict()
            if event.kind == "searched":
                producer.send(searches, value)
            else:
                producer.send(bookings, value, event.customer)


def billed(bootstrap: str, group: str, idle_seconds: float, bookings: str = BOOKINGS) -> Iterator[Event]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    with Consumer(settings, value_deserializer="json") as consumer:
        consumer.subscribe([bookings])
        for record in consumer.records(idle_seconds):
            yield Event(**record.value)


if __name__ == "__main__":
    day = [Event("searched", f"guest-{number}", number % 100) for number in range(50_000)]
    rooms = [(Event("booked", f"guest-{room}", room), Event("paid", f"guest-{room}", room)) for room in range(100)]
    send(sys.argv[1], [*day, *(event for pair in rooms for event in pair)])
