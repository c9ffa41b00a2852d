"""Figures of single partitions, when somebody asks for them: of the logs here and of what is followed under Kafka's
names, of topics under those of kafka_exporter, which dashboards for consumer lag expect.

Each partition of a topic is told by its leader, and by the controller while it has none; what is true of a whole topic,
and of the cluster, by the controller alone: so sums over brokers are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moldau.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from moldau.metrics import MetricName, Metrics, Sample
from moldau.server.gauges import controls, is_replica
from moldau.server.partition_table import PartitionTable
from moldau.server.replicas.fetchers import ReplicaFetchers

#: As Kafka calls the clients that its followers are.
REPLICA = "Replica"


def show_followers(metrics: Metrics, fetchers: ReplicaFetchers) -> None:
    """How many committed records this broker is behind: at most, and for each partition that it follows."""
    manager = "kafka.server", "ReplicaFetcherManager"
    metrics.gauge(
        lambda: max((each.lag for _, _, each in fetchers.followed()), default=0), *manager, "MaxLag", clientId=REPLICA
    )

    def lags() -> Iterator[Sample]:
        for leader, index, followed in fetchers.followed():
            topic, partition = followed.partition.topic_partition
            client = f"ReplicaFetcherThread-{index}-{leader}"
            tags = (("clientId", client), ("topic", topic), ("partition", str(partition)))
            yield MetricName("kafka.server", "FetcherLagMetrics", "ConsumerLag", tags), followed.lag

    metrics.collect(lags)


def show_logs(metrics: Metrics, partitions: PartitionTable) -> None:
    def logs() -> Iterator[Sample]:
        for partition in tuple(partitions):
            log = partition.log
            if log is None or not is_replica(partition):
                continue
            topic, index = partition.topic_partition
            tags = (("topic", topic), ("partition", str(index)))
            yield MetricName("kafka.log", "Log", "Size", tags), log.size_bytes
            yield MetricName("kafka.log", "Log", "LogStartOffset", tags), log.log_start_offset
            yield MetricName("kafka.log", "Log", "LogEndOffset", tags), log.log_end_offset
            yield MetricName("kafka.log", "Log", "NumLogSegments", tags), len(log.segments)

    metrics.collect(logs)


def show_topics(
    metrics: Metrics, partitions: PartitionTable, image: Callable[[], ClusterImage], broker_id: int
) -> None:
    def topics() -> Iterator[Sample]:
        current = image()
        is_controller = controls(current, broker_id)
        if is_controller:
            yield MetricName("kafka", "", "brokers"), sum(not each.fenced for each in current.brokers.values())
        for topic in current.topics.values():
            if is_controller:
                yield MetricName("kafka", "topic", "partitions", (("topic", topic.name),)), len(topic.partitions)
            for index, state in enumerate(topic.partitions):
                if state.leader != broker_id and not (is_controller and state.leader == NO_LEADER):
                    continue
                tags = (("topic", topic.name), ("partition", str(index)))
                for name, value in state_of(state):
                    yield MetricName("kafka", "topic_partition", name, tags), value
                found = partitions.find(topic.name, index)
                if found is not None and found.leads and found.log is not None:
                    yield MetricName("kafka", "topic_partition", "current_offset", tags), found.high_watermark
                    yield MetricName("kafka", "topic_partition", "oldest_offset", tags), found.log.log_start_offset

    metrics.collect(topics)


def state_of(state: PartitionImage) -> Iterator[tuple[str, int]]:
    yield "leader", state.leader
    yield "leader_is_preferred", int(state.leader == state.replicas[0])
    yield "replicas", len(state.replicas)
    yield "in_sync_replica", len(state.isr)
    yield "under_replicated_partition", int(len(state.isr) < len(state.replicas))
