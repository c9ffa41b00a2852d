"""Which logs a new image needs on this broker.

They are made while the image is prepared, where making them does not block the event loop: the partition table, which
applies it, finds them done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moldau.config.topic import TopicConfig
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta, TopicDelta
from moldau.storage.manager import NewLog
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses

#: Each has all of its settings worked out.
TOPICS_PER_TURN = 8


def new_logs(delta: ImageDelta, local_id: int, topic_config: Callable[[TopicImage], TopicConfig]) -> Work[list[NewLog]]:
    resolving = pauses(TOPICS_PER_TURN)
    found: list[NewLog] = []
    for topic in delta.created:
        if next(resolving):
            yield
        found += yield from _logs_of(topic, range(len(topic.partitions)), local_id, topic_config)
    for change in delta.changed:
        joined = [index for index in change.partitions if joins(change, index, local_id)]
        if joined:
            found += yield from _logs_of(change.new, joined, local_id, topic_config)
    return found


def logs_of(
    image: ClusterImage, local_id: int, topic_config: Callable[[TopicImage], TopicConfig]
) -> Work[list[NewLog]]:
    """All that the image wants here."""
    resolving = pauses(TOPICS_PER_TURN)
    found: list[NewLog] = []
    for topic in image.topics.values():
        if next(resolving):
            yield
        found += yield from _logs_of(topic, range(len(topic.partitions)), local_id, topic_config)
    return found


def joins(change: TopicDelta, index: int, broker_id: int) -> bool:
    """Whether the broker becomes a replica of this partition."""
    known = change.old.partitions
    return broker_id in change.new.partitions[index].replicas and (
        index >= len(known) or broker_id not in known[index].replicas
    )


def _logs_of(
    topic: TopicImage, indexes: Iterable[int], local_id: int, topic_config: Callable[[TopicImage], TopicConfig]
) -> Work[list[NewLog]]:
    paused = pauses()
    config = topic_config(topic)
    found = []
    for index in indexes:
        if next(paused):
            yield
        if local_id in topic.partitions[index].replicas:
            found.append(NewLog(TopicPartition(topic.name, index), topic.id, config))
    return found
