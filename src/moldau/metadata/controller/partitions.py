"""Adding partitions to topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.metadata import codec, paths
from moldau.metadata.controller import assignments
from moldau.metadata.controller.decision import (
    MAX_RECORDS_PER_REQUEST,
    Charge,
    Decision,
    Permission,
    Rng,
    everyone,
    free_of_charge,
)
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Operation, Put
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work, pauses


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic and the number of partitions it shall have; `assignments` are the new ones' replicas, in order."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class GrownTopic:
    name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def create_partitions(
    image: ClusterImage,
    topics: Sequence[MorePartitions],
    rng: Rng,
    *,
    validate_only: bool = False,
    may_alter: Permission = everyone,
    charge: Charge = free_of_charge,
) -> Work[Decision[list[GrownTopic]]]:
    """Each topic succeeds or fails alone."""
    names = Counter(topic.name for topic in topics)
    operations: list[Operation] = []
    answers = []
    room = MAX_RECORDS_PER_REQUEST
    for topic in topics:
        if names[topic.name] > 1 or not may_alter(topic.name):
            continue
        try:
            puts = yield from _grow(image, topic, room, rng, charge)
        except KafkaError as error:
            answers.append(GrownTopic(topic.name, error.code, error.message))
        else:
            room -= len(puts) - 1
            operations += puts
            answers.append(GrownTopic(topic.name))
    for name, times in names.items():
        if times > 1:
            answers.append(GrownTopic(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif not may_alter(name):
            answers.append(GrownTopic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return Decision(() if validate_only else operations, answers)


def _grow(image: ClusterImage, request: MorePartitions, room: int, rng: Rng, charge: Charge) -> Work[list[Put]]:
    paused = pauses()
    topic = image.topics.get(request.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if request.count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if request.count < present:
        message = (
            f"The topic {topic.name} currently has {present} partition(s); {request.count} would not be an increase."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    additional = request.count - present
    if request.assignments is not None and len(request.assignments) != additional:
        message = (
            f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
            "assignment(s) were specified."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if additional > room:
        # So answers Apache Kafka, which runs into a bound of its own here.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    charge(additional)
    factor = len(topic.partitions[0].replicas)
    replica_sets: Sequence[Sequence[int]]
    if request.assignments is None:
        replica_sets = yield from assignments.place_replicas(image, additional, factor, rng)
    else:
        for index, replicas in enumerate(request.assignments, present):
            assignments.check_chosen_replicas(image, replicas, factor)
            assignments.check_some_active(image, replicas, index)
            if next(paused):
                yield
        replica_sets = request.assignments
    puts = []
    for index, replicas in enumerate(replica_sets, present):
        puts.append(assignments.new_partition(image, topic.name, index, replicas))
        if next(paused):
            yield
    # Last: the new partitions are there when the topic counts them.
    value = codec.encode_topic(topic.id, request.count, topic.unknown)
    return [*puts, Put(paths.topic(topic.name), value, topic.version)]
