"""Other replicas for partitions (KIP-455): begun, changed, cancelled, listed. `elections.completed` ends them.

While a reassignment is under way the partition's replicas are the target, in its order, then those that will leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.assignments import check_chosen_replicas
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.elections import Draft, Election, settle, without
from moldau.metadata.controller.levels import RulesOfTopics
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import ClusterImage, PartitionImage
from moldau.metadata.store import Operation
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses


@dataclass(frozen=True, slots=True)
class WantedReplicas:
    """The replicas that a partition shall have; None cancels what is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Reassigned:
    topic: str
    partition: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Reassignment:
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def alter_reassignments(
    image: ClusterImage,
    wanted: Sequence[WantedReplicas],
    config: BrokerConfig,
    *,
    allow_replication_factor_change: bool = True,
) -> Work[Decision[list[Reassigned]]]:
    """Each partition succeeds or fails alone; of one that is named twice the last counts."""
    standing = Standing(image)
    rules = RulesOfTopics(image, config)
    paused = pauses()
    operations: dict[TopicPartition, Operation] = {}
    answers = []
    for each in wanted:
        if next(paused):
            yield
        place = TopicPartition(each.topic, each.partition)
        try:
            old = _existing(image, each)
            if each.replicas is None:
                draft, election = _cancelled(old, each, rules.of(each.topic).unclean)
            else:
                check_chosen_replicas(image, each.replicas, None)
                if not allow_replication_factor_change:
                    _check_factor(old, each.replicas)
                draft, election = _changed(old, each.replicas), Election.CLEAN
        except KafkaError as error:
            answers.append(Reassigned(each.topic, each.partition, error.code, error.message))
            continue
        new = settle(old, draft, standing, rules.of(each.topic), election)
        if new != old:
            operations[place] = put_partition(each.topic, each.partition, old, new)
        else:
            operations.pop(place, None)
        answers.append(Reassigned(each.topic, each.partition))
    return Decision(tuple(operations.values()), answers)


def list_reassignments(
    image: ClusterImage, wanted: Sequence[tuple[str, Sequence[int]]] | None
) -> list[tuple[str, list[Reassignment]]]:
    """What is under way, by topic: everywhere, or in these partitions. Topics without any are left out."""
    places: Iterable[tuple[str, int]]
    if wanted is None:
        places = sorted(image.index.reassigning)
    else:
        places = ((topic, index) for topic, indexes in wanted for index in indexes)
    found: dict[str, list[Reassignment]] = {}
    for topic, index in places:
        partition = image.partition(topic, index)
        if partition is not None and partition.is_reassigning:
            each = Reassignment(index, partition.replicas, partition.adding, partition.removing)
            found.setdefault(topic, []).append(each)
    return list(found.items())


def _existing(image: ClusterImage, wanted: WantedReplicas) -> PartitionImage:
    if wanted.topic not in image.topics:
        raise _unknown(f"Unable to find a topic named {wanted.topic}.")
    found = image.partition(wanted.topic, wanted.partition)
    if found is None:
        raise _unknown(f"Unable to find partition {wanted.topic}:{wanted.partition}.")
    return found


def _unknown(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _check_factor(old: PartitionImage, target: Sequence[int]) -> None:
    present = len(without(old.replicas, old.removing))
    if len(target) != present:
        message = f"The replication factor is changed from {present} to {len(target)}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _changed(old: PartitionImage, target: tuple[int, ...]) -> Draft:
    """A change of a reassignment under way begins at the original replicas again, so that a cancellation restores
    them; those that it was adding leave at once, unless nobody else is in sync."""
    origin = without(old.replicas, old.adding)
    staying = {*origin, *target}
    if not any(replica in staying for replica in old.isr or old.elr):
        origin = old.replicas
        staying.update(origin)
    removing = tuple(sorted(without(origin, target)))
    return Draft(
        isr=tuple(replica for replica in old.isr if replica in staying),
        replicas=(*target, *removing),
        adding=tuple(sorted(without(target, origin))),
        removing=removing,
        recovering=old.recovering,
    )


def _cancelled(old: PartitionImage, wanted: WantedReplicas, may_be_unclean: bool) -> tuple[Draft, Election]:
    if not old.is_reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = without(old.replicas, old.adding)
    isr = without(old.isr, old.adding)
    if not isr and not any(replica in replicas for replica in old.elr) and not may_be_unclean:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {wanted.topic}:{wanted.partition} because it would require an "
            "unclean leader election.",
        )
    draft = replace(Draft.of(old), isr=isr, replicas=replicas, adding=(), removing=())
    return draft, Election.UNCLEAN if may_be_unclean else Election.CLEAN
