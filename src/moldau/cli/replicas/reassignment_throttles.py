"""Limits for the time of a reassignment: which replicas may not go faster, and how fast brokers may copy them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import configs
from moldau.cli.calls.configs import Change, ConfigKind
from moldau.cli.calls.reassignments import Layout, Move
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
BROKER_LIMITS: Final = (LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE)
TOPIC_LIMITS: Final = (LEADERS, FOLLOWERS)


@dataclass(frozen=True, slots=True)
class Way:
    """From whom a partition may be copied, and to whom."""

    sources: frozenset[int]
    destinations: frozenset[int]


Ways = dict[TopicPartition, Way]


def ways(moving: Mapping[TopicPartition, Move], wanted: Layout, present: Layout) -> Ways:
    """Of everything that is under way and of what is about to begin. A second change begins at the same sources."""
    found = {
        place: Way(frozenset(move.replicas) - frozenset(move.adding), frozenset(move.adding))
        for place, move in moving.items()
    }
    for place, replicas in wanted.items():
        sources = found[place].sources if place in found else frozenset(present[place])
        found[place] = Way(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(all_ways: Ways) -> dict[str, tuple[str, str]]:
    """The values of the two topic settings: sources that lead, destinations that follow."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for place, way in all_ways.items():
        leaders.setdefault(place.topic, set()).update(f"{place.partition}:{each}" for each in way.sources)
        followers.setdefault(place.topic, set()).update(f"{place.partition}:{each}" for each in way.destinations)
    return {topic: (",".join(sorted(leaders[topic])), ",".join(sorted(followers[topic]))) for topic in leaders}


def brokers_on(all_ways: Ways) -> list[int]:
    return sorted({broker for way in all_ways.values() for broker in way.sources | way.destinations})


def limit_copies(cluster: Connection, all_ways: Ways, bytes_per_second: int) -> None:
    for topic, (leaders, followers) in throttled_replicas(all_ways).items():
        changes = [(Change.SET, LEADERS, leaders), (Change.SET, FOLLOWERS, followers)]
        configs.alter(cluster, ConfigKind.TOPIC, topic, changes)
    for broker in brokers_on(all_ways):
        rates = [(Change.SET, name, str(bytes_per_second)) for name in (LEADER_RATE, FOLLOWER_RATE)]
        configs.alter(cluster, ConfigKind.BROKER, str(broker), rates)


def limit_directories(cluster: Connection, brokers: Iterable[int], bytes_per_second: int) -> None:
    for broker in sorted(set(brokers)):
        configs.alter(cluster, ConfigKind.BROKER, str(broker), [(Change.SET, DIRECTORY_RATE, str(bytes_per_second))])


def clear_brokers(cluster: Connection, brokers: Collection[int]) -> None:
    for broker in sorted(brokers):
        configs.alter(cluster, ConfigKind.BROKER, str(broker), [(Change.DELETE, name, None) for name in BROKER_LIMITS])


def clear_topics(cluster: Connection, topics: Collection[str]) -> None:
    for topic in sorted(topics):
        configs.alter(cluster, ConfigKind.TOPIC, topic, [(Change.DELETE, name, None) for name in TOPIC_LIMITS])
