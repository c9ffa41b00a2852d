"""A partition's high watermark and what may be served."""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.replication.high_watermark import high_watermark
from moldau.replication.partition import Partition
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition


class LogEnds:
    """The two offsets of a log that a partition reads, and the terms it was told of."""

    def __init__(self, end: int = 0, start: int = 0) -> None:
        self.log_end_offset, self.log_start_offset = end, start
        self.epochs: list[int] = []

    def begin_epoch(self, leader_epoch: int) -> None:
        self.epochs.append(leader_epoch)


def partition(end: int = 0) -> Partition:
    one = Partition(TopicPartition("t", 0), uuid4(), 1)
    one.log = cast(Any, LogEnds(end))
    return one


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.lists(st.integers(1, 4), unique=True),
    st.dictionaries(st.integers(1, 4), st.integers(0, 50)),
)
def test_the_mark_never_falls_and_never_passes_a_replica_in_sync(
    current: int, local_end: int, in_sync: list[int], follower_ends: dict[int, int]
) -> None:
    mark = high_watermark(current, local_end, in_sync, 1, follower_ends)
    assert mark >= current
    if mark > current:
        for replica in in_sync:
            assert mark <= (local_end if replica == 1 else follower_ends.get(replica, 0))


def test_alone_in_sync_the_mark_follows_the_log() -> None:
    one = partition(end=7)
    one.lead(3, (1,), (1,))
    assert one.high_watermark == 7
    one.advance(9)
    assert one.high_watermark == 9


def test_the_log_learns_of_a_term_in_which_nothing_is_written_yet() -> None:
    one = partition()
    one.lead(3, (1,), (1,))
    assert cast(Any, one.log).epochs == [3]


def test_the_leader_itself_and_strangers_are_not_followers() -> None:
    one = partition()
    one.lead(3, (1, 2), (1,))
    assert [replica for replica in (-1, 1, 2, 99) if one.is_follower(replica)] == [2]


def test_a_follower_holds_the_mark_until_it_has_fetched() -> None:
    one = partition(end=7)
    one.lead(3, (1, 2), (1, 2))
    assert one.high_watermark == 0
    one.follower_ends[2] = 5
    one.advance(7)
    assert one.high_watermark == 5


def test_waiting_produces_are_told_when_the_mark_passes_them() -> None:
    one = partition()
    one.lead(0, (1,), (1,))
    told: list[str] = []
    one.produce_waits.add(3, lambda: told.append("three"))
    one.produce_waits.add(5, lambda: told.append("five"))
    one.advance(4)
    assert told == ["three"]
    one.advance(5)
    assert told == ["three", "five"]


def test_only_the_leader_serves_and_only_with_a_log() -> None:
    one = partition()
    one.follow(2, 4, (1, 2), (2,))
    with pytest.raises(KafkaError) as refused:
        one.leader_log()
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.lead(5, (1, 2), (1,))
    one.log = None
    with pytest.raises(KafkaError) as refused:
        one.leader_log()
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("told", "code"), [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_the_epoch_that_a_client_knows_must_be_ours(told: int, code: ErrorCode | None) -> None:
    one = partition()
    one.lead(5, (1,), (1,))
    if code is None:
        one.check_epoch(told)
        return
    with pytest.raises(KafkaError) as refused:
        one.check_epoch(told)
    assert refused.value.code == code


def test_a_shorter_log_takes_the_mark_down_with_it() -> None:
    one = partition(end=10)
    one.lead(0, (1,), (1,))
    one.log = cast(Any, LogEnds(end=6, start=2))
    one.log_truncated()
    assert one.high_watermark == 6
