"""The topics behind the coordinators, created when a client first asks for one: Kafka's names, settings and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.server.topic_making import make_topic
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def ensure(broker: Broker, wanted: NewTopic) -> None:
    """Raises COORDINATOR_NOT_AVAILABLE if the topic cannot be had, for example for want of brokers."""
    if wanted.name in broker.image.topics:
        return
    try:
        await make_topic(broker, wanted)
    except KafkaError as error:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error


def offsets_topic(config: BrokerConfig) -> NewTopic:
    return NewTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        configs=[
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(config.offsets_topic_segment_bytes)),
        ],
    )


def transactions_topic(config: BrokerConfig) -> NewTopic:
    return NewTopic(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        configs=[
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(config.transaction_state_log_min_isr)),
            ("segment.bytes", str(config.transaction_state_log_segment_bytes)),
            ("unclean.leader.election.enable", "false"),
        ],
    )
