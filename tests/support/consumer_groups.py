"""Drives a group machine as the runtime does, with members that behave like real consumers.

Records are replayed when they are written, and kept: a crash is a new machine that is given all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.classic_joins import Client
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.groups.subscriptions import FULL_SIGHT, Sight
from moldau.coordinators.machine import NOT_IN_THE_LOG_YET, RecordContext, StateRecord, Write
from moldau.metadata.image import ClusterImage, PartitionImage, TopicImage
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.fakes.timers import RecordingTimers

GROUP = "group"
CLIENT = Client("client", "/127.0.0.1")
REBALANCE_MS = 60_000
_PARTITION = PartitionImage((1,), (1,), 1, 0, 0)

Place = tuple[UUID, int]


def topic(name: str, number: int, partitions: int) -> TopicImage:
    return TopicImage(name, UUID(int=number), (_PARTITION,) * partitions)


def image_of(topics: Sequence[TopicImage], version: int = 1) -> ClusterImage:
    return ClusterImage(
        version=version,
        topics=MappingProxyType({each.name: each for each in topics}),
        topics_by_id=MappingProxyType({each.id: each for each in topics}),
    )


class Coordinator:
    """One shard, its log and its clocks."""

    def __init__(self, *topics: TopicImage, **settings: str) -> None:
        self.config = BrokerConfig.load({name.replace("_", "."): value for name, value in settings.items()})
        self.image = image_of(topics)
        self.now = 1000.0
        self.log: list[StateRecord] = []
        self._ids = 0
        self.sight: Sight = FULL_SIGHT
        self.machine, self.timers = self._new_machine()

    def _new_machine(self) -> tuple[GroupMachine, RecordingTimers]:
        timers = RecordingTimers()
        machine = GroupMachine(
            0, timers, lambda: self.config, lambda: self.image, lambda: int(self.now * 1000), self._new_uuid
        )
        return machine, timers

    def _new_uuid(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.tables.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def perform(self, write: Write[ConsumerGroupHeartbeatResponse] | Write[None]) -> object:
        for record in write.records:
            self.log.append(record)
            self.machine.replay(record, RecordContext(NOT_IN_THE_LOG_YET, NOT_IN_THE_LOG_YET, None))
        for reply in write.replies:
            reply.deferred.succeed(reply.value)
        return write.answer

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Raises KafkaError."""
        answer = self.perform(self.machine.consumer.heartbeat(request, CLIENT, self.now, self.sight))
        self.run_timers()
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.run_timers()

    def run_timers(self) -> None:
        while due := self.timers.due(self.now):
            for operation in due:
                self.perform(operation(self.now))

    def change_topics(self, *topics: TopicImage) -> None:
        self.image = image_of(topics, self.image.version + 1)

    def crash(self, log: Sequence[StateRecord] | None = None) -> None:
        self.machine, self.timers = self._new_machine()
        for offset, record in enumerate(self.log if log is None else log):
            self.machine.replay(record, RecordContext(offset, 0, None))
        self.machine.loaded(self.now)

    def compacted(self) -> list[StateRecord]:
        """The log as the cleaner leaves it: the last record of each key, tombstones gone."""
        last = {record.key: number for number, record in enumerate(self.log)}
        return [r for number, r in enumerate(self.log) if last[r.key] == number and r.value is not None]


@dataclass
class Consumer:
    """A client that follows the protocol: it owns what it was assigned, and stops consuming before it says so."""

    coordinator: Coordinator
    member_id: str
    topics: tuple[str, ...] = ()
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)
    #: Whether the broker has heard what it owns and wants now.
    must_tell: bool = True
    #: An assignment that it has heard of and not acted on: it may be busy with what it must give back.
    heard: set[Place] | None = None

    def request(self, epoch: int | None = None) -> ConsumerGroupHeartbeatRequest:
        plain = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance_id,
            topic_partitions=None,
        )
        if plain.member_epoch < 0 or not self.must_tell:
            return plain
        plain.rebalance_timeout_ms = REBALANCE_MS
        plain.subscribed_topic_names = list(self.topics)
        plain.subscribed_topic_regex = self.regex
        plain.server_assignor = self.assignor
        plain.topic_partitions = as_topics(self.owned)
        return plain

    def beat(self, *, answer_is_lost: bool = False, is_busy: bool = False) -> ErrorCode:
        """One heartbeat; a fenced consumer gives up all it has and joins again."""
        if not is_busy:
            self._act()
        try:
            answer = self.coordinator.heartbeat(self.request())
        except KafkaError as error:
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
                self._start_anew()
            return error.code
        if answer_is_lost:
            self.must_tell = True
            return ErrorCode.NONE
        self.epoch = answer.member_epoch
        self.must_tell = False
        if answer.assignment is not None:
            self.heard = {
                (each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions
            }
            if not is_busy:
                self._act()
        return ErrorCode.NONE

    def _act(self) -> None:
        if self.heard is not None:
            self.must_tell |= self.heard != self.owned
            self.owned, self.heard = self.heard, None

    def _start_anew(self) -> None:
        self.epoch, self.owned, self.must_tell, self.heard = 0, set(), True, None

    def leave(self, epoch: int = -1) -> None:
        self.coordinator.heartbeat(self.request(epoch))
        self._start_anew()

    def subscribe(self, *topics: str) -> None:
        self.topics, self.must_tell = topics, True


def as_topics(places: set[Place]) -> list[TopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]


def settle(coordinator: Coordinator, consumers: Sequence[Consumer], rounds: int = 8) -> None:
    """Everybody sends heartbeats until the group has had time to come to rest."""
    for _ in range(rounds):
        coordinator.pass_time(1.0)
        for consumer in consumers:
            consumer.beat()


def durable(group: ConsumerGroup) -> Mapping[str, object]:
    """What must survive a crash."""
    return {
        "epoch": group.epoch,
        "hash": group.metadata_hash,
        "assignment": (group.assignment_epoch, group.assignment_timestamp),
        "members": group.members,
        "targets": group.targets,
        "static": group.static_members,
        "regexes": group.regexes,
        "named": group.named,
        "regex users": group.regex_users,
        "owners": group._owners,
    }


def shown(places: set[Place], coordinator: Coordinator) -> set[str]:
    """Partitions by name, as the books print them: A-0."""
    names = {each.id: name for name, each in coordinator.image.topics.items()}
    return {f"{names[topic_id]}-{index}" for topic_id, index in places}


def grown(known: TopicImage, more: int) -> TopicImage:
    return replace(known, partitions=known.partitions + (_PARTITION,) * more)
