"""Deleting topics, by name or by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.metadata import paths
from moldau.metadata.controller.decision import Charge, Decision, Permission, everyone, free_of_charge
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.store import ABSENT, Delete, Operation
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import ZERO_TOPIC_ID
from moldau.work.slices import Work, pauses


@dataclass(frozen=True, slots=True)
class TopicReference:
    """A topic named by a client in one of two ways."""

    name: str | None
    topic_id: UUID = ZERO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    name: str | None
    topic_id: UUID
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def delete_topics(
    image: ClusterImage,
    references: Sequence[TopicReference],
    *,
    may_describe: Permission = everyone,
    may_delete: Permission = everyone,
    charge: Charge = free_of_charge,
) -> Work[Decision[list[DeletedTopic]]]:
    """Each topic succeeds or fails alone. Names and ids that a client may not know are not confirmed to it."""
    answers, names, ids = _sorted_references(references)
    found: dict[UUID, TopicImage] = {}
    for topic_id in ids:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            answers.append(_unknown_id(topic_id))
        elif not may_delete(topic.name):
            shown = topic.name if may_describe(topic.name) else None
            answers.append(_not_permitted(shown, topic_id))
        else:
            found[topic_id] = topic
    for name in names:
        topic = image.topics.get(name)
        if not may_describe(name):
            answers.append(_not_permitted(name))
        elif topic is None:
            answers.append(_unknown_name(name))
        elif not may_delete(name):
            answers.append(_not_permitted(name))
        elif topic.id in found:
            del found[topic.id]
            message = "The provided topic name maps to an ID that was already supplied."
            answers.append(DeletedTopic(name, topic.id, ErrorCode.INVALID_REQUEST, message))
        else:
            found[topic.id] = topic
    operations: list[Operation] = []
    for topic in found.values():
        try:
            charge(len(topic.partitions))
        except KafkaError as error:
            answers.append(DeletedTopic(topic.name, topic.id, error.code, error.message))
            continue
        operations += yield from _deletions(topic)
        answers.append(DeletedTopic(topic.name, topic.id))
    return Decision(operations, answers)


def _sorted_references(references: Sequence[TopicReference]) -> tuple[list[DeletedTopic], list[str], list[UUID]]:
    """Refusals of references that name no topic, or one twice; the names and the ids that are left."""
    answers = []
    names: Counter[str] = Counter()
    ids: Counter[UUID] = Counter()
    for reference in references:
        name, topic_id = reference.name, reference.topic_id
        if name is None and topic_id == ZERO_TOPIC_ID:
            message = "Neither topic name nor id were specified."
            answers.append(DeletedTopic(None, topic_id, ErrorCode.INVALID_REQUEST, message))
        elif name is None:
            ids[topic_id] += 1
        elif topic_id == ZERO_TOPIC_ID:
            names[name] += 1
        else:
            message = "You may not specify both topic name and topic id."
            answers.append(DeletedTopic(name, topic_id, ErrorCode.INVALID_REQUEST, message))
    for name, times in names.items():
        if times > 1:
            answers.append(DeletedTopic(name, ZERO_TOPIC_ID, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    for topic_id, times in ids.items():
        if times > 1:
            answers.append(DeletedTopic(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id."))
    once = [name for name, times in names.items() if times == 1]
    return answers, once, [topic_id for topic_id, times in ids.items() if times == 1]


def _deletions(topic: TopicImage) -> Work[list[Operation]]:
    """Partitions go with whatever state they have: only the topic itself must be the one that was meant."""
    paused = pauses()
    operations: list[Operation] = [Delete(paths.topic(topic.name), topic.version)]
    for index in range(len(topic.partitions)):
        operations.append(Delete(paths.partition(topic.name, index)))
        if next(paused):
            yield
    if topic.settings.version != ABSENT:
        operations.append(Delete(paths.topic_config(topic.name)))
    return operations


def _unknown_id(topic_id: UUID) -> DeletedTopic:
    message = "This server does not host this topic ID."
    return DeletedTopic(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, message)


def _unknown_name(name: str) -> DeletedTopic:
    message = "This server does not host this topic-partition."
    return DeletedTopic(name, ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _not_permitted(name: str | None, topic_id: UUID = ZERO_TOPIC_ID) -> DeletedTopic:
    return DeletedTopic(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
