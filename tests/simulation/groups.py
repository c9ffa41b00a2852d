"""Members of a group that commit offsets, and somebody who looks at committed offsets: they never go back, and no
partition belongs to two members.

A member counts up the offset of each partition that it owns, from what it finds committed. It gives a partition up
only when it has heard what became of its last commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from moldau.client.settings import Address
from moldau.types.errors import ErrorCode
from moldau.types.internal_topics import OFFSETS_TOPIC
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.calls import BACKOFF_SECONDS, GROUP, TROUBLE, ClientProcess, Cluster, id_at
from tests.simulation.clients import Answered, Told

MEMBERS = ("one", "two")
MEMBERS_GROUP = "members"
JOINS, LEAVES = 0, -1
HEARTBEAT_SECONDS = 0.4
SESSION_SECONDS = 45.0
NOTHING = -1
#: All groups are in one partition here.
SHARD = 0
LOOK_SECONDS = 0.5

FENCED = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    )
)
PASSING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)


#: Topic, partition, broker, time.
MayBeStale = Callable[[str, int, int, float], bool]


@dataclass(slots=True)
class Committed:
    """What is known of committed offsets: when each group's partition was known to stand at least where."""

    known: dict[tuple[str, str, int], list[tuple[float, int]]] = field(default_factory=dict)

    def note(self, key: tuple[str, str, int], now: float, offset: int) -> None:
        history = self.known.setdefault(key, [])
        if not history or offset > history[-1][1]:
            history.append((now, offset))

    def at(self, key: tuple[str, str, int], when: float) -> int:
        return max((offset for since, offset in self.known.get(key, ()) if since <= when), default=NOTHING)


class Known(NamedTuple):
    """`may_be_stale`: whether a broker may have answered beside a newer coordinator."""

    told: Told
    committed: Committed
    may_be_stale: MayBeStale


class Offsets:
    """Reads and writes committed offsets of one group; what it is told is compared with what was known."""

    def __init__(
        self,
        process: ClientProcess,
        cluster: Cluster,
        group: str,
        topic: str,
        known: Known,
    ) -> None:
        self._process, self._cluster, self._group, self._topic = process, cluster, group, topic
        self._told, self._committed, self._may_be_stale = known
        self.where: Address | None = None

    async def coordinator(self) -> Address:
        if self.where is None:
            self.where = await self._cluster.coordinator(GROUP, self._group)
        return self.where

    async def read(self, index: int) -> int:
        wanted = OffsetFetchRequestGroup(
            group_id=self._group, topics=[OffsetFetchRequestTopics(name=self._topic, partition_indexes=[index])]
        )
        request = OffsetFetchRequest(groups=[wanted], require_stable=True)
        while True:
            asked_at = self._process.scheduler.now
            try:
                where = await self.coordinator()
                answer: OffsetFetchResponse = await self._cluster.call(where, request, OffsetFetchResponse, 9)
            except TROUBLE:
                self.where = None
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            found = answer.groups[0]
            code = ErrorCode(found.error_code or found.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                offset = found.topics[0].partitions[0].committed_offset
                self._judge(index, offset, asked_at, id_at(where))
                return offset
            if code not in PASSING:
                self._process.scheduler.problems.append(f"{self._group}: offsets were refused with {code.name}")
            if code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.where = None
            await asyncio.sleep(BACKOFF_SECONDS)

    def _judge(self, index: int, offset: int, asked_at: float, broker_id: int) -> None:
        key = (self._group, self._topic, index)
        known = self._committed.at(key, asked_at)
        self._told.answered.append(Answered(asked_at, OFFSETS_TOPIC, SHARD, broker_id, "told an offset"))
        if offset < known and not self._may_be_stale(OFFSETS_TOPIC, SHARD, broker_id, asked_at):
            self._process.scheduler.problems.append(
                f"{self._group} had committed {known} for {self._topic}-{index}, and {broker_id} tells {offset}"
            )
        self._committed.note(key, self._process.scheduler.now, offset)

    async def commit(self, index: int, offset: int, member: str, epoch: int) -> ErrorCode:
        """UNKNOWN_SERVER_ERROR where the answer is lost."""
        wanted = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[wanted])],
        )
        try:
            where = await self.coordinator()
            answer: OffsetCommitResponse = await self._cluster.call(where, request, OffsetCommitResponse, 9)
        except TROUBLE:
            self.where = None
            return ErrorCode.UNKNOWN_SERVER_ERROR
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            self._committed.note((self._group, self._topic, index), self._process.scheduler.now, offset)
        elif code in PASSING:
            self.where = None
        elif code not in FENCED:
            self._process.scheduler.problems.append(f"{self._group}: a commit was refused with {code.name}")
        return code


