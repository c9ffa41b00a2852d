"""What the image says of a partition, with few words."""

from __future__ import annotations

from moldau.metadata.image import PartitionImage


def term(
    leader: int,
    epoch: int = 0,
    replicas: tuple[int, ...] | None = None,
    isr: tuple[int, ...] | None = None,
    partition_epoch: int = 0,
) -> PartitionImage:
    """Without further words the leader alone is in sync, and broker 1, the leader and who is in sync are replicas."""
    isr = (leader,) if isr is None else isr
    return PartitionImage(
        replicas=tuple(sorted({1, leader, *isr} - {-1})) if replicas is None else replicas,
        isr=isr,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
    )
