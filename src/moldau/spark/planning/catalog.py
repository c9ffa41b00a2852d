"""What the driver asks a cluster: which topics there are, where their partitions begin and end, where a group stands.

The driver's side of reading needs nothing else, so that the rules can be tested with a table instead of a cluster, and
librdkafka can take the place of the small client where only it knows how to log in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar
from uuid import UUID

from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.client.errors import AuthenticationFailed, ConnectionLost
from moldau.client.settings import ClientSettings
from moldau.spark.errors import ClusterUnavailable, no_broker_answers
from moldau.spark.kafka_keys import under_kafka_names
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import ZERO_TOPIC_ID, TopicPartition
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

T = TypeVar("T")

NEW_TOPIC_SECONDS: Final = 2.0
PUBLISH_SECONDS: Final = 10.0
CONSUMER: Final = -1
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the cluster's metadata shows it."""

    topic_id: UUID | None
    leaders: Mapping[int, int] = field(default_factory=dict)
    """The leader of each partition; -1 while it has none."""
    is_internal: bool = False


class Catalog(Protocol):
    """Everything the driver asks of a cluster."""

    def topics(self, names: frozenset[str] | None) -> dict[str, TopicView]:
        """These topics as far as they exist, or all of them with None."""

    def offsets(self, wanted: Mapping[TopicPartition, int], *, committed: bool) -> dict[TopicPartition, int]:
        """For each partition the first offset at or after a timestamp, -1 if there is none; or with EARLIEST and LATEST
        its first and its next offset (with `committed` the end of the last transaction that is decided). Partitions
        that are gone are left out.
        """

    def publish(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets for a group without being a member of it."""

    def close(self) -> None: ...


def open_catalog(settings: ClientSettings, properties: Mapping[str, str]) -> Catalog:
    if settings.needs_librdkafka:
        from moldau.spark.planning.librdkafka_catalog import LibrdkafkaCatalog

        return under_kafka_names(lambda: LibrdkafkaCatalog(settings, properties))
    return WireCatalog(settings)


class WireCatalog:
    """Over the small client."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = Cluster(settings, monotonic=monotonic, sleep=sleep)
        self._reached = False
        self._known: dict[str, TopicView] = {}

    def topics(self, names: frozenset[str] | None) -> dict[str, TopicView]:
        answer = self._first_contact(names) if not self._reached else self._metadata(names)
        views = {
            topic.name: view_of(topic) for topic in answer.topics if topic.name is not None and not topic.error_code
        }
        self._known = self._known | views if names is not None else views
        return views

    def offsets(self, wanted: Mapping[TopicPartition, int], *, committed: bool) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        found: dict[TopicPartition, int] = {}
        return self._asking(lambda: self._ask_leaders(wanted, found, committed))

    def publish(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._cluster.retrying(lambda: self._commit(group, offsets), PUBLISH_SECONDS)

    def close(self) -> None:
        self._cluster.close()

    def _asking(self, action: Callable[[], T]) -> T:
        settings = self._cluster.settings
        try:
            return self._cluster.retrying(action)
        except ConnectionLost as error:
            raise no_broker_answers(settings.bootstrap, error, settings.total_seconds) from error
        except AuthenticationFailed as error:
            raise ClusterUnavailable(str(error)) from error

    # -- metadata ------------------------------------------------------------------------------------------------

    def _first_contact(self, names: frozenset[str] | None) -> MetadataResponse:
        answer = self._metadata(names)
        self._reached = True
        return self._wait_for_new_topics(names, answer)

    def _wait_for_new_topics(self, names: frozenset[str] | None, answer: MetadataResponse) -> MetadataResponse:
        """A topic that was created a moment ago may not have reached every broker."""

        def complete() -> MetadataResponse:
            found = self._metadata_once(names)
            for topic in found.topics:
                check(topic.error_code, f"topic {topic.name}")
            return found

        if not any(topic.error_code for topic in answer.topics):
            return answer
        try:
            return self._cluster.retrying(complete, NEW_TOPIC_SECONDS)
        except KafkaError:
            return answer
        except ConnectionLost:
            return self._metadata(names)

    def _metadata(self, names: frozenset[str] | None) -> MetadataResponse:
        return self._asking(lambda: self._metadata_once(names))

    def _metadata_once(self, names: frozenset[str] | None) -> MetadataResponse:
        answer = self._cluster.metadata(None if names is None else sorted(names))
        for topic in answer.topics:
            if topic.error_code not in GONE:
                check(topic.error_code, f"topic {topic.name}")
        return answer

    # -- offsets -------------------------------------------------------------------------------------------------

    def _ask_leaders(
        self, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, int], committed: bool
    ) -> dict[TopicPartition, int]:
        """Asks for what is not found yet; a partition that its broker does not know is looked up anew."""
        missing = {place: when for place, when in wanted.items() if place not in found}
        unknown = set()
        for leader, places in self._by_leader(missing).items():
            answer = self._cluster.to_broker(leader, list_request(places, committed), ListOffsetsResponse)
            for topic in answer.topics:
                for partition in topic.partitions:
                    place = TopicPartition(topic.name, partition.partition_index)
                    if partition.error_code in GONE:
                        unknown.add(place)
                        continue
                    check(partition.error_code, f"offsets of {place}")
                    found[place] = partition.offset
        if unknown:
            still_there = self._still_there(unknown)
            if still_there:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"offsets of {still_there.pop()}: no leader answers")
        return found

    def _by_leader(self, places: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        """Partitions that are gone are left out; one without a leader is worth waiting for."""
        if any(self._leader(place) is None for place in places):
            self.topics(frozenset(place.topic for place in places))
        grouped: dict[int, dict[TopicPartition, int]] = {}
        for place, when in places.items():
            leader = self._leader(place)
            if leader is None:
                continue
            if leader < 0:
                self._known.pop(place.topic, None)
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place} has no leader")
            grouped.setdefault(leader, {})[place] = when
        return grouped

    def _leader(self, place: TopicPartition) -> int | None:
        view = self._known.get(place.topic)
        return None if view is None else view.leaders.get(place.partition)

    def _still_there(self, places: set[TopicPartition]) -> set[TopicPartition]:
        names = frozenset(place.topic for place in places)
        for name in names:
            self._known.pop(name, None)
        views = self.topics(names)
        return {place for place in places if place.topic in views and place.partition in views[place.topic].leaders}

    # -- groups --------------------------------------------------------------------------------------------------

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        # Topics by name: version 10 and above knows them by id only.
        answer = self._cluster.to_coordinator(
            CoordinatorKind.GROUP, group, commit_request(group, offsets), OffsetCommitResponse, max_version=9
        )
        for topic in answer.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"group {group}, {topic.name}-{partition.partition_index}")


def view_of(topic: MetadataResponseTopic) -> TopicView:
    known_id = None if topic.topic_id is None or topic.topic_id == ZERO_TOPIC_ID else topic.topic_id
    leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
    return TopicView(known_id, dict(sorted(leaders.items())), topic.is_internal)


def list_request(places: Mapping[TopicPartition, int], committed: bool) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for place, when in places.items():
        by_topic.setdefault(place.topic, []).append(
            ListOffsetsPartition(partition_index=place.partition, timestamp=when)
        )
    topics = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return ListOffsetsRequest(replica_id=CONSUMER, isolation_level=int(committed), topics=topics)


def commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for place, offset in sorted(offsets.items()):
        by_topic.setdefault(place.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=place.partition, committed_offset=offset, committed_metadata=""
            )
        )
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", retention_time_ms=-1, topics=topics
    )
