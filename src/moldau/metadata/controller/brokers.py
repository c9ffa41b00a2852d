"""Identity of the cluster and registration of its brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from moldau.metadata import codec, paths
from moldau.metadata.codec import NOTHING_ELSE, BrokerEntry, BrokerStateEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import BrokerImage, ClusterImage
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


def register_broker(
    image: ClusterImage, broker_id: int, entry: BrokerEntry, *, other_is_alive: bool = False
) -> Decision[None]:
    """The broker's own entry, in place of its last one. It stays fenced until the controller takes it in.

    Who holds the same log folders holds their locks, so that the other is gone whatever its session says. Raises
    DUPLICATE_BROKER_REGISTRATION if another one that has this id (`other_is_alive`) has other folders.
    """
    present = image.brokers.get(broker_id)
    if present is not None and other_is_alive and present.incarnation != entry.incarnation:
        _check_folders(present, entry)
    version = ABSENT if present is None else present.version
    return Decision([Put(paths.broker(broker_id), codec.encode_broker(entry), version)], None)


def _check_folders(present: BrokerImage, entry: BrokerEntry) -> None:
    if not set(present.directories) & set(entry.directories):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id. If the broker {present.id} was recently restarted, "
            "its registration ends with its session.",
        )


def unfence_broker(image: ClusterImage, broker_id: int) -> Decision[None]:
    """From now on the registered broker takes part."""
    broker = image.brokers[broker_id]
    if not broker.fenced:
        return Decision([], None)
    return Decision([put_state(broker, fenced=False)], None)


def put_state(
    broker: BrokerImage,
    *,
    fenced: bool,
    shutting_down: bool = False,
    offline_directories: Sequence[UUID] = (),
) -> Put:
    """The controller's entry about the broker as it is registered now."""
    present = broker.state
    entry = BrokerStateEntry(
        broker.epoch,
        fenced,
        shutting_down,
        broker.boot_id,
        broker.directories,
        tuple(offline_directories),
        NOTHING_ELSE if present is None else present.entry.unknown,
    )
    version = ABSENT if present is None else present.version
    return Put(paths.broker_state(broker.id), codec.encode_broker_state(entry), version)
