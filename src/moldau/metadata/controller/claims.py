"""Claims to lead that end with a change of `min.insync.replicas`.

A replica out of sync is eligible because nothing is committed while fewer than the minimum are in sync. Where the
minimum falls to what is in sync, that ends, with the change itself: later nobody could tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from moldau.config.broker import BrokerConfig
from moldau.metadata import codec, paths
from moldau.metadata.controller.min_insync import MIN_INSYNC_REPLICAS
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.store import Operation, Put
from moldau.work.slices import Work, pauses


def ended_claims(image: ClusterImage, operations: Sequence[Operation], broker: BrokerConfig) -> Work[list[Put]]:
    """What these changes of settings mean for partitions with eligible replicas; to be done no later than they are."""
    changed = {operation.path: _minimum(operation) for operation in operations}
    default = changed.get(paths.broker_config(None)) or broker.min_insync_replicas
    topics: Iterable[TopicImage] = image.topics.values()
    if paths.broker_config(None) not in changed:
        names = [
            path.removeprefix(paths.TOPIC_CONFIGS + "/") for path in changed if path.startswith(paths.TOPIC_CONFIGS)
        ]
        topics = [image.topics[name] for name in names if name in image.topics]
    paused = pauses()
    found = []
    for topic in topics:
        path = paths.topic_config(topic.name)
        own = changed[path] if path in changed else topic.configs.get(MIN_INSYNC_REPLICAS)
        minimum = int(own or default)
        for index, partition in enumerate(topic.partitions):
            if next(paused):
                yield
            if partition.elr and len(partition.isr) >= min(minimum, len(partition.replicas)):
                found.append(put_partition(topic.name, index, partition, replace(partition, elr=())))
    return found


def _minimum(operation: Operation) -> str | None:
    if not isinstance(operation, Put):
        return None
    settings, _ = codec.decode_settings(operation.path, operation.value)
    return settings.get(MIN_INSYNC_REPLICAS)
