"""Transactions, over our own client: librdkafka's admin client has no calls for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import configs, reassignments, topics
from moldau.client.asking.transactions import (
    NOT_OPEN,
    ONGOING,
    Described,
    Marker,
    OpenTransaction,
    describe,
    describe_producers,
    fence,
    hanging,
    list_transactions,
    open_in,
    write_abort_marker,
)
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

__all__ = [
    "MIN_ISR",
    "NOT_OPEN",
    "ONGOING",
    "Described",
    "Marker",
    "OpenTransaction",
    "begun_at",
    "describe",
    "describe_producers",
    "durability",
    "fence",
    "hanging_in",
    "list_transactions",
    "open_in",
    "places_to_search",
    "write_abort_marker",
]

MIN_ISR: Final = "min.insync.replicas"
ASKED_AT_ONCE: Final = 500
"""Partitions in one turn, so that a bar can move."""


def places_to_search(cluster: Connection, topic: str | None, broker: int | None = None) -> list[TopicPartition]:
    """The partitions of a topic or of all; where a broker is named, those of which it has a replica."""
    layout = reassignments.layout(cluster, topics.names(cluster) if topic is None else [topic])
    return sorted(place for place, replicas in layout.items() if broker is None or broker in replicas)


def hanging_in(
    cluster: Connection,
    places: Sequence[TopicPartition],
    idle_since_ms: int,
    broker: int | None = None,
    advance: Callable[[int], object] = lambda done: None,
) -> list[OpenTransaction]:
    """Of those whose producers have written nothing since then."""
    opened: list[OpenTransaction] = []
    for done in range(0, len(places), ASKED_AT_ONCE):
        opened += open_in(cluster, places[done : done + ASKED_AT_ONCE], broker)
        advance(done)
    return hanging(cluster, [each for each in opened if each.producer.last_timestamp <= idle_since_ms])


def begun_at(offset: int, opened: Iterable[OpenTransaction]) -> OpenTransaction | None:
    return next((each for each in opened if each.start_offset == offset), None)


def durability(cluster: Connection, topic: str) -> tuple[int, int]:
    """How many replicas each partition has at least, and how many of them have to be in sync."""
    copies = min(map(len, reassignments.layout(cluster, [topic]).values()))
    settings = configs.describe_topics(cluster, [topic])[topic]
    return copies, next(int(each.value or 1) for each in settings if each.name == MIN_ISR)