class Onlooker:
    """Looks again and again at one offset."""

    def __init__(self, process: ClientProcess, offsets: Offsets, index: int) -> None:
        self._process, self._offsets, self._index = process, offsets, index
        self.last = NOTHING
        self.is_stopping = False
        self.active = 1
        process.run(self._run())

    async def _run(self) -> None:
        while not self.is_stopping:
            self.last = await self._offsets.read(self._index)
            await asyncio.sleep(LOOK_SECONDS * self._process.scheduler.rng.random())
        self.last = await self._offsets.read(self._index)
        self.active -= 1


@dataclass(slots=True)
class Owned:
    """Which member has which partition of the topic, and until when that holds if it hears nothing more."""

    by_member: dict[str, tuple[frozenset[int], float]] = field(default_factory=dict)

    def take(self, member: str, partitions: frozenset[int], now: float) -> str | None:
        self.by_member[member] = (partitions, now + SESSION_SECONDS)
        for other, (theirs, until) in self.by_member.items():
            if other != member and until > now and theirs & partitions:
                return f"{member} and {other} both own {sorted(theirs & partitions)}"
        return None


class Member:
    """One member of a group of the newer protocol (KIP-848)."""

    def __init__(self, process: ClientProcess, cluster: Cluster, name: str, offsets: Offsets, owned: Owned) -> None:
        self._process, self._cluster, self._name, self._offsets, self._owned = process, cluster, name, offsets, owned
        self._epoch = JOINS
        self._mine: frozenset[int] = frozenset()
        self._life = 0
        self.is_stopping = False
        self.active = 1
        process.run(self._run())

    @property
    def _id(self) -> str:
        return f"{self._name}-{self._life}"

    async def _run(self) -> None:
        rng = self._process.scheduler.rng
        await self._cluster.refresh()
        while not self.is_stopping:
            for index in sorted(self._mine):
                await self._count_up(index)
            await self._heartbeat()
            if self._mine and rng.random() < 0.03:
                await self._leave()
            await asyncio.sleep(HEARTBEAT_SECONDS * (0.5 + rng.random()))
        self.active -= 1

    async def _count_up(self, index: int) -> None:
        offset = await self._offsets.read(index) + 1
        while index in self._mine:
            code = await self._offsets.commit(index, offset, self._id, self._epoch)
            if code is ErrorCode.NONE or code in FENCED:
                return  # one that is fenced learns what to do about it with its next heartbeat
            await asyncio.sleep(BACKOFF_SECONDS)

    async def _heartbeat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=MEMBERS_GROUP, member_id=self._id, member_epoch=self._epoch, topic_partitions=None
        )
        if self._epoch == JOINS:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 60_000, [self._cluster.topic]
            request.topic_partitions = []
        else:
            mine = TopicPartitions(topic_id=self._cluster.topic_id, partitions=sorted(self._mine))
            request.topic_partitions = [mine] if self._mine else []
        answer = await self._ask(request)
        if answer is None:
            return
        code = ErrorCode(answer.error_code)
        if code in FENCED:
            self._lose_all()
        elif code in PASSING:
            self._offsets.where = None
        elif code is not ErrorCode.NONE:
            self._process.scheduler.problems.append(f"{self._id} was told {code.name}")
        else:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                self._mine = assigned(answer, self._cluster.topic_id)
            self._tell()

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
        try:
            where = await self._offsets.coordinator()
            answer: ConsumerGroupHeartbeatResponse = await self._cluster.call(
                where, request, ConsumerGroupHeartbeatResponse
            )
        except TROUBLE:
            self._offsets.where = None
            return None
        return answer

    def _tell(self) -> None:
        trouble = self._owned.take(self._id, self._mine, self._process.scheduler.now)
        if trouble is not None:
            self._process.scheduler.problems.append(trouble)

    def _lose_all(self) -> None:
        self._epoch, self._mine = JOINS, frozenset()
        self._tell()

    async def _leave(self) -> None:
        leaving = ConsumerGroupHeartbeatRequest(
            group_id=MEMBERS_GROUP, member_id=self._id, member_epoch=LEAVES, topic_partitions=None
        )
        self._lose_all()
        await self._ask(leaving)
        self._life += 1


def assigned(answer: ConsumerGroupHeartbeatResponse, topic_id: UUID) -> frozenset[int]:
    assert answer.assignment is not None
    return frozenset(
        index for each in answer.assignment.topic_partitions if each.topic_id == topic_id for index in each.partitions
    )


def group_parts(
    processes: Sequence[ClientProcess],
    bootstrap: Sequence[Address],
    topic: str,
    known: Known,
) -> list[Member]:
    owned = Owned()
    members = []
    for name, process in zip(MEMBERS, processes, strict=True):
        cluster = Cluster(process, bootstrap, topic)
        offsets = Offsets(process, cluster, MEMBERS_GROUP, topic, known)
        members.append(Member(process, cluster, name, offsets, owned))
    return members
