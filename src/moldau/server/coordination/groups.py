"""The group coordinator of this broker: a service over the partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.machine import Timers
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.server.appends import AppendQueue, RunBlocking
from moldau.server.coordination.service import CoordinatorService
from moldau.server.partition_table import PartitionTable
from moldau.types.internal_topics import OFFSETS_TOPIC
from moldau.work.slices import Work

GROUP_VERSION = "group.version"
CONSUMER_GROUPS_FROM = 1


def serves_consumer_groups(image: ClusterImage) -> bool:
    """Whether the cluster's finalized features allow the consumer protocol."""
    return image.features.levels.get(GROUP_VERSION, 0) >= CONSUMER_GROUPS_FROM


def group_service(
    timers: Timers,
    partitions: PartitionTable,
    appends: AppendQueue,
    run_blocking: RunBlocking,
    config: Callable[[], BrokerConfig],
    image: Callable[[], ClusterImage],
    monotonic: Callable[[], float],
    wall_ms: Callable[[], int],
    new_uuid: Callable[[], UUID],
) -> CoordinatorService[GroupMachine]:
    def new_machine(partition: int, shard_timers: Timers) -> GroupMachine:
        return GroupMachine(partition, shard_timers, config, image, wall_ms, new_uuid)

    return CoordinatorService(
        OFFSETS_TOPIC,
        new_machine,
        timers,
        partitions,
        appends,
        run_blocking,
        monotonic,
        wall_ms,
        codec=lambda: config().offsets_topic_compression_codec,
        checks_lease=True,
    )


def forget_deleted_topics(groups: CoordinatorService[GroupMachine], delta: ImageDelta) -> Work[None]:
    """Offsets of topics that are gone go, too."""
    topics = {topic.name: topic.id for topic in delta.deleted}
    if not topics:
        return
    for shard in groups.runtime.shards():
        if not shard.is_over:
            groups.runtime.write(shard.partition, lambda machine, now: machine.removal.topics_deleted(topics, now))
        yield
    for shard in groups.runtime.loading_shards():
        shard.machine.removal.deleted_while_loading.update(topics)
