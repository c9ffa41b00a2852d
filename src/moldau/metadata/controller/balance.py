"""Preferred leaders: the first replica of each partition leads, so that load is spread as partitions were placed."""

from __future__ import annotations

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.elections import Draft, Election, settle
from moldau.metadata.controller.levels import RulesOfTopics, Settled, changed
from moldau.metadata.controller.partition_changes import value_after
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import NO_LEADER, ClusterImage
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses

DEFAULT_PERCENTAGE = 10
MAX_ELECTIONS = 1_000
"""How many leaders move at a time; the rest waits for the next round."""


def balancing(image: ClusterImage, config: BrokerConfig, percentage: int = DEFAULT_PERCENTAGE) -> Work[list[Settled]]:
    """Gives leadership back to brokers that lead too few of the partitions that prefer them. Partitions that are being
    reassigned are left alone."""
    paused = pauses()
    preferred: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if next(paused):
                yield
            broker = partition.replicas[0]
            preferred[broker] = preferred.get(broker, 0) + 1
            if partition.leader != broker and partition.leader != NO_LEADER and not partition.is_reassigning:
                elsewhere.setdefault(broker, []).append(TopicPartition(topic.name, index))
    standing = Standing(image)
    rules = RulesOfTopics(image, config)
    found: list[Settled] = []
    for broker in sorted(elsewhere):
        if not standing.is_active(broker) or len(elsewhere[broker]) * 100 <= preferred[broker] * percentage:
            continue
        for place in sorted(elsewhere[broker]):
            if next(paused):
                yield
            old = image.topics[place.topic].partitions[place.partition]
            new = settle(old, Draft.of(old), standing, rules.of(place.topic), Election.PREFERRED)
            if new.leader == broker:
                found.append(changed(place, old, new, value_after(old, new)))
            if len(found) == MAX_ELECTIONS:
                return found
    return found
