"""The admin calls that librdkafka's client lacks, over our own: log folders, offsets of groups to delete, features,
settings of loggers. Transactions stand in `admin_txn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from moldau.cli.admin import Place
from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


class ConfigKind(IntEnum):
    """Kafka's numbers of what has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Change(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class LogDir:
    broker: int
    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    used_bytes: int
    partitions: int


def log_dirs(cluster: Cluster, broker: int) -> list[DescribeLogDirsResult]:
    """The log folders of a broker with every partition in them."""
    answer = cluster.to_broker(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    check(answer.error_code, f"log folders of broker {broker}")
    return list(answer.results)


def log_dir_sums(cluster: Cluster, broker: int) -> list[LogDir]:
    return [
        LogDir(
            broker,
            found.log_dir,
            found.error_code,
            found.total_bytes,
            found.usable_bytes,
            sum(part.partition_size for topic in found.topics for part in topic.partitions),
            sum(len(topic.partitions) for topic in found.topics),
        )
        for found in log_dirs(cluster, broker)
    ]


def finalized_features(cluster: Cluster) -> dict[str, int]:
    """The features that the whole cluster has agreed on, by name."""
    return dict(sorted(cluster.connection(cluster.broker_ids()[0]).finalized_features.items()))


def delete_group_offsets(cluster: Cluster, group: str, places: Iterable[Place]) -> None:
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(OffsetDeleteRequestPartition(partition_index=place.partition))
    topics = [OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
    request = OffsetDeleteRequest(group_id=group, topics=topics)

    def ask() -> None:
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, group, request, OffsetDeleteResponse)
        check(answer.error_code, f"group {group}")
        for topic in answer.topics:
            for part in topic.partitions:
                check(part.error_code, f"offset of group {group} for {topic.name}-{part.partition_index}")

    cluster.retrying(ask)


def config_names(cluster: Cluster, kind: ConfigKind) -> list[str]:
    """What of this kind has settings of its own."""
    answer = cluster.any(ListConfigResourcesRequest(resource_types=[kind]), ListConfigResourcesResponse)
    check(answer.error_code, "cannot list what has settings")
    return sorted(found.resource_name for found in answer.config_resources if found.resource_type == kind)


def describe_config(
    cluster: Cluster, kind: ConfigKind, name: str, broker: int | None = None
) -> list[DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    answer = (
        cluster.any(request, DescribeConfigsResponse)
        if broker is None
        else cluster.to_broker(broker, request, DescribeConfigsResponse)
    )
    (found,) = answer.results
    check(found.error_code, f"settings of {name!r}", found.error_message)
    return list(found.configs)


def alter_config(
    cluster: Cluster,
    kind: ConfigKind,
    name: str,
    changes: Sequence[tuple[Change, str, str | None]],
    validate_only: bool = False,
    broker: int | None = None,
) -> None:
    configs = [AlterableConfig(name=key, config_operation=change, value=value) for change, key, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = (
        cluster.any(request, IncrementalAlterConfigsResponse)
        if broker is None
        else cluster.to_broker(broker, request, IncrementalAlterConfigsResponse)
    )
    (done,) = answer.responses
    check(done.error_code, f"cannot change the settings of {name!r}", done.error_message)
