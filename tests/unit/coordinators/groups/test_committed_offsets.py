"""Offsets: who may commit, what is fetched, transactions, deletion, expiry."""

from __future__ import annotations

from uuid import UUID

import pytest

from moldau.coordinators.groups import offset_removal
from moldau.coordinators.groups.classic_group import ClassicGroup
from moldau.coordinators.machine import ProducerStamp, Write
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_OFFSET, TopicPartition
from tests.fakes.group_shard import GroupShard, outcome
from tests.fakes.group_steps import joined, settled, state

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PRODUCER, OTHER = ProducerStamp(7, 0), ProducerStamp(8, 0)
MINUTE = 60.0
#: Version 0 of a consumer's subscription to topic "a".
SUBSCRIBED_TO_A = b"\x00\x00\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff"


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)


def committed(shard: GroupShard, offsets: dict[TopicPartition, int], **how: object) -> object:
    answer = shard.commit(offsets, **how)  # type: ignore[arg-type]
    shard.log.commit()
    return outcome(answer)


# --- committing ---


def test_offsets_are_committed_without_joining(shard: GroupShard) -> None:
    assert committed(shard, {A0: 5, B0: 6}) == [ErrorCode.NONE, ErrorCode.NONE]
    assert shard.fetch(A0, B0, A1) == {A0: 5, B0: 6, A1: NO_OFFSET}
    assert shard.fetch() == {A0: 5, B0: 6}
    assert state(shard) == "Empty"
    assert shard.machine.tables.groups["group"].protocol_type == ""


def test_an_offset_is_told_when_it_is_safe(shard: GroupShard) -> None:
    answer = shard.commit({A0: 5})
    assert outcome(answer) is None
    shard.log.commit()
    assert outcome(answer) == [ErrorCode.NONE]


