"""Partitions that are not as their brokers' state asks, and what they shall be instead.

Levels, not edges: nothing here depends on having seen an event, only on what the image says, so that whoever decides
next finds what was left to do. Where all is as it should be, nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from moldau.config.broker import BrokerConfig
from moldau.metadata import paths
from moldau.metadata.controller.elections import Draft, TopicRules, rules_of, settle
from moldau.metadata.controller.partition_changes import value_after
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from moldau.metadata.partition_index import PartitionIndex
from moldau.metadata.store import Put
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import INTERNAL_TOPICS
from moldau.work.slices import Work, pauses

NOTHING = b""
"""The value of an entry that stays as it is."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A partition that changes. `elected`: its leader epoch rises."""

    place: TopicPartition
    put: Put
    elected: bool


class RulesOfTopics:
    """The settings of the topics of one image, each worked out once."""

    def __init__(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        self._known: dict[str, TopicRules] = {}

    def of(self, topic: str) -> TopicRules:
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = rules_of(self._image.topics[topic], self._config)
        return found


def settling(
    image: ClusterImage,
    places: Collection[TopicPartition],
    standings: Sequence[Standing],
    config: BrokerConfig,
    limit: int | None = None,
) -> Work[list[Settled]]:
    """What changes among these partitions, seen under one standing after the other, at most `limit` of them. Those
    without a leader come first, and internal topics before others."""
    paused = pauses()
    rules = RulesOfTopics(image, config)
    # Thousands of partitions are alike: what becomes of them is worked out once.
    known: dict[tuple[PartitionImage, TopicRules], tuple[PartitionImage, bytes]] = {}
    found: list[Settled] = []
    for _, _, place in (yield from _most_urgent_first(image, places, standings[0])):
        if next(paused):
            yield
        if limit is not None and len(found) == limit:
            break
        old = image.topics[place.topic].partitions[place.partition]
        kind = (old, rules.of(place.topic))
        outcome = known.get(kind)
        if outcome is None:
            new = _under_all(old, standings, rules.of(place.topic))
            outcome = known[kind] = (new, value_after(old, new) if new != old else NOTHING)
        if outcome[1] is not NOTHING:
            found.append(changed(place, old, *outcome))
    return found


def changed(place: TopicPartition, old: PartitionImage, new: PartitionImage, value: bytes) -> Settled:
    return Settled(
        place,
        Put(paths.partition(*place), value, old.version),
        elected=new.leader_epoch != old.leader_epoch,
    )


def _under_all(old: PartitionImage, standings: Sequence[Standing], rules: TopicRules) -> PartitionImage:
    new = old
    for standing in standings:
        new = settle(new, Draft.of(new), standing, rules, rules.election)
    if new.leader_epoch > old.leader_epoch + 1:
        # Two elections in one change are one to everybody who sees it.
        return replace(new, leader_epoch=old.leader_epoch + 1)
    return new


def unsettled(image: ClusterImage, index: PartitionIndex, standing: Standing) -> Work[set[TopicPartition]]:
    """The partitions that may have to change."""
    places = {*index.led_by(NO_LEADER), *index.reassigning}
    for broker in sorted({*index.in_sync, *index.led} - {NO_LEADER}):
        if not standing.is_active(broker):
            places.update(index.in_sync_at(broker), index.led_by(broker))
        elif image.brokers[broker].offline_directories:
            places.update((yield from _in_failed_directories(image, index.in_sync_at(broker), broker)))
    for broker in standing.untrusted:
        places.update((yield from _eligible_at(image, index.held_by(broker), broker)))
    return places


def _in_failed_directories(
    image: ClusterImage, places: Iterable[TopicPartition], broker: int
) -> Work[list[TopicPartition]]:
    failed = image.brokers[broker].offline_directories
    paused = pauses()
    found = []
    for place in places:
        if next(paused):
            yield
        if image.topics[place.topic].partitions[place.partition].directory_of(broker) in failed:
            found.append(place)
    return found


def _eligible_at(image: ClusterImage, places: Iterable[TopicPartition], broker: int) -> Work[list[TopicPartition]]:
    paused = pauses()
    found = []
    for place in places:
        if next(paused):
            yield
        partition = image.topics[place.topic].partitions[place.partition]
        if broker in partition.elr:
            found.append(place)
    return found


def _most_urgent_first(
    image: ClusterImage, places: Iterable[TopicPartition], standing: Standing
) -> Work[list[tuple[bool, bool, TopicPartition]]]:
    paused = pauses()
    found = []
    for place in places:
        if next(paused):
            yield
        leader = image.topics[place.topic].partitions[place.partition].leader
        found.append((standing.is_active(leader), place.topic not in INTERNAL_TOPICS, place))
    return sorted(found)
