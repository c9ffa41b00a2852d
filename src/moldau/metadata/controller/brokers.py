"""Identity of the cluster and registration of its brokers."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.metadata import codec, paths
from moldau.metadata.codec import BrokerEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Operation, Put


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
    """Replaces an earlier registration of this id: whose it is, and that no other broker lives under it, the presence
    has settled before."""
    present = image.brokers.get(broker_id)
    version = ABSENT if present is None else present.version
    return Decision([Put(paths.broker(broker_id), codec.encode_broker(entry), version)], None)
