"""What librdkafka has no calls for, over our own client: reassignments, log directories, quotas, features."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.clients.admin_types import AdminFailed
from moldau.clients.errors import KafkaFailure
from moldau.clients.records import TopicPartition
from moldau.types.error_codes import ErrorCode
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

ANY_NAME: Final = 2
BROKER: Final = 4
SET, DELETE = 0, 1


class Reassignment(NamedTuple):
    """A move that is under way: all replicas, those that come, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class LogDir(NamedTuple):
    """A log directory of a broker, with the bytes of each partition in it. -1: not told."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: dict[TopicPartition, int]
    error: str | None
    """Why it cannot be used."""


class Quota(NamedTuple):
    """Limits of an entity: names by type (user, client-id, ip), None for the default of a type."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class WireAdmin:
    """Base of `Admin`."""

    _properties: Mapping[str, str]

    def reassign_partitions(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begins to move partitions to these replicas, the preferred leader first; None ends a move under way."""
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=number, replicas=wanted[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(wanted).items()
        ]
        with self._wire() as cluster:
            answer = cluster.any(AlterPartitionReassignmentsRequest(topics=topics), AlterPartitionReassignmentsResponse)
        refuse("partitions not reassigned", answer.error_code, answer.error_message)
        failed = {
            f"{topic.name}-{each.partition_index}": refusal(
                "partition not reassigned", each.error_code, each.error_message, topic.name, each.partition_index
            )
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code
        }
        if failed:
            raise next(iter(failed.values())) if len(failed) == 1 else AdminFailed(failed)

    def list_reassignments(
        self, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Moves that are under way, of these partitions or of all."""
        topics = None
        if places is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(places).items()
            ]
        with self._wire() as cluster:
            request = ListPartitionReassignmentsRequest(topics=topics)
            answer = cluster.any(request, ListPartitionReassignmentsResponse)
        refuse("reassignments not listed", answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    def describe_log_dirs(self, *brokers: int) -> dict[int, list[LogDir]]:
        """The log directories of these brokers, or of all, and what lies in them."""
        found: dict[int, list[LogDir]] = {}
        with self._wire() as cluster:
            for broker in brokers or cluster.broker_ids():
                answer = cluster.to_broker(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
                refuse(f"log directories of broker {broker} not described", answer.error_code, None)
                found[broker] = [
                    LogDir(
                        each.log_dir,
                        each.total_bytes,
                        each.usable_bytes,
                        {
                            TopicPartition(topic.name, part.partition_index): part.partition_size
                            for topic in each.topics
                            for part in topic.partitions
                        },
                        ErrorCode(each.error_code).name if each.error_code else None,
                    )
                    for each in answer.results
                ]
        return found

    def describe_quotas(self, *types: str) -> list[Quota]:
        """Quotas of all users, client ids and addresses, or of entities of these types: user, client-id, ip."""
        components = [ComponentData(entity_type=each, match_type=ANY_NAME, match=None) for each in types]
        with self._wire() as cluster:
            request = DescribeClientQuotasRequest(components=components, strict=bool(types))
            answer = cluster.any(request, DescribeClientQuotasResponse)
        refuse("quotas not described", answer.error_code, answer.error_message)
        return [
            Quota(
                {each.entity_type: each.entity_name for each in entry.entity},
                {each.key: each.value for each in entry.values},
            )
            for entry in answer.entries or ()
        ]

    def alter_quotas(self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> None:
        """Sets limits of an entity, as in `alter_quotas({"user": "ann"}, {"producer_byte_rate": 1e6})`; None removes
        one."""
        named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        operations = [
            OpData(key=key, value=0.0 if limit is None else limit, remove=limit is None)
            for key, limit in changes.items()
        ]
        with self._wire() as cluster:
            request = AlterClientQuotasRequest(entries=[EntryData(entity=named, ops=operations)], validate_only=False)
            answer = cluster.any(request, AlterClientQuotasResponse)
        for entry in answer.entries:
            refuse("quotas not changed", entry.error_code, entry.error_message)

    def _alter_all_brokers(self, changes: Mapping[str, str | None]) -> None:
        """librdkafka refuses a resource without a name, which stands for all brokers."""
        configs = [
            AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in changes.items()
        ]
        resources = [AlterConfigsResource(resource_type=BROKER, resource_name="", configs=configs)]
        with self._wire() as cluster:
            request = IncrementalAlterConfigsRequest(resources=resources)
            answer = cluster.any(request, IncrementalAlterConfigsResponse)
        for each in answer.responses:
            refuse("settings not changed", each.error_code, each.error_message)

    def describe_features(self) -> dict[str, int]:
        """The features that the whole cluster has agreed on, such as transaction.version, with their levels."""
        with self._wire() as cluster:
            return dict(sorted(cluster.connection(cluster.broker_ids()[0]).finalized_features.items()))

    def _wire(self) -> Cluster:
        return Cluster(ClientSettings.from_properties(self._properties))


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def refuse(what: str, code: int, message: str | None) -> None:
    if code:
        raise refusal(what, code, message)


def refusal(
    what: str, code: int, message: str | None, topic: str | None = None, partition: int | None = None
) -> KafkaFailure:
    error = ErrorCode(code)
    return KafkaFailure(what, cause=message or error.name, code=error.name, topic=topic, partition=partition)
