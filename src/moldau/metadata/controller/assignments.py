"""Who holds new partitions: replicas that the client chose, or that placement chose, and the state they begin in."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.metadata import codec, paths
from moldau.metadata.controller.decision import Rng
from moldau.metadata.controller.placement import UsableBroker, place
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Put
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work


def place_replicas(
    image: ClusterImage, partitions: int, replication_factor: int, rng: Rng
) -> Work[list[tuple[int, ...]]]:
    """Never on a broker that is leaving; on a fenced one only where the others are not enough."""
    brokers = [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if not broker.shutting_down
    ]
    return place(brokers, partitions, replication_factor, rng)


def check_chosen_replicas(image: ClusterImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT; `replication_factor` is that of the topic's other partitions, if any."""
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise _refused(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise _refused(f"The manual partition assignment includes the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def check_some_active(image: ClusterImage, replicas: Sequence[int], partition: int) -> None:
    if not active_replicas(image, replicas):
        raise _refused(
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
            "controlled shutdown."
        )


def active_replicas(image: ClusterImage, replicas: Sequence[int]) -> list[int]:
    return [broker for broker in replicas if broker in image.brokers and image.brokers[broker].is_active]


def new_partition(image: ClusterImage, topic: str, index: int, replicas: Sequence[int]) -> Put:
    """The entry of a new partition: all active replicas are in sync, the first of them leads."""
    in_sync = active_replicas(image, replicas)
    return Put(paths.partition(topic, index), codec.encode_partition(replicas, in_sync, in_sync[0], 0))


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
