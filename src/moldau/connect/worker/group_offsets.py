"""Offsets of a sink's group: where a sink begins, and forgetting them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import re2
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPlace

from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.client.librdkafka import translate
from moldau.connect.task import Job
from moldau.connect.worker.topics import TopicUnavailable
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

log = logging.getLogger(__name__)

SECONDS = 30.0
POLICY: Final = "auto.offset.reset"
EARLIEST, LATEST, NONE = "earliest", "latest", "none"
BEGINNING, END = -2, -1
"""As the data source calls them."""


class OffsetsGone(Exception):
    """A sink cannot go on where it stopped, and may not choose another place."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the group stands in a partition, and what is there."""

    committed: int | None
    first: int
    end: int

    @property
    def is_gone(self) -> bool:
        return self.committed is not None and not self.first <= self.committed <= self.end

    def described(self, partition: TopicPartition) -> str:
        assert self.committed is not None
        if self.committed > self.end:
            return (
                f"{partition} ends at offset {self.end}, before the committed offset {self.committed}: the topic was "
                "made anew, or has lost its end"
            )
        return (
            f"{partition} begins at offset {self.first} now: {self.first - self.committed} offsets from "
            f"{self.committed} on were deleted before they were read"
        )


def topics_now(job: Job) -> dict[str, list[int]] | None:
    """The topics that the sink reads with their partitions; None while one that it names is missing."""
    consumer = Consumer({**translate(job.consumer_kafka), "group.id": job.sink_group})
    try:
        known = consumer.list_topics(timeout=SECONDS).topics
    except KafkaException as error:
        raise TopicUnavailable(f"the topics cannot be looked at: {error}") from None
    finally:
        consumer.close()
    there = {
        name: sorted(topic.partitions) for name, topic in known.items() if topic.error is None and topic.partitions
    }
    if job.topics:
        return {name: there[name] for name in job.topics} if set(job.topics) <= set(there) else None
    matching = {name: numbers for name, numbers in there.items() if re2.fullmatch(job.topics_pattern, name)}
    return matching or None


def begin_offsets(job: Job, topics: Mapping[str, Sequence[int]]) -> dict[TopicPartition, int]:
    return begins(job, places_now(job, topics))


def places_now(job: Job, topics: Mapping[str, Sequence[int]]) -> dict[TopicPartition, Place]:
    # To the end of the log: a sink that reads what is not committed has its offsets behind the last stable one.
    settings = {**translate(job.consumer_kafka), "group.id": job.sink_group, "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings)
    asked = [ClientPlace(name, number) for name, numbers in topics.items() for number in numbers]
    found = {}
    try:
        for each in consumer.committed(asked, timeout=SECONDS):
            first, end = consumer.get_watermark_offsets(ClientPlace(each.topic, each.partition), timeout=SECONDS)
            committed = None if each.offset < 0 else each.offset
            found[TopicPartition(each.topic, each.partition)] = Place(committed, first, end)
        return found
    except KafkaException as error:
        raise TopicUnavailable(f"the offsets of {job.sink_group}: {error}") from None
    finally:
        consumer.close()


def has_gone(job: Job, topics: Mapping[str, Sequence[int]]) -> bool:
    return any(place.is_gone for place in places_now(job, topics).values())


def begins(job: Job, places: Mapping[TopicPartition, Place]) -> dict[TopicPartition, int]:
    """Where the group goes on. Where it cannot, its consumer's auto.offset.reset says what happens, as in Kafka
    Connect, and what is skipped is told."""
    policy = job.consumer.get(POLICY, EARLIEST)
    if policy not in (EARLIEST, LATEST, NONE):
        raise ValueError(f"consumer.override.{POLICY}={policy} is not known here: {EARLIEST}, {LATEST} or {NONE}")
    found, refused = {}, []
    for partition, place in places.items():
        if place.committed is not None and not place.is_gone:
            found[partition] = place.committed
            continue
        found[partition] = END if policy == LATEST else BEGINNING
        if place.is_gone and policy != NONE:
            goes_on = place.end if policy == LATEST else place.first
            log.warning(
                "%s: %s; it goes on at %d (%s=%s)", job.sink_group, place.described(partition), goes_on, POLICY, policy
            )
        elif policy == NONE:
            what = place.described(partition) if place.is_gone else f"there is no committed offset of {partition}"
            refused.append(what)
    if refused:
        raise OffsetsGone(
            f"{job.sink_group}: {'; '.join(refused)}, and {POLICY} is {NONE}: set the connector's offsets"
        )
    return found


def forget(job: Job, places: Sequence[TopicPartition]) -> None:
    if not places:
        return
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    request = OffsetDeleteRequest(
        group_id=job.sink_group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
            )
            for name, numbers in by_topic.items()
        ],
    )
    with Cluster(job.admin_client) as cluster:
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, job.sink_group, request, OffsetDeleteResponse)
    if answer.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        check(answer.error_code, f"offsets of {job.sink_group}")
