"""Figures of the broker as a whole, under Kafka's metric names, computed when somebody asks for them."""

from __future__ import annotations

from moldau.metrics import Metrics
from moldau.server.partition_table import PartitionTable
from moldau.storage.manager import LogManager


def register_gauges(metrics: Metrics, partitions: PartitionTable, logs: LogManager) -> None:
    replicas = ("kafka.server", "ReplicaManager")
    metrics.gauge(lambda: sum(1 for _ in partitions), *replicas, "PartitionCount")
    metrics.gauge(lambda: sum(partition.leads for partition in partitions), *replicas, "LeaderCount")
    metrics.gauge(
        lambda: sum(len(partition.in_sync) < len(partition.replicas) for partition in partitions),
        *replicas,
        "UnderReplicatedPartitions",
    )
    metrics.gauge(lambda: sum(partition.log is None for partition in partitions), *replicas, "OfflineReplicaCount")
    waiting = ("kafka.server", "DelayedOperationPurgatory", "PurgatorySize")
    metrics.gauge(lambda: sum(len(one.produce_waits) for one in partitions), *waiting, delayedOperation="Produce")
    metrics.gauge(lambda: sum(one.waiting_fetches for one in partitions), *waiting, delayedOperation="Fetch")
    metrics.gauge(lambda: sum(one.size_bytes for one in logs.logs()), "kafka.log", "Log", "Size")
    metrics.gauge(
        lambda: sum(directory.offline for directory in logs.directories),
        "kafka.log",
        "LogManager",
        "OfflineLogDirectoryCount",
    )
