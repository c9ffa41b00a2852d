"""Writing a partition's entry: every change raises its partition epoch by one and keeps what a later release added."""

from __future__ import annotations

from dataclasses import replace

from moldau.metadata import codec, paths
from moldau.metadata.codec import PartitionEntry
from moldau.metadata.image import PartitionImage
from moldau.metadata.store import Put


def put_partition(topic: str, index: int, old: PartitionImage, new: PartitionImage) -> Put:
    """The operation that makes `old` into `new`, whose epoch and version follow from the old ones."""
    return Put(paths.partition(topic, index), value_after(old, new), old.version)


def value_after(old: PartitionImage, new: PartitionImage) -> bytes:
    return encoded(replace(new, partition_epoch=old.partition_epoch + 1))


def encoded(partition: PartitionImage) -> bytes:
    return codec.encode_partition_entry(
        PartitionEntry(
            partition.replicas,
            partition.isr,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.adding,
            partition.removing,
            partition.elr,
            partition.last_known_leader,
            partition.recovering,
            partition.directories,
            partition.unknown,
        )
    )
