"""What all questions share: who asks, how a refusal is raised, and partitions as requests carry them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from moldau.client.cluster import Cluster
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition


class Wired(Protocol):
    """Whoever has a connection of ours."""

    def wire(self) -> Cluster: ...


def refuse(code: int, message: str | None = None) -> None:
    """Raises what an answer carries, with the broker's message alone."""
    if code:
        raise KafkaError(ErrorCode(code), message)


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """As requests carry partitions: the numbers under their topics."""
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found
