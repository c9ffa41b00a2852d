"""A broker's own entry: written by itself at each start, and fenced until the controller takes it in (`fencing`)."""

from __future__ import annotations

from moldau.metadata import codec, paths
from moldau.metadata.codec import BrokerEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.features import refuse_unsupported
from moldau.metadata.image import BrokerImage, ClusterImage
from moldau.metadata.store import ABSENT, Put
from moldau.types.errors import ErrorCode, KafkaError


def register_broker(
    image: ClusterImage,
    broker_id: int,
    entry: BrokerEntry,
    *,
    cluster_id: str | None = None,
    other_is_alive: bool = False,
) -> Decision[None]:
    """Replaces the entry of an earlier start.

    Who holds the same log directories holds their locks, so that the other is gone whatever its presence says. Raises
    DUPLICATE_BROKER_REGISTRATION if a living one (`other_is_alive`) has this id and other directories,
    INCONSISTENT_CLUSTER_ID if the directories (`cluster_id`) are another cluster's, and UNSUPPORTED_VERSION if the
    cluster has gone on to what the broker's release does not know.
    """
    if cluster_id is not None and cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {cluster_id}",
        )
    refuse_unsupported(entry.features, image.features.levels)
    present = image.brokers.get(broker_id)
    if present is not None and other_is_alive and present.incarnation != entry.incarnation:
        _check_directories(present, entry)
    version = ABSENT if present is None else present.version
    return Decision([Put(paths.broker(broker_id), codec.encode_broker(entry), version)], None)


def _check_directories(present: BrokerImage, entry: BrokerEntry) -> None:
    if not set(present.directories) & set(entry.directories):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id. If the broker {present.id} was recently restarted, "
            "its registration ends with its session.",
        )
