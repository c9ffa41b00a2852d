"""Consumer groups: their offsets translated, written as checkpoints, and committed where they idle in the target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.client.errors import ClientError
from moldau.client.states import StateReader
from moldau.mirror.formats import Checkpoint, ForeignRecord, OffsetSync
from moldau.mirror.progress import Shared
from moldau.mirror.settings import Flow
from moldau.mirror.translating import Translation, is_newer, to_commit
from moldau.mirror.writing import produce
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.wire.records import Record

IDLE: Final = ("Empty", "Dead", "")
CONSUMERS: Final = ("consumer", "")
"""What groups of consumers call their protocol; one that only commits has none."""

log = logging.getLogger(__name__)
T = TypeVar("T")

Committed = dict[TopicPartition, tuple[int, str]]
"""Offset and metadata."""


class Groups:
    def __init__(
        self, flow: Flow, shared: Shared, source: Cluster, target: Cluster, reverse: Flow | None = None
    ) -> None:
        """`reverse`: the flow the other way round. What groups have read of its copies, they have read of its source,
        which is this flow's target."""
        self._flow = flow
        self._shared = shared
        self._source = source
        self._target = target
        self._syncs = StateReader(target if flow.syncs_in_target else source, flow.syncs_topic, [0])
        self._back = None
        if reverse is not None:
            self._back = StateReader(source if reverse.syncs_in_target else target, reverse.syncs_topic, [0])
        self._backwards: dict[TopicPartition, Translation] = {}
        self._written = StateReader(target, flow.policy.checkpoints(flow.source), [0])
        self._translations: dict[TopicPartition, Translation] = {}
        self._checkpoints: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._names: list[str] = []

    def refresh(self) -> None:
        """Which groups have read what is copied."""
        names = [name for name in consumer_groups(self._source) if name in self._flow.groups]
        self._names = [
            name
            for name in names
            if any(self._concerns(place.topic) for place in committed_offsets(self._source, name))
        ]
        self._shared.groups = len(self._names)

    def checkpoint(self, now_ms: int) -> list[Checkpoint]:
        """Translates, and writes what has moved."""
        self._learn()
        records, found = [], []
        for name in self._names:
            known = self._checkpoints.setdefault(name, {})
            for each in self._translated(name):
                if is_newer(each, known.get(each.place)):
                    known[each.place] = each
                    found.append(each)
                    records.append(Record(each.value(), each.key(), now_ms))
        if records:
            topic = self._flow.policy.checkpoints(self._flow.source)
            produce(self._target, TopicPartition(topic, 0), records)
        self._shared.checkpoints += len(records)
        return found

    def commit(self) -> int:
        """Moves the groups in the target that nobody reads with; returns how many offsets were committed."""
        count = 0
        for name, checkpoints in self._checkpoints.items():
            if not checkpoints or not is_idle(self._target, name):
                continue
            there = {place: offset for place, (offset, _) in committed_offsets(self._target, name).items()}
            wanted = to_commit(checkpoints, there)
            try:
                commit_offsets(self._target, name, wanted.values())
                count += len(wanted)
            except (ClientError, KafkaError) as error:
                log.warning("%s: offsets of group %s could not be committed: %s", self._flow.name, name, error)
        return count

    def _concerns(self, topic: str) -> bool:
        return topic in self._flow.topics or self._home(topic) is not None

    def _home(self, topic: str) -> str | None:
        """What a topic is called in the target, if it came from there."""
        policy = self._flow.policy
        if policy.keeps_names or policy.origin(topic) != self._flow.target:
            return None
        home = policy.upstream(topic)
        return home if home is not None and (topic in self._flow.topics or home in self._flow.topics) else None

    def _learn(self) -> None:
        for record in self._written.new():
            try:
                if record.key is not None and record.value is not None:
                    found = Checkpoint.read(record.key, record.value)
                    self._checkpoints.setdefault(found.group, {}).setdefault(found.place, found)
            except ForeignRecord as error:
                log.warning("%s: a record of the checkpoints' topic is none: %s", self._flow.name, error)
        self._learn_syncs(self._syncs, self._translations)
        if self._back is not None and self._back.exists():
            self._learn_syncs(self._back, self._backwards)

    def _learn_syncs(self, reader: StateReader, translations: dict[TopicPartition, Translation]) -> None:
        for record in reader.new():
            try:
                if record.key is not None and record.value is not None:
                    sync = OffsetSync.read(record.key, record.value, record.headers)
                    translations.setdefault(sync.place, Translation()).add(sync)
            except ForeignRecord as error:
                log.warning("%s: a record of the offset syncs' topic is none: %s", self._flow.name, error)

    def _translated(self, group: str) -> Iterable[Checkpoint]:
        for place, (offset, metadata) in committed_offsets(self._source, group).items():
            found = self._home_of(place, offset) or self._copy_of(place, offset)
            if found is not None:
                yield Checkpoint(group, found[0], offset, found[1], metadata)

    def _copy_of(self, place: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        translation = self._translations.get(place)
        if translation is None or not self._flow.copies(place.topic):
            return None
        found = translation.translate(offset)
        return None if found is None else (TopicPartition(self._flow.remote(place.topic), place.partition), found)

    def _home_of(self, place: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        home = self._home(place.topic)
        if home is None:
            return None
        there = TopicPartition(home, place.partition)
        translation = self._backwards.get(there)
        found = None if translation is None else translation.back(offset)
        return None if found is None else (there, found)


# -- requests --------------------------------------------------------------------------------------------------------


def consumer_groups(cluster: Cluster) -> list[str]:
    found = set()
    cluster.metadata([])
    for broker in cluster.broker_ids():
        answer = cluster.retrying(partial(listed, cluster, broker))
        found |= {group.group_id for group in answer.groups if group.protocol_type in CONSUMERS}
    return sorted(found)


def listed(cluster: Cluster, broker: int) -> ListGroupsResponse:
    answer = cluster.to_broker(broker, ListGroupsRequest(), ListGroupsResponse)
    check(answer.error_code, "the list of groups")
    return answer


def to_group(cluster: Cluster, group: str, ask: Callable[[], T]) -> T:
    def once() -> T:
        try:
            return ask()
        except KafkaError:
            cluster.forget_coordinator(CoordinatorKind.GROUP, group)
            raise

    return cluster.retrying(once)


def committed_offsets(cluster: Cluster, group: str) -> Committed:
    """What the group has committed, of all topics."""

    def ask() -> Committed:
        request = OffsetFetchRequest(
            group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
        )
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, group, request, OffsetFetchResponse, max_version=9)
        check(answer.error_code, f"offsets of group {group}")
        topics: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = [*answer.topics]
        for each in answer.groups:
            if each.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            check(each.error_code, f"offsets of group {group}")
            topics += each.topics
        return {
            TopicPartition(topic.name, part.partition_index): (part.committed_offset, part.metadata or "")
            for topic in topics
            for part in topic.partitions
            if part.committed_offset >= 0 and not part.error_code
        }

    return to_group(cluster, group, ask)


def is_idle(cluster: Cluster, group: str) -> bool:
    def ask() -> str:
        request = DescribeGroupsRequest(groups=[group])
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, group, request, DescribeGroupsResponse)
        (found,) = answer.groups
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return ""
        check(found.error_code, f"group {group}")
        return str(found.group_state)

    return to_group(cluster, group, ask) in IDLE


def commit_offsets(cluster: Cluster, group: str, checkpoints: Iterable[Checkpoint]) -> None:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for each in checkpoints:
        topics.setdefault(each.place.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=each.place.partition,
                committed_offset=each.downstream,
                committed_metadata=each.metadata,
            )
        )
    if not topics:
        return
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )

    def ask() -> None:
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, group, request, OffsetCommitResponse, max_version=9)
        for topic in answer.topics:
            for part in topic.partitions:
                check(part.error_code, f"{topic.name}-{part.partition_index} of group {group}")

    to_group(cluster, group, ask)
