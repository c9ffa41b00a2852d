"""Figures of the broker as a whole, under Kafka's metric names, computed when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.runtime import CoordinatorRuntime
from moldau.metadata.image import ClusterImage, PartitionImage
from moldau.metrics import Metrics
from moldau.replication.partition import Partition
from moldau.server.partition_table import PartitionTable
from moldau.storage.manager import LogManager


def register_gauges(metrics: Metrics, partitions: PartitionTable, logs: LogManager) -> None:
    replicas = ("kafka.server", "ReplicaManager")

    def gauge(name: str, counts: Callable[[Partition], bool]) -> None:
        metrics.gauge(lambda: sum(counts(one) for one in partitions if is_replica(one)), *replicas, name)

    gauge("PartitionCount", lambda _: True)
    gauge("LeaderCount", lambda one: one.leads)
    gauge("UnderReplicatedPartitions", lambda one: one.leads and len(one.in_sync) < len(one.replicas))
    gauge("UnderMinIsrPartitionCount", lambda one: one.leads and len(one.in_sync) < min_in_sync(one))
    gauge("AtMinIsrPartitionCount", lambda one: one.leads and len(one.in_sync) == min_in_sync(one))
    gauge("OfflineReplicaCount", lambda one: one.log is None)
    metrics.gauge(
        lambda: sum(len(one.log.producers) for one in partitions if one.log is not None), *replicas, "ProducerIdCount"
    )
    for name in ("PurgatorySize", "NumDelayedOperations"):  # who is done waits no more: they are the same here
        waiting = ("kafka.server", "DelayedOperationPurgatory", name)
        metrics.gauge(lambda: sum(len(one.produce_waits) for one in partitions), *waiting, delayedOperation="Produce")
        metrics.gauge(lambda: sum(one.waiting_fetches for one in partitions), *waiting, delayedOperation="Fetch")
    metrics.gauge(
        lambda: sum(directory.offline for directory in logs.table.directories),
        "kafka.log",
        "LogManager",
        "OfflineLogDirectoryCount",
    )


def register_group_gauges(metrics: Metrics, groups: CoordinatorRuntime[GroupMachine]) -> None:
    """Of the groups whose coordinator this broker is."""
    manager = ("kafka.server", "GroupMetadataManager")
    metrics.gauge(lambda: sum(len(each.machine.tables.groups) for each in groups.shards()), *manager, "NumGroups")
    metrics.gauge(lambda: sum(offsets_of(each.machine) for each in groups.shards()), *manager, "NumOffsets")


def offsets_of(machine: GroupMachine) -> int:
    return sum(len(found) for topics in machine.tables.offsets.committed.values() for found in topics.values())


def is_replica(partition: Partition) -> bool:
    return partition.local_id in partition.replicas


def min_in_sync(partition: Partition) -> int:
    return 1 if partition.log is None else min(partition.log.config.min_insync_replicas, len(partition.replicas))


def register_controller_gauges(metrics: Metrics, image: Callable[[], ClusterImage], broker_id: int) -> None:
    """The cluster as the controller sees it; brokers that are not the controller show zeros, so that sums are right."""

    def gauge(name: str, figure: Callable[[ClusterImage], int]) -> None:
        def value() -> int:
            current = image()
            return figure(current) if controls(current, broker_id) else 0

        metrics.gauge(value, "kafka.controller", "KafkaController", name)

    gauge("ActiveControllerCount", lambda _: 1)
    gauge("GlobalTopicCount", lambda current: len(current.topics))
    gauge("GlobalPartitionCount", lambda current: sum(1 for _ in partitions_of(current)))
    gauge("OfflinePartitionsCount", lambda current: sum(one.leader < 0 for one in partitions_of(current)))
    gauge(
        "PreferredReplicaImbalanceCount",
        lambda current: sum(one.leader >= 0 and one.leader != one.replicas[0] for one in partitions_of(current)),
    )
    metrics.gauge(lambda: moving(image(), broker_id), "kafka.server", "ReplicaManager", "ReassigningPartitions")
    gauge("ActiveBrokerCount", lambda current: sum(not one.fenced for one in current.brokers.values()))
    gauge("FencedBrokerCount", lambda current: sum(one.fenced for one in current.brokers.values()))


def moving(image: ClusterImage, broker_id: int) -> int:
    """What this broker leads and others are to have."""
    found = (image.partition(topic, index) for topic, index in image.index.reassigning)
    return sum(each is not None and each.leader == broker_id for each in found)


def controls(image: ClusterImage, broker_id: int) -> bool:
    """A broker that never had to share that controls itself."""
    return image.controller is None or image.controller.id == broker_id


def partitions_of(image: ClusterImage) -> Iterator[PartitionImage]:
    return (partition for topic in image.topics.values() for partition in topic.partitions)
