"""Brokers, their log directories and features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.cli.calls.answers import SECONDS, outcome
from moldau.client.asking.answers import by_topic, refuse
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal

    from moldau.cli.connection import Connection
    from moldau.wire.messages.describe_log_dirs import DescribeLogDirsResult
    from moldau.wire.messages.metadata import MetadataResponseBroker


def metadata(cluster: Connection, seconds: float = SECONDS) -> Any:
    """Brokers and every topic with its partitions (confluent_kafka.admin.ClusterMetadata)."""
    return cluster.admin().list_topics(timeout=seconds)


def describe(cluster: Connection) -> Any | Refusal:
    """Cluster id, controller and brokers (confluent_kafka.admin.DescribeClusterResult)."""
    return outcome(cluster.admin().describe_cluster(request_timeout=SECONDS))


def broker_ids(cluster: Connection) -> list[int]:
    """Over our own client, which need not ask for all topics, where it knows the login."""
    return sorted(metadata(cluster).brokers) if cluster.needs_librdkafka else cluster.wire().broker_ids()


def nodes(cluster: Connection) -> list[MetadataResponseBroker]:
    """Brokers with their addresses, by id."""
    return sorted(cluster.wire().metadata([]).brokers, key=lambda each: each.node_id)


def api_versions(cluster: Connection, broker: int) -> dict[int, tuple[int, int]]:
    """The first and last version of each API that a broker serves."""
    return cluster.wire().connection(broker).versions


def finalized_features(cluster: Connection) -> dict[str, int]:
    """The features that the whole cluster has agreed on, by name."""
    wire = cluster.wire()
    return dict(sorted(wire.connection(wire.broker_ids()[0]).finalized_features.items()))


@dataclass(frozen=True, slots=True)
class LogDir:
    broker: int
    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    used_bytes: int
    partitions: int


def log_dirs(
    cluster: Connection, broker: int, places: Iterable[TopicPartition] | None = None
) -> list[DescribeLogDirsResult]:
    """The log directories of a broker with every partition in them, or with these."""
    from moldau.wire.messages.describe_log_dirs import (
        DescribableLogDirTopic,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    topics = (
        None
        if places is None
        else [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic(places).items()]
    )
    answer = cluster.wire().to_broker(broker, DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
    refuse(answer.error_code)
    return list(answer.results)


def log_dir_sums(cluster: Connection, broker: int) -> list[LogDir]:
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


def partition_bytes(cluster: Connection, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """How large partitions are: as large as their largest replica."""
    found: dict[TopicPartition, int] = {}
    for broker in cluster.wire().broker_ids():
        for directory in log_dirs(cluster, broker, places):
            for topic in directory.topics:
                for part in topic.partitions:
                    place = TopicPartition(topic.name, part.partition_index)
                    found[place] = max(found.get(place, 0), part.partition_size)
    return found
