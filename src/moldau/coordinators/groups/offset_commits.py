"""OffsetCommit, TxnOffsetCommit and OffsetFetch: who may store offsets for a group, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.offset_codec import CommittedOffset, commit_record, packed_topic_id
from moldau.coordinators.groups.offsets import TopicOffsets
from moldau.coordinators.groups.sessions import Sessions
from moldau.coordinators.groups.tables import CommittedPartition, GroupTables
from moldau.coordinators.machine import ProducerStamp, StateRecord, Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID
from moldau.work.slices import Work, at_once, pauses

BY_THE_BROKERS_RETENTION = -1
#: Before, clients did not know that a group may be missing.
GROUP_ID_NOT_FOUND_FROM = 9


class WantedOffset(NamedTuple):
    """One partition of a commit; it exists."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class OffsetCommit(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    api_version: int
    offsets: Sequence[WantedOffset]
    retention_ms: int = BY_THE_BROKERS_RETENTION


class PackedOffsets(NamedTuple):
    """A commit whose records stand in a batch already; it keeps to the brokers' retention."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    api_version: int
    offsets: TopicOffsets
    """What the records say."""


class PackedPlace(NamedTuple):
    topic_id: UUID
    partition: int


@dataclass(slots=True)
class PreparedOffsets:
    """What a commit would write. It is made before anybody asks whether it may be written: that can take turns."""

    codes: list[ErrorCode] = field(default_factory=list)
    """One for each offset, in their order."""
    records: list[StateRecord] = field(default_factory=list)
    offsets: TopicOffsets = field(default_factory=dict)
    """What the records say."""


class FetchedOffset(NamedTuple):
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    topic: str
    partitions: list[FetchedOffset]


class WantedTopic(NamedTuple):
    topic: str
    #: Zero if the client asks by name.
    topic_id: UUID
    partitions: Sequence[int]


class OffsetFetch(NamedTuple):
    group_id: str
    topics: Sequence[WantedTopic] | None
    """None asks for all that the group has committed."""
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_EPOCH


def prepare(commit: OffsetCommit, now_ms: int, metadata_limit: int) -> Work[PreparedOffsets]:
    expiry = NO_TIMESTAMP if commit.retention_ms == BY_THE_BROKERS_RETENTION else now_ms + commit.retention_ms
    ready, paused = PreparedOffsets(), pauses()
    for topic, topic_id, partition, offset, leader_epoch, metadata in commit.offsets:
        if next(paused):
            yield
        if metadata and java_length(metadata) > metadata_limit:
            ready.codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expiry, topic_id)
        record = commit_record(commit.group_id, topic, partition, committed)
        assert record.value is not None
        ready.records.append(record)
        ready.offsets.setdefault(topic, {})[partition] = record.value
        ready.codes.append(ErrorCode.NONE)
    return ready


def packed_places(offsets: TopicOffsets) -> Iterator[PackedPlace]:
    for partitions in offsets.values():
        for partition, value in partitions.items():
            yield PackedPlace(packed_topic_id(value), partition)


def give_a_group(tables: GroupTables, group_id: str) -> None:
    """Offsets may be committed without joining: their group exists, and has no members."""
    if group_id not in tables.groups:
        tables.groups[group_id] = ClassicGroup(group_id)


class OffsetCommits:
    def __init__(self, tables: GroupTables, sessions: Sessions) -> None:
        self._tables = tables
        self._sessions = sessions

    def commit(
        self, commit: OffsetCommit, now: float, prepared: PreparedOffsets | None = None
    ) -> Write[list[ErrorCode]]:
        """Gives one code for each offset, in their order."""
        self._admit(commit, commit.offsets, now)
        ready = self._prepared(commit) if prepared is None else prepared
        if commit.retention_ms != BY_THE_BROKERS_RETENTION or not ready.records:
            return Write(ready.codes, ready.records)  # such records do not say all that was asked for

        def effect() -> None:
            self._tables.offsets.commit(commit.group_id, ready.offsets)
            give_a_group(self._tables, commit.group_id)

        return Write(ready.codes, ready.records, effect=effect)

    def commit_packed(self, commit: PackedOffsets, now: float) -> Callable[[], None]:
        """Gives what replaying the records would do."""
        self._admit(commit, packed_places(commit.offsets), now)

        def effect() -> None:
            self._tables.offsets.commit(commit.group_id, commit.offsets)
            give_a_group(self._tables, commit.group_id)

        return effect

    def _admit(
        self, commit: OffsetCommit | PackedOffsets, partitions: Iterable[CommittedPartition], now: float
    ) -> None:
        """Raises KafkaError if this member may not commit these, and takes it as a sign of life if it may."""
        group = self._tables.groups.get(commit.group_id)
        if group is None:
            if commit.generation >= 0:
                unknown = commit.api_version >= GROUP_ID_NOT_FOUND_FROM
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.ILLEGAL_GENERATION)
            return
        group.check_commit(
            commit.member_id,
            commit.instance_id,
            commit.generation,
            commit.api_version,
            is_transactional=False,
            partitions=partitions,
        )
        if isinstance(group, ClassicGroup):
            self._heard_of(group, commit.member_id, now)

    def commit_in_transaction(
        self, commit: OffsetCommit, producer: ProducerStamp, now: float, prepared: PreparedOffsets | None = None
    ) -> Write[list[ErrorCode]]:
        """The offsets count when the producer's transaction is committed."""
        group = self._tables.groups.get(commit.group_id)
        if group is None:
            if commit.generation >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        else:
            group.check_commit(
                commit.member_id,
                commit.instance_id,
                commit.generation,
                commit.api_version,
                is_transactional=True,
                partitions=commit.offsets,
            )
        ready = self._prepared(commit) if prepared is None else prepared
        if not ready.records:
            return Write(ready.codes)

        def effect() -> None:
            self._tables.offsets.commit_in_transaction(producer.producer_id, commit.group_id, ready.offsets)
            give_a_group(self._tables, commit.group_id)

        return Write(ready.codes, ready.records, producer=producer, effect=effect)

    def _heard_of(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """A commit is as good as a heartbeat."""
        member = group.members.get(member_id)
        if member is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._sessions.expect(group, member, now)

    def _prepared(self, commit: OffsetCommit) -> PreparedOffsets:
        tables = self._tables
        return at_once(prepare(commit, tables.wall_ms(), tables.config().offset_metadata_max_bytes))

    # --- reading ---

    def committed(self, fetch: OffsetFetch) -> list[WantedTopic]:
        """What the group has committed: to be fetched by name, a part at a time."""
        self._check(fetch)
        topics = self._tables.offsets.committed.get(fetch.group_id, {})
        return [WantedTopic(topic, ZERO_TOPIC_ID, list(partitions)) for topic, partitions in topics.items()]

    def fetch(self, fetch: OffsetFetch) -> list[FetchedTopic]:
        self._check(fetch)
        return [
            FetchedTopic(wanted.topic, [self._fetch_one(fetch, wanted, index) for index in wanted.partitions])
            for wanted in (self.committed(fetch) if fetch.topics is None else fetch.topics)
        ]

    def _check(self, fetch: OffsetFetch) -> None:
        group = self._tables.groups.get(fetch.group_id)
        if group is not None:
            group.check_fetch(fetch.member_id, fetch.member_epoch)

    def _fetch_one(self, fetch: OffsetFetch, wanted: WantedTopic, index: int) -> FetchedOffset:
        offsets = self._tables.offsets
        if fetch.require_stable and offsets.is_pending(fetch.group_id, wanted.topic, index):
            return FetchedOffset(index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        found = offsets.get(fetch.group_id, wanted.topic, index)
        if found is None or found.is_of_another_topic(wanted.topic_id):
            return FetchedOffset(index)
        return FetchedOffset(index, found.offset, found.leader_epoch, found.metadata)


def java_length(text: str) -> int:
    """The length of a Java string: in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
