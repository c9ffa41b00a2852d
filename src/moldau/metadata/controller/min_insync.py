"""How many replicas must be in sync is one number for the whole cluster, stored when the cluster is formed.

Apache Kafka 4 keeps it so since its eligible leader replicas depend on it: no broker may have its own, none may be
without it. Topics may have their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.config_resources import ResourceType
from moldau.types.errors import ErrorCode, KafkaError

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def settings_of_a_new_cluster(broker: BrokerConfig) -> dict[str, str]:
    """What all brokers have by default from the first start on."""
    return {MIN_INSYNC_REPLICAS: str(broker.min_insync_replicas)}


def check_min_insync(kind: ResourceType, name: str, altered: Mapping[str, str | None]) -> None:
    """Raises KafkaError if these changes, None for a removal, leave the cluster without its number."""
    if kind is not ResourceType.BROKER or MIN_INSYNC_REPLICAS not in altered:
        return
    if name:
        message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if altered[MIN_INSYNC_REPLICAS] is None:
        message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
