"""What each replica has: how far followers are behind, and the records themselves; asked of the brokers one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.client.asking.answers import by_topic
from moldau.client.errors import ClientError
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.wire.messages.fetch import PartitionData

DEBUGGER: Final = -2
"""A reader that may ask any replica, and is told the end of its log, not what is committed."""
LATEST: Final = -1
NAMES_UNTIL: Final = 12
"""The last version of Fetch that names topics; later ones know only ids."""


@dataclass(frozen=True, slots=True)
class Follower:
    place: TopicPartition
    broker: int
    behind: int | None
    """In records; None where it, or its leader, did not answer."""


def followers(cluster: Connection, metadata: Any, silent: Iterable[int] = ()) -> list[Follower]:
    """Every follower of the cluster; brokers that are known to be silent are not waited for. Leaders are asked first: a
    follower that has what its leader had is not behind."""
    led, followed = by_broker(metadata)
    asked = set(metadata.brokers).difference(silent)
    ends_of_leaders: dict[TopicPartition, int] = {}
    for broker in sorted(asked.intersection(led)):
        try:
            ends_of_leaders |= ends(cluster, broker, led[broker])
        except ClientError:
            asked.discard(broker)
    found = []
    for broker, places in sorted(followed.items()):
        own: dict[TopicPartition, int] = {}
        if broker in asked:
            with suppress(ClientError):
                own = ends(cluster, broker, places)
        for place in places:
            end, leads = own.get(place), ends_of_leaders.get(place)
            found.append(Follower(place, broker, None if end is None or leads is None else max(0, leads - end)))
    return found


def by_broker(metadata: Any) -> tuple[dict[int, list[TopicPartition]], dict[int, list[TopicPartition]]]:
    """What each broker leads, and what it follows."""
    led: dict[int, list[TopicPartition]] = {}
    followed: dict[int, list[TopicPartition]] = {}
    for name, topic in sorted(metadata.topics.items()):
        for number, part in sorted(topic.partitions.items()):
            for broker in part.replicas:
                roles = led if broker == part.leader else followed
                roles.setdefault(broker, []).append(TopicPartition(name, number))
    return led, followed


def ends(cluster: Connection, broker: int, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Those that the broker has and tells."""
    from moldau.wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
    )

    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsPartition(partition_index=number, timestamp=LATEST) for number in numbers],
        )
        for name, numbers in by_topic(places).items()
    ]
    request = ListOffsetsRequest(replica_id=DEBUGGER, topics=topics)
    answer = cluster.wire().to_broker(broker, request, ListOffsetsResponse)
    return {
        TopicPartition(topic.name, part.partition_index): part.offset
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code == ErrorCode.NONE
    }


def largest(found: Sequence[Follower]) -> dict[int, int]:
    """Of each broker that follows and answers: by how many records it is behind where it is furthest behind."""
    lags: dict[int, int] = {}
    for each in found:
        if each.behind is not None:
            lags[each.broker] = max(each.behind, lags.get(each.broker, 0))
    return lags


def of_partition(found: Iterable[Follower]) -> Mapping[TopicPartition, list[Follower]]:
    sorted_out: dict[TopicPartition, list[Follower]] = {}
    for each in found:
        sorted_out.setdefault(each.place, []).append(each)
    return sorted_out


def read(
    cluster: Connection, broker: int, offsets: Mapping[TopicPartition, int], max_bytes: int, max_wait_ms: int
) -> dict[TopicPartition, PartitionData]:
    """What one broker has from these offsets on; what it does not answer for now is left out."""
    from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

    topics = [
        FetchTopic(
            topic=name,
            partitions=[
                FetchPartition(
                    partition=number,
                    fetch_offset=offsets[TopicPartition(name, number)],
                    partition_max_bytes=max_bytes,
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]
    request = FetchRequest(replica_id=DEBUGGER, max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)
    answer = cluster.wire().to_broker(broker, request, FetchResponse, max_version=NAMES_UNTIL)
    return {
        TopicPartition(topic.topic, each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }
