"""ElectLeaders: elections that an administrator asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.elections import Draft, Election, settle
from moldau.metadata.controller.levels import RulesOfTopics
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from moldau.metadata.store import Operation
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses


class ElectionKind(IntEnum):
    """As in the request."""

    PREFERRED = 0
    UNCLEAN = 1


MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


@dataclass(frozen=True, slots=True)
class Elected:
    topic: str
    partition: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def elect_leaders(
    image: ClusterImage, kind: ElectionKind, wanted: Sequence[TopicPartition] | None, config: BrokerConfig
) -> Work[Decision[list[Elected]]]:
    """Each partition alone; None is all of them, and then those that need no election are not told of."""
    standing = Standing(image)
    rules = RulesOfTopics(image, config)
    paused = pauses()
    operations: dict[TopicPartition, Operation] = {}
    answers = []
    for place in _all(image) if wanted is None else wanted:
        if next(paused):
            yield
        old = image.partition(*place)
        if old is None:
            answers.append(_unknown(image, place))
            continue
        code = _elect(kind, place, old, standing, rules, operations)
        if wanted is not None or code is not ErrorCode.ELECTION_NOT_NEEDED:
            answers.append(Elected(*place, code, MESSAGES.get(code)))
    return Decision(tuple(operations.values()), answers)


def _all(image: ClusterImage) -> Iterable[TopicPartition]:
    return (
        TopicPartition(name, index) for name, topic in image.topics.items() for index in range(len(topic.partitions))
    )


def _unknown(image: ClusterImage, place: TopicPartition) -> Elected:
    what = f"topic as {place.topic}" if place.topic not in image.topics else f"partition as {place}"
    return Elected(*place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")


def _elect(
    kind: ElectionKind,
    place: TopicPartition,
    old: PartitionImage,
    standing: Standing,
    rules: RulesOfTopics,
    operations: dict[TopicPartition, Operation],
) -> ErrorCode:
    preferred = kind is ElectionKind.PREFERRED
    if old.leader == old.replicas[0] if preferred else old.leader != NO_LEADER:
        return ErrorCode.ELECTION_NOT_NEEDED
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    new = settle(old, Draft.of(old), standing, rules.of(place.topic), election)
    if new == old or new.leader == NO_LEADER or (preferred and new.leader != new.replicas[0]):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    operations[place] = put_partition(*place, old, new)
    return ErrorCode.NONE
