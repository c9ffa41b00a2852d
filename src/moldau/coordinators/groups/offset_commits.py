"""OffsetCommit, TxnOffsetCommit and OffsetFetch: who may store offsets for a group, and what is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.offset_codec import CommittedOffset, commit_record
from moldau.coordinators.groups.sessions import Sessions
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import ProducerStamp, StateRecord, Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID

BY_THE_BROKERS_RETENTION = -1
NO_GENERATION = -1
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


class OffsetCommits:
    def __init__(self, tables: GroupTables, sessions: Sessions) -> None:
        self._tables = tables
        self._sessions = sessions

    def commit(self, commit: OffsetCommit, now: float) -> Write[list[ErrorCode]]:
        """Gives one code for each offset, in their order."""
        group = self._tables.groups.get(commit.group_id)
        if group is None:
            if commit.generation >= 0:
                unknown = commit.api_version >= GROUP_ID_NOT_FOUND_FROM
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.ILLEGAL_GENERATION)
        else:
            group.check_commit(
                commit.member_id,
                commit.instance_id,
                commit.generation,
                commit.api_version,
                is_transactional=False,
                partitions=commit.offsets,
            )
        if isinstance(group, ClassicGroup):
            self._heard_of(group, commit.member_id, now)
        records, codes = self._records(commit)
        return Write(codes, records)

    def commit_in_transaction(
        self, commit: OffsetCommit, producer: ProducerStamp, now: float
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
        records, codes = self._records(commit)
        return Write(codes, records, producer=producer)

    def _heard_of(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """A commit is as good as a heartbeat."""
        member = group.members.get(member_id)
        if member is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._sessions.expect(group, member, now)

    def _records(self, commit: OffsetCommit) -> tuple[list[StateRecord], list[ErrorCode]]:
        now_ms = self._tables.wall_ms()
        limit = self._tables.config().offset_metadata_max_bytes
        expiry = NO_TIMESTAMP if commit.retention_ms == BY_THE_BROKERS_RETENTION else now_ms + commit.retention_ms
        records, codes = [], []
        for wanted in commit.offsets:
            metadata = wanted.metadata or ""
            if java_length(metadata) > limit:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            offset = CommittedOffset(wanted.offset, wanted.leader_epoch, metadata, now_ms, expiry, wanted.topic_id)
            records.append(commit_record(commit.group_id, wanted.topic, wanted.partition, offset))
            codes.append(ErrorCode.NONE)
        return records, codes

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
