"""Identity of the cluster, and what the controller says of its brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from moldau.metadata import codec, paths
from moldau.metadata.codec import NOTHING_ELSE, BrokerStateEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import BrokerImage, ClusterImage
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


def put_state(
    broker: BrokerImage,
    *,
    fenced: bool,
    shutting_down: bool = False,
    offline_directories: Sequence[UUID] | None = None,
) -> Put:
    """The controller's entry about the broker as it is registered now; None keeps what it says of failed
    directories."""
    present = broker.state
    failed = broker.offline_directories if offline_directories is None else tuple(offline_directories)
    entry = BrokerStateEntry(
        broker.epoch,
        fenced,
        shutting_down,
        broker.boot_id,
        broker.directories,
        failed,
        NOTHING_ELSE if present is None else present.entry.unknown,
    )
    version = ABSENT if present is None else present.version
    return Put(paths.broker_state(broker.id), codec.encode_broker_state(entry), version)
