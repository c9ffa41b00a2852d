"""Identity of the cluster and registration of its brokers."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.metadata import codec, paths
from moldau.metadata.codec import BrokerEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Operation, Put
from moldau.types.errors import ErrorCode, KafkaError


def form_cluster(
    image: ClusterImage,
    new_cluster_id: str,
    feature_levels: Mapping[str, int],
    default_broker_settings: Mapping[str, str] | None = None,
) -> Decision[str]:
    """At the very first start: the cluster's id, features and settings. Later it only answers the id that there is."""
    operations: list[Operation] = []
    if image.cluster_id is None:
        operations.append(Put(paths.CLUSTER, codec.encode_cluster(new_cluster_id), ABSENT))
        if default_broker_settings:
            operations.append(Put(paths.broker_config(None), codec.encode_settings(default_broker_settings), ABSENT))
    if image.features.epoch == ABSENT:
        operations.append(Put(paths.FEATURES, codec.encode_features(feature_levels), ABSENT))
    return Decision(operations, image.cluster_id or new_cluster_id)


def register_broker(image: ClusterImage, broker_id: int, entry: BrokerEntry) -> Decision[None]:
    """The broker is known as long as the session of its store lives. Raises DUPLICATE_BROKER_REGISTRATION."""
    present = image.brokers.get(broker_id)
    if present is not None and present.incarnation != entry.incarnation:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id. If the broker {broker_id} was recently restarted, "
            "its registration ends with its session.",
        )
    version = ABSENT if present is None else present.version
    return Decision([Put(paths.broker(broker_id), codec.encode_broker(entry), version, ephemeral=True)], None)
