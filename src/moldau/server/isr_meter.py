"""How often the in-sync sets of what this broker leads became smaller or larger, under Kafka's metric names.

Read off the images: what the controller takes out of a set because a broker is dead counts like what a leader proposes.
"""

from __future__ import annotations

from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metrics import Metrics


class IsrMeter:
    def __init__(self, metrics: Metrics, broker_id: int) -> None:
        self._broker_id = broker_id
        self._shrinks = metrics.counter("kafka.server", "ReplicaManager", "IsrShrinksPerSec")
        self._expands = metrics.counter("kafka.server", "ReplicaManager", "IsrExpandsPerSec")

    def apply(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        for topic in delta.changed:
            for index in topic.partitions:
                if index >= len(topic.old.partitions):
                    continue
                before, after = topic.old.partitions[index], topic.new.partitions[index]
                if after.leader != self._broker_id:
                    continue
                self._shrinks.value += bool(set(before.isr) - set(after.isr))
                self._expands.value += bool(set(after.isr) - set(before.isr))
