"""Where markers live: offsets of one group per sink, on the partitions of one topic that holds no records.

Kafka refuses offsets of partitions that do not exist, so the topic grows with the number of tasks. Reads ask for stable
offsets (KIP-447): one that belongs to a transaction which is not ended is waited for, never overlooked.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.spark.writing.errors import SinkError
from moldau.spark.writing.identity import MARKER_TOPIC, STATE_PARTITION, marker_partition, room_for
from moldau.spark.writing.markers import SinkState, TaskMarker
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

BY_TOPIC_NAME = 9  # the last OffsetFetch version with names of topics
FEWEST_PARTITIONS = 8
BROKERS_DEFAULT = -1
CREATE_TIMEOUT_MS = 30_000
NO_OFFSET = -1


class MarkerStore:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self.group = group
        self._cluster = cluster

    def look(self, task: int, seconds: float | None = None) -> tuple[SinkState | None, TaskMarker | None]:
        """The sink's state and one task's marker, in one request."""
        place = marker_partition(task)
        found = self._read([STATE_PARTITION, place], seconds)
        state, marker = found.get(STATE_PARTITION), found.get(place)
        return (
            None if state is None else SinkState.from_metadata(state),
            None if marker is None else TaskMarker.from_metadata(marker),
        )

    def state(self, seconds: float | None = None) -> SinkState | None:
        text = self._read([STATE_PARTITION], seconds).get(STATE_PARTITION)
        return None if text is None else SinkState.from_metadata(text)

    def markers(self, tasks: Iterable[int]) -> dict[int, TaskMarker]:
        """Those that are there, by task."""
        places = {marker_partition(task): task for task in tasks}
        found = self._read(places)
        return {places[place]: TaskMarker.from_metadata(text) for place, text in found.items()}

    def _read(self, places: Iterable[int], seconds: float | None = None) -> dict[int, str]:
        wanted = list(places)
        return self._cluster.retrying(lambda: self._fetch(wanted), seconds)

    def _fetch(self, places: list[int]) -> dict[int, str]:
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group,
                    topics=[OffsetFetchRequestTopics(name=MARKER_TOPIC, partition_indexes=places)],
                )
            ],
            group_id=self.group,
            topics=[OffsetFetchRequestTopic(name=MARKER_TOPIC, partition_indexes=places)],
            require_stable=True,
        )
        answer = self._cluster.to_coordinator(
            CoordinatorKind.GROUP, self.group, request, OffsetFetchResponse, max_version=BY_TOPIC_NAME
        )
        one = answer.groups[0] if answer.groups else answer
        check(one.error_code, f"offsets of {self.group}")
        found: dict[int, str] = {}
        for topic in one.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"offsets of {self.group}")
                if partition.committed_offset != NO_OFFSET:
                    found[partition.partition_index] = partition.metadata or ""
        return found

    # -- the topic -------------------------------------------------------------------------------------------------

    def make_room(self, task: int) -> None:
        """Makes sure that the topic has a partition for this task; it never has fewer than it had."""
        place = TopicPartition(MARKER_TOPIC, marker_partition(task))
        needed = place.partition + 1
        if self._cluster.knows(place) or self._count_partitions() >= needed:
            return
        wanted = max(FEWEST_PARTITIONS, room_for(needed - 1))
        self._cluster.retrying(lambda: self._grow(wanted))
        self._cluster.retrying(lambda: self._await_partitions(needed))

    def _count_partitions(self) -> int:
        (topic,) = self._cluster.retrying(lambda: self._cluster.metadata([MARKER_TOPIC])).topics
        return len(topic.partitions)

    def _await_partitions(self, needed: int) -> None:
        if self._count_partitions() < needed:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{MARKER_TOPIC} has not grown to {needed} yet")

    def _grow(self, count: int) -> None:
        """Another task may do the same at the same time; whoever comes second is told so and is content."""
        controller = self._cluster.metadata([]).controller_id
        created = self._cluster.to_broker(
            controller,
            CreateTopicsRequest(
                topics=[CreatableTopic(name=MARKER_TOPIC, num_partitions=count, replication_factor=BROKERS_DEFAULT)],
                timeout_ms=CREATE_TIMEOUT_MS,
            ),
            CreateTopicsResponse,
        ).topics[0]
        if created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            self._settle(created.error_code, created.error_message)
            return
        grown = self._cluster.to_broker(
            controller,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=MARKER_TOPIC, count=count, assignments=None)],
                timeout_ms=CREATE_TIMEOUT_MS,
            ),
            CreatePartitionsResponse,
        ).results[0]
        if grown.error_code != ErrorCode.INVALID_PARTITIONS:  # it has as many already
            self._settle(grown.error_code, grown.error_message)

    def _settle(self, code: int, message: str | None) -> None:
        try:
            check(code, MARKER_TOPIC, message)
        except KafkaError as error:
            if error.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                raise SinkError(
                    f"exactly-once needs the topic {MARKER_TOPIC!r} with a partition for each task and one more; this "
                    f"user may not create it: {message or error.code.name}. Create it, or set delivery=at-least-once"
                ) from error
            raise
