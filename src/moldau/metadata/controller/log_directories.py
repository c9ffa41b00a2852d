"""Log directories of brokers: those that failed, and in which one a replica is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.brokers import put_state
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.elections import Draft, settle, without
from moldau.metadata.controller.in_sync import check_broker_epoch
from moldau.metadata.controller.levels import RulesOfTopics
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.standing import Standing, with_directory
from moldau.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from moldau.metadata.store import Operation
from moldau.types.errors import ErrorCode
from moldau.work.slices import Work, pauses


@dataclass(frozen=True, slots=True)
class PlacedReplica:
    topic_id: UUID
    partition: int
    directory: UUID
    code: ErrorCode = ErrorCode.NONE


def directories_failed(
    image: ClusterImage, broker_id: int, broker_epoch: int, failed: Collection[UUID]
) -> Decision[bool]:
    """Notes directories as failed, until the broker registers anew; the duties then elect others for what was in them.
    Answers whether there was anything new. Raises STALE_BROKER_EPOCH."""
    check_broker_epoch(image, broker_id, broker_epoch)
    broker = image.brokers[broker_id]
    known = broker.offline_directories
    news = [directory for directory in broker.directories if directory in failed and directory not in known]
    if not news or broker.fenced:
        return Decision([], False)
    state = put_state(broker, fenced=False, shutting_down=broker.shutting_down, offline_directories=(*known, *news))
    return Decision([state], True)


def place_in_directories(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    directories: Mapping[tuple[UUID, int], UUID],
    config: BrokerConfig,
) -> Work[Decision[Sequence[PlacedReplica]]]:
    """A broker tells in which of its directories its replicas are (AssignReplicasToDirs). Raises STALE_BROKER_EPOCH."""
    check_broker_epoch(image, broker_id, broker_epoch)
    rules = RulesOfTopics(image, config)
    standing = Standing(image)
    paused = pauses()
    operations: list[Operation] = []
    answers = []
    for (topic_id, index), directory in directories.items():
        if next(paused):
            yield
        topic = image.topics_by_id.get(topic_id)
        old = None if topic is None else image.partition(topic.name, index)
        if topic is None or old is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.append(PlacedReplica(topic_id, index, directory, code))
        elif broker_id not in old.replicas:
            answers.append(PlacedReplica(topic_id, index, directory, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            answers.append(PlacedReplica(topic_id, index, directory))
            moved = _moved(image, old, broker_id, directory)
            new = settle(moved, Draft.of(moved), standing, rules.of(topic.name), rules.of(topic.name).election)
            if new != old:
                operations.append(put_partition(topic.name, index, old, new))
    return Decision(operations, answers)


def _moved(image: ClusterImage, old: PartitionImage, broker_id: int, directory: UUID) -> PartitionImage:
    before, moved = old.directory_of(broker_id), with_directory(old, broker_id, directory)
    if before is None or before in image.brokers[broker_id].directories:
        return moved
    # The directory it was in is not there: this is another, empty, log.
    last = NO_LEADER if old.last_known_leader == broker_id else old.last_known_leader
    return replace(moved, elr=without(old.elr, (broker_id,)), last_known_leader=last)
