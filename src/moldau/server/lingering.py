"""Brokers that have just gone are told to clients a while longer.

librdkafka tears down a broker that Metadata no longer lists, and what it had sent there waits for a timer of a second
instead of going to the new leader at once. Only Metadata lists them; DescribeCluster is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.metadata.image import BrokerImage, ClusterImage
from moldau.metadata.image_changes import ImageDelta

LINGERING_SECONDS: Final = 30.0


class LingeringBrokers:
    def __init__(self, monotonic: Callable[[], float], seconds: float = LINGERING_SECONDS) -> None:
        self._monotonic = monotonic
        self._seconds = seconds
        self._gone: dict[int, tuple[BrokerImage, float]] = {}

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if old.brokers is new.brokers:
            return
        now = self._monotonic()
        for number, broker in old.brokers.items():
            if not broker.fenced and not is_listed(new, number):
                self._gone[number] = (broker, now + self._seconds)
        for number in tuple(self._gone):
            if is_listed(new, number):
                del self._gone[number]

    def brokers(self) -> list[BrokerImage]:
        """As they were when they were last there."""
        if not self._gone:
            return []
        now = self._monotonic()
        self._gone = {number: (broker, end) for number, (broker, end) in self._gone.items() if end > now}
        return [broker for broker, _ in self._gone.values()]


def is_listed(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced
