"""AlterPartition: a leader asks for another in-sync set (KIP-497), with the epochs of those in it (KIP-903)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.elections import Draft, settle
from moldau.metadata.controller.levels import RulesOfTopics
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import ClusterImage, PartitionImage
from moldau.metadata.store import Operation
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work, pauses

ANY_EPOCH = -1


@dataclass(frozen=True, slots=True)
class WantedIsr:
    """What a leader asks for: the set it wants with the epochs of the brokers in it, and what it knows of the
    partition. `recovering` stays true until a leader that was elected uncleanly has made its log whole."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """`state` is the partition once this is committed, None where it is refused."""

    topic_id: UUID
    partition: int
    code: ErrorCode = ErrorCode.NONE
    state: PartitionImage | None = None


def check_broker_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> None:
    """Raises STALE_BROKER_EPOCH for a request of a broker that is not, or no longer, registered so."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker_epoch}, but got broker epoch {broker.epoch}",
        )


def alter_partitions(
    image: ClusterImage, broker_id: int, broker_epoch: int, wanted: Sequence[WantedIsr], config: BrokerConfig
) -> Work[Decision[list[AlteredPartition]]]:
    """Each partition succeeds or fails alone; one that is asked for twice is refused the second time."""
    check_broker_epoch(image, broker_id, broker_epoch)
    standing = Standing(image)
    rules = RulesOfTopics(image, config)
    paused = pauses()
    operations: list[Operation] = []
    answers = []
    seen: set[tuple[UUID, int]] = set()
    for each in wanted:
        if next(paused):
            yield
        topic = image.topics_by_id.get(each.topic_id)
        if topic is None:
            answers.append(AlteredPartition(each.topic_id, each.partition, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        old = image.partition(topic.name, each.partition)
        place = (each.topic_id, each.partition)
        code = ErrorCode.INVALID_UPDATE_VERSION if place in seen else _problem(image, broker_id, old, each)
        seen.add(place)
        if code is not ErrorCode.NONE or old is None:
            answers.append(AlteredPartition(each.topic_id, each.partition, code))
            continue
        draft = replace(Draft.of(old), isr=tuple(broker for broker, _ in each.isr), recovering=each.recovering)
        new = settle(old, draft, standing, rules.of(topic.name), rules.of(topic.name).election)
        if new != old:
            operations.append(put_partition(topic.name, each.partition, old, new))
            new = replace(new, partition_epoch=old.partition_epoch + 1, version=old.version + 1)
        answers.append(_answer(each, new, broker_id))
    return Decision(operations, answers)


def _answer(wanted: WantedIsr, new: PartitionImage, broker_id: int) -> AlteredPartition:
    # The change may complete a reassignment that takes the leader out: it is done all the same, and the leader told.
    code = ErrorCode.NONE if new.leader == broker_id else ErrorCode.NEW_LEADER_ELECTED
    return AlteredPartition(wanted.topic_id, wanted.partition, code, new if code is ErrorCode.NONE else None)


def _problem(image: ClusterImage, broker_id: int, old: PartitionImage | None, wanted: WantedIsr) -> ErrorCode:
    if old is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.leader_epoch > old.leader_epoch or wanted.partition_epoch > old.partition_epoch:
        # The leader has seen a later image than we: we are not the controller any more.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < old.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != old.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < old.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [broker for broker, _ in wanted.isr]
    if not members or len(set(members)) < len(members) or any(broker not in old.replicas for broker in members):
        return ErrorCode.INVALID_REQUEST
    if broker_id not in members:
        return ErrorCode.INVALID_REQUEST
    if wanted.recovering and (len(members) > 1 or not old.recovering):
        return ErrorCode.INVALID_REQUEST
    if any(not _is_eligible(image, old, broker, epoch) for broker, epoch in wanted.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(image: ClusterImage, partition: PartitionImage, broker_id: int, epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.is_active or epoch not in (ANY_EPOCH, broker.epoch):
        return False
    return partition.directory_of(broker_id) not in broker.offline_directories
