"""Questions that producers, consumers and partitioners ask about topics."""

from __future__ import annotations

from typing import Any

from moldau.clients.errors import failure
from moldau.clients.records import PartitionInfo


def partitions_for(client: Any, topic: str, seconds: float) -> list[PartitionInfo]:
    """The partitions of a topic that must exist, in order."""
    import confluent_kafka

    what = "cannot look up the partitions"
    try:
        found = client.list_topics(topic, timeout=seconds).topics[topic]
    except confluent_kafka.KafkaException as error:
        raise failure(error, what, topic=topic) from None
    if found.error is not None:
        raise failure(found.error, what, topic=topic)
    return [
        PartitionInfo(
            topic,
            number,
            partition.leader if partition.leader >= 0 else None,
            tuple(partition.replicas),
            tuple(partition.isrs),
        )
        for number, partition in sorted(found.partitions.items())
    ]