def test_offsets_survive_a_crash_if_they_were_acknowledged(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    shard.commit({A0: 6})
    shard.crash()
    assert shard.fetch(A0) == {A0: 5}
    assert state(shard) == "Empty"


def test_an_offset_that_is_lost_is_rolled_back(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    answer = shard.commit({A0: 6})
    shard.log.lose()
    assert outcome(answer) is ErrorCode.NOT_COORDINATOR
    assert shard.fetch(A0) == {A0: 5}


def test_metadata_has_a_limit(shard: GroupShard) -> None:
    limit = shard.config.offset_metadata_max_bytes
    assert committed(shard, {A0: 1}, metadata="x" * limit) == [ErrorCode.NONE]
    assert committed(shard, {A0: 2}, metadata="x" * (limit + 1)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert shard.fetch(A0) == {A0: 1}


def test_null_metadata_is_empty(shard: GroupShard) -> None:
    committed(shard, {A0: 1}, metadata=None)
    found = shard.machine.tables.offsets.get("group", "a", 0)
    assert found is not None
    assert found.metadata == ""


def test_members_commit_at_their_generation(shard: GroupShard) -> None:
    first = joined(shard)
    member = {"member_id": first.member_id, "generation": 1}
    assert committed(shard, {A0: 1}, **member) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.sync(first.member_id, 1)
    shard.log.commit()
    assert committed(shard, {A0: 1}, **member) == [ErrorCode.NONE]
    assert committed(shard, {A0: 2}, member_id=first.member_id, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert committed(shard, {A0: 2}, member_id="nobody", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(shard, {A0: 2}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(shard, {A0: 2}, member_id=first.member_id) is ErrorCode.ILLEGAL_GENERATION
    assert shard.fetch(A0) == {A0: 1}


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_nobody_commits_at_a_generation_of_a_missing_group(shard: GroupShard, version: int, code: ErrorCode) -> None:
    assert committed(shard, {A0: 1}, generation=1, version=version) is code
    assert shard.machine.tables.groups == {}


def test_offsets_of_a_topic_that_was_created_anew_do_not_count(shard: GroupShard) -> None:
    committed(shard, {A0: 5}, topic_id=UUID(int=1))
    assert shard.fetch(A0, topic_id=UUID(int=2)) == {A0: NO_OFFSET}
    assert shard.fetch(A0, topic_id=UUID(int=1)) == {A0: 5}
    assert shard.fetch(A0) == {A0: 5}


# --- transactions ---


def test_offsets_of_a_transaction_count_when_it_is_committed(shard: GroupShard) -> None:
    committed(shard, {A0: 1})
    assert committed(shard, {A0: 5, A1: 6}, producer=PRODUCER) == [ErrorCode.NONE, ErrorCode.NONE]
    assert shard.fetch(A0, A1) == {A0: 1, A1: NO_OFFSET}
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert shard.fetch(A0, A1, B0, stable=True) == {A0: unstable, A1: unstable, B0: NO_OFFSET}
    shard.end_transaction(PRODUCER, True)
    assert shard.fetch(A0, A1, stable=True) == {A0: 5, A1: 6}


def test_offsets_of_an_aborted_transaction_never_count(shard: GroupShard) -> None:
    committed(shard, {A0: 5}, producer=PRODUCER)
    shard.end_transaction(PRODUCER, False)
    assert shard.fetch(A0, stable=True) == {A0: NO_OFFSET}


def test_of_two_commits_the_later_written_counts_whichever_ends_first(shard: GroupShard) -> None:
    committed(shard, {A0: 1}, producer=PRODUCER)
    committed(shard, {A0: 2}, producer=OTHER)
    shard.end_transaction(OTHER, True)
    shard.end_transaction(PRODUCER, True)
    assert shard.fetch(A0) == {A0: 2}
    committed(shard, {A0: 3}, producer=PRODUCER)
    committed(shard, {A0: 4})
    shard.end_transaction(PRODUCER, True)
    assert shard.fetch(A0) == {A0: 4}
    shard.crash()
    assert shard.fetch(A0) == {A0: 4}


def test_open_transactions_survive_a_crash(shard: GroupShard) -> None:
    committed(shard, {A0: 5}, producer=PRODUCER)
    shard.crash()
    assert shard.fetch(A0, stable=True) == {A0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    shard.end_transaction(PRODUCER, True)
    assert shard.fetch(A0, stable=True) == {A0: 5}


def test_a_transaction_may_commit_while_the_group_completes_its_rebalance(shard: GroupShard) -> None:
    first = joined(shard)
    how = {"member_id": first.member_id, "generation": 1, "producer": PRODUCER}
    assert committed(shard, {A0: 5}, **how) == [ErrorCode.NONE]
    assert committed(shard, {A0: 5}, generation=3, group="missing", producer=PRODUCER) is ErrorCode.ILLEGAL_GENERATION
    assert committed(shard, {A0: 5}, producer=PRODUCER) == [ErrorCode.NONE]


# --- deletion ---


def delete(shard: GroupShard, *partitions: TopicPartition, group: str = "group") -> object:
    answer = shard.write(lambda machine, now: machine.removal.delete_offsets(group, partitions))
    shard.log.commit()
    return outcome(answer)


def delete_group(shard: GroupShard, group: str = "group") -> object:
    answer = shard.write(lambda machine, now: narrowed(machine.removal.delete_group(group)))
    shard.log.commit()
    return outcome(answer)


def narrowed(write: Write[None]) -> Write[str]:
    return Write("deleted", write.records)


def test_offsets_are_deleted_by_request(shard: GroupShard) -> None:
    committed(shard, {A0: 5, A1: 6})
    assert delete(shard, A0, B0) == [ErrorCode.NONE, ErrorCode.NONE]
    assert shard.fetch() == {A1: 6}
    shard.crash()
    assert shard.fetch() == {A1: 6}


def test_offsets_of_subscribed_topics_are_kept(shard: GroupShard) -> None:
    committed(shard, {A0: 5, B0: 6})
    settled(shard, protocols={"range": SUBSCRIBED_TO_A})
    assert delete(shard, A0, B0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_offsets_of_groups_that_do_not_consume_are_kept_while_they_have_members(shard: GroupShard) -> None:
    settled(shard, kind="connect")
    assert delete(shard, A0) is ErrorCode.NON_EMPTY_GROUP
    assert delete(shard, A0, group="missing") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_with_its_offsets(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    committed(shard, {A1: 5}, producer=PRODUCER)
    assert delete_group(shard) == "deleted"
    assert delete_group(shard) is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.fetch(A0) == {A0: NO_OFFSET}
    shard.end_transaction(PRODUCER, True)
    assert shard.fetch(A1) == {A1: NO_OFFSET}
    shard.crash()
    assert shard.machine.tables.groups == {}
    assert shard.fetch(A0, A1) == {A0: NO_OFFSET, A1: NO_OFFSET}


def test_a_group_with_members_is_not_deleted(shard: GroupShard) -> None:
    first = settled(shard)
    assert delete_group(shard) is ErrorCode.NON_EMPTY_GROUP
    shard.leave(first.member_id)
    assert delete_group(shard) == "deleted"


def test_offsets_go_with_their_topic(shard: GroupShard) -> None:
    committed(shard, {A0: 5, B0: 6}, topic_id=UUID(int=1))
    committed(shard, {A1: 7}, group="other", topic_id=UUID(int=1))
    committed(shard, {TopicPartition("a", 2): 8}, producer=PRODUCER, topic_id=UUID(int=1))
    shard.write(lambda machine, now: machine.removal.topics_deleted({"a": UUID(int=1)}, now))
    shard.log.commit()
    shard.end_transaction(PRODUCER, True)
    assert shard.fetch() == {B0: 6}
    assert shard.fetch(group="other") == {}
    shard.crash()
    assert shard.fetch() == {B0: 6}


def test_offsets_of_a_topic_created_anew_stay(shard: GroupShard) -> None:
    committed(shard, {A0: 5}, topic_id=UUID(int=2))
    shard.write(lambda machine, now: machine.removal.topics_deleted({"a": UUID(int=1)}, now))
    shard.log.commit()
    assert shard.fetch() == {A0: 5}


def test_many_offsets_of_a_deleted_topic_go_in_batches(shard: GroupShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_removal, "OFFSETS_PER_LOOK", 3)
    committed(shard, {TopicPartition("a", index): 1 for index in range(10)})
    shard.write(lambda machine, now: machine.removal.topics_deleted({"a": UUID(int=1)}, now))
    shard.log.commit()
    assert len(shard.fetch()) == 7
    shard.pass_time(0)
    assert shard.fetch() == {}


def test_topics_that_are_deleted_while_a_shard_loads_are_remembered(shard: GroupShard) -> None:
    committed(shard, {A0: 5, B0: 6})
    shard.runtime.end(0)
    shard.shard = shard.runtime.begin(0, 2, shard.log)
    shard.machine.removal.deleted_while_loading["a"] = UUID(int=1)
    for each in shard.log.contents():
        assert isinstance(each, tuple)
        shard.machine.replay(*each)  # type: ignore[arg-type]
    shard.runtime.loaded(shard.shard)
    shard.pass_time(0)
    assert shard.fetch() == {B0: 6}


# --- expiry ---


def test_offsets_of_a_group_without_members_expire_after_their_last_commit(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    shard.pass_time(5 * MINUTE)
    committed(shard, {A1: 6})
    shard.pass_time(5 * MINUTE)
    assert shard.fetch() == {A1: 6}
    shard.pass_time(6 * MINUTE)
    assert shard.fetch() == {}
    assert shard.machine.tables.groups == {}
    shard.crash()
    assert shard.machine.tables.groups == {}


def test_offsets_of_a_group_that_everybody_left_expire_after_that(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    first = settled(shard, session_ms=1_000_000)
    shard.pass_time(9 * MINUTE)
    shard.leave(first.member_id)
    shard.log.commit()
    shard.pass_time(9 * MINUTE)
    assert shard.fetch() == {A0: 5}
    shard.pass_time(2 * MINUTE)
    assert shard.machine.tables.groups == {}


def test_members_keep_the_offsets_of_what_they_read(shard: GroupShard) -> None:
    committed(shard, {A0: 5, B0: 6})
    settled(shard, session_ms=1_700_000, protocols={"range": SUBSCRIBED_TO_A})
    shard.pass_time(20 * MINUTE)
    assert shard.fetch() == {A0: 5}


def test_nothing_expires_in_groups_whose_subscriptions_are_not_known(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    settled(shard, session_ms=1_700_000, kind="connect", protocols={"v1": b"?"})
    shard.pass_time(20 * MINUTE)
    assert shard.fetch() == {A0: 5}


def test_an_offset_may_bring_its_own_retention(shard: GroupShard) -> None:
    committed(shard, {A0: 5}, retention_ms=60_000)
    committed(shard, {B0: 5}, retention_ms=20 * 60_000)
    shard.crash()
    shard.pass_time(2 * MINUTE)
    assert shard.fetch() == {B0: 5}
    shard.pass_time(15 * MINUTE)
    assert shard.fetch() == {B0: 5}


def test_offsets_with_an_open_transaction_do_not_expire(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    committed(shard, {A0: 6}, producer=PRODUCER)
    shard.pass_time(20 * MINUTE)
    shard.end_transaction(PRODUCER, False)
    assert shard.fetch() == {A0: 5}


def test_expired_offsets_go_in_batches(shard: GroupShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_removal, "OFFSETS_PER_LOOK", 3)
    committed(shard, {TopicPartition("a", index): 1 for index in range(10)})
    committed(shard, {A0: 1}, group="other")
    shard.pass_time(11 * MINUTE)
    assert shard.machine.tables.groups == {}
    tombstones = [entry for entry in shard.log.committed if entry.record.value is None]  # type: ignore[union-attr]
    assert len(tombstones) == 13


def test_a_group_that_expires_between_two_joins_is_created_anew(shard: GroupShard) -> None:
    committed(shard, {A0: 5})
    shard.pass_time(11 * MINUTE)
    committed(shard, {A0: 6})
    assert isinstance(shard.machine.tables.groups["group"], ClassicGroup)
    assert shard.fetch() == {A0: 6}
