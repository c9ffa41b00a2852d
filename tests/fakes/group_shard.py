"""One shard of the group coordinator in memory: its requests, its clock, its log, and the crash of its process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.classic_joins import Client
from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.groups.offset_commits import FetchedTopic, OffsetCommit, OffsetFetch, WantedOffset, WantedTopic
from moldau.coordinators.machine import ProducerStamp, Timers, Write
from moldau.coordinators.runtime import CoordinatorRuntime, Shard
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, ZERO_TOPIC_ID, TopicPartition
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.fakes.shard_log import FakeShardLog, Marker
from tests.fakes.timers import RecordingTimers

T = TypeVar("T")

PARTITION = 0
GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
#: The first version in which a new member must come back with the id it was given.
CURRENT_JOIN = 9


@cache
def config_of(settings: tuple[tuple[str, str], ...]) -> BrokerConfig:
    return BrokerConfig.load(dict(settings))


class GroupShard:
    def __init__(self, **settings: object) -> None:
        self.now = 1000.0
        self.wall_offset_ms = 1_700_000_000_000
        self.timers = RecordingTimers()
        self.log = FakeShardLog()
        self.settings = {"group.initial.rebalance.delay.ms": "0"}
        self.configure(**settings)
        self.image: ClusterImage = EMPTY_IMAGE
        self._last_uuid = 0
        self.runtime: CoordinatorRuntime[GroupMachine] = CoordinatorRuntime(
            self._new_machine, self.timers, lambda: self.now, lambda partition: self.load()
        )
        self.shard: Shard[GroupMachine]
        self.load()

    def configure(self, **settings: object) -> None:
        self.settings |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.config = config_of(tuple(self.settings.items()))

    def _new_machine(self, partition: int, timers: Timers) -> GroupMachine:
        return GroupMachine(partition, timers, lambda: self.config, lambda: self.image, self.wall_ms, self._new_uuid)

    def _new_uuid(self) -> UUID:
        self._last_uuid += 1
        return UUID(int=self._last_uuid)

    @property
    def machine(self) -> GroupMachine:
        return self.shard.machine

    # --- time and faults ---

    def wall_ms(self) -> int:
        return self.wall_offset_ms + int(self.now * 1000)

    def pass_time(self, seconds: float) -> None:
        """Fires every timer at its time; what it writes is committed at once."""
        end = self.now + seconds
        while True:
            deadlines = [deadline for deadline, _ in self.timers.armed.values() if deadline <= end]
            if not deadlines:
                break
            self.now = max(self.now, min(deadlines))
            for operation in self.timers.due(self.now):
                operation(self.now)
            self.log.commit()
        self.now = end

    def crash(self) -> None:
        """The process dies; another one loads what was committed."""
        self.log.forget()
        self.timers.armed.clear()
        self.runtime.end(PARTITION)
        self.load()

    def load(self) -> None:
        self.shard = self.runtime.begin(PARTITION, 1, self.log)
        for each in self.log.contents():
            if isinstance(each, Marker):
                self.machine.replay_end_of_transaction(each.producer, each.is_commit)
            else:
                self.machine.replay(*each)
        self.runtime.loaded(self.shard)

    # --- requests ---

    def write(self, operation: Callable[[GroupMachine, float], Write[T]]) -> Deferred[T]:
        """An operation that raises gives a failed answer."""
        try:
            return self.runtime.write(PARTITION, operation)
        except KafkaError as error:
            failed: Deferred[T] = Deferred()
            failed.fail(error)
            return failed

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        kind: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = CURRENT_JOIN,
        client: str = "client",
    ) -> Deferred[JoinGroupResponse]:
        offered = {"range": b"metadata"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
        )
        return self.write(lambda machine, now: machine.classic.join(request, Client(client, "/host"), version, now))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> Deferred[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
        )
        return self.write(lambda machine, now: machine.classic.sync(request, now))

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        found = outcome(self.write(lambda machine, now: machine.classic.heartbeat(request, now)))
        assert isinstance(found, ErrorCode)
        return found

    def leave(self, *members: str | tuple[str, str], group: str = GROUP) -> Deferred[list[MemberResponse]]:
        identities = [
            MemberIdentity(member_id=each)
            if isinstance(each, str)
            else MemberIdentity(member_id=each[0], group_instance_id=each[1])
            for each in members
        ]
        request = LeaveGroupRequest(group_id=group, members=identities)
        return self.write(lambda machine, now: machine.classic.leave(request, now))

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        group: str = GROUP,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        producer: ProducerStamp | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        topic_id: UUID = ZERO_TOPIC_ID,
        version: int = 9,
    ) -> Deferred[list[ErrorCode]]:
        wanted = [
            WantedOffset(topic, topic_id, partition, offset, NO_EPOCH, metadata)
            for (topic, partition), offset in offsets.items()
        ]
        commit = OffsetCommit(group, member_id, instance, generation, version, wanted, retention_ms)
        if producer is not None:
            return self.write(lambda machine, now: machine.offsets.commit_in_transaction(commit, producer, now))
        return self.write(lambda machine, now: machine.offsets.commit(commit, now))

    def end_transaction(self, producer: ProducerStamp, is_commit: bool) -> None:
        self.log.committed.append(Marker(producer, is_commit))
        self.runtime.end_transaction(PARTITION, producer, is_commit)

    def fetch(
        self, *partitions: TopicPartition, group: str = GROUP, stable: bool = False, topic_id: UUID = ZERO_TOPIC_ID
    ) -> dict[TopicPartition, int | ErrorCode]:
        """What is committed for these, or for all; the code where a partition has an error."""
        wanted = [WantedTopic(topic, topic_id, [index]) for topic, index in partitions] or None
        found = outcome(
            self.write(lambda machine, now: Write(machine.offsets.fetch(OffsetFetch(group, wanted, stable))))
        )
        assert isinstance(found, list)
        return offsets_in(found)


def offsets_in(topics: Sequence[FetchedTopic]) -> dict[TopicPartition, int | ErrorCode]:
    return {
        TopicPartition(topic.topic, each.partition): each.error or each.offset
        for topic in topics
        for each in topic.partitions
    }


def outcome(deferred: Deferred[Any]) -> Any:
    """The value, the code of the error, or None as long as it is open."""
    found: list[Any] = []
    if deferred.is_done:
        deferred.when_done(lambda value, error: found.append(value if error is None else error.code))
    return found[0] if found else None
