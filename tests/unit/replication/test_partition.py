"""A partition's high watermark and what may be served."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from moldau.replication.partition import Partition
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.waits import FetchProbe, OffsetProbe
from tests.support.terms import term


class LogEnds:
    """The two offsets of a log that a partition reads, and the terms it was told of."""

    def __init__(self, end: int = 0, start: int = 0, min_insync_replicas: int = 1) -> None:
        self.log_end_offset, self.log_start_offset = end, start
        self.config = SimpleNamespace(min_insync_replicas=min_insync_replicas, unclean_leader_election_enable=False)
        self.first_unstable: int | None = None
        self.epochs: list[int] = []
        self.discarded = 0

    def discard_staged(self) -> None:
        self.discarded += 1

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark if self.first_unstable is None else min(self.first_unstable, high_watermark)

    def flush_required(self) -> bool:
        return False

    def begin_epoch(self, leader_epoch: int) -> None:
        self.epochs.append(leader_epoch)


def partition(end: int = 0) -> Partition:
    one = Partition(TopicPartition("t", 0), uuid4(), 1)
    one.log = cast(Any, LogEnds(end))
    return one


def test_alone_in_sync_the_mark_follows_the_log() -> None:
    one = partition(end=7)
    one.lead(term(1, epoch=3, replicas=(1,), isr=(1,)))
    assert one.high_watermark == 7
    one.advance(9)
    assert one.high_watermark == 9


def test_the_log_learns_of_a_term_in_which_nothing_is_written_yet() -> None:
    one = partition()
    one.lead(term(1, epoch=3, replicas=(1,), isr=(1,)))
    assert cast(Any, one.log).epochs == [3]


def test_a_follower_holds_the_mark_until_it_has_fetched() -> None:
    one = partition(end=7)
    one.lead(term(1, epoch=3, isr=(1, 2)))
    assert one.high_watermark == 0
    one.fetched_by(2, 5, 0)
    assert one.high_watermark == 5


def test_waiting_produces_are_told_when_the_mark_passes_them() -> None:
    one = partition()
    one.lead(term(1))
    three, five = OffsetProbe(), OffsetProbe()
    one.produce_waits.add(5, five)
    one.produce_waits.add(3, three)
    one.advance(4)
    assert (three.told, five.told) == (["reached"], [])
    one.advance(5)
    assert (three.told, five.told) == (["reached"], ["reached"])


def test_only_the_leader_serves_and_only_with_a_log() -> None:
    one = partition()
    one.follow(term(2, epoch=4, replicas=(1, 2), isr=(2,)))
    with pytest.raises(KafkaError) as refused:
        one.leader_log()
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.lead(term(1, epoch=5, replicas=(1, 2), isr=(1,)))
    one.log = None
    with pytest.raises(KafkaError) as refused:
        one.leader_log()
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("told", "code"), [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_the_epoch_that_a_client_knows_must_be_ours(told: int, code: ErrorCode | None) -> None:
    one = partition()
    one.lead(term(1, epoch=5, replicas=(1,), isr=(1,)))
    if code is None:
        one.check_epoch(told)
        return
    with pytest.raises(KafkaError) as refused:
        one.check_epoch(told)
    assert refused.value.code == code


def test_a_shorter_log_takes_the_mark_down_with_it() -> None:
    one = partition(end=10)
    one.lead(term(1, epoch=0, replicas=(1,), isr=(1,)))
    one.log = cast(Any, LogEnds(end=6, start=2))
    one.log_truncated()
    assert one.high_watermark == 6


ENDS: dict[str, tuple[Callable[[Partition], None], ErrorCode]] = {
    "another leads": (lambda one: one.follow(term(2, epoch=4)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "nobody leads": (lambda one: one.follow(term(-1, epoch=4)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "elected anew": (lambda one: one.lead(term(1, epoch=4, isr=(1, 2))), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "cut": (Partition.log_truncated, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "log lost": (Partition.lose_log, ErrorCode.KAFKA_STORAGE_ERROR),
    "deleted": (Partition.delete, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_term_ends_every_wait_of_it(end: str) -> None:
    one = partition(end=7)
    one.lead(term(1, epoch=3, isr=(1, 2)))
    log = cast(Any, one.log)
    staged, produce, fetches = OffsetProbe(), OffsetProbe(), [FetchProbe() for _ in range(3)]
    one.staged.append(staged)
    one.produce_waits.add(7, produce)
    one.end_waits.add(fetches[0])
    one.mark_waits.add(fetches[1])
    one.waits_for_stable_records().add(fetches[2])
    finish, code = ENDS[end]
    finish(one)
    assert (staged.told, produce.told) == ([code], [code])
    assert [fetch.woken for fetch in fetches] == [1, 1, 1]
    assert (one.staged, len(one.produce_waits), log.discarded) == ([], 0, 1)


def test_a_term_that_goes_on_with_another_in_sync_set_ends_no_wait() -> None:
    one = partition(end=7)
    one.lead(term(1, epoch=3, isr=(1, 2)))
    staged, produce = OffsetProbe(), OffsetProbe()
    one.staged.append(staged)
    one.produce_waits.add(9, produce)
    one.lead(term(1, epoch=3, isr=(1,)))
    assert (staged.told, produce.told) == ([], [])
    assert one.high_watermark == 7


def test_who_is_refused_sees_the_new_leader() -> None:
    one = partition()
    one.lead(term(1, epoch=3))
    seen: list[tuple[int, int]] = []

    class Curious(OffsetProbe):
        def ended(self, code: ErrorCode) -> None:
            seen.append((one.leader, one.leader_epoch))

    one.produce_waits.add(9, Curious())
    one.follow(term(2, epoch=4))
    assert seen == [(2, 4)]


def test_a_follower_that_goes_on_following_wakes_nobody() -> None:
    one = partition()
    one.follow(term(2, epoch=4, isr=(1, 2)))
    fetch = FetchProbe()
    one.mark_waits.add(fetch)
    one.follow(term(2, epoch=4, isr=(2,)))
    assert fetch.woken == 0


def test_produces_are_refused_when_too_few_replicas_are_left_and_coordinators_wait_on() -> None:
    one = partition()
    one.log = cast(Any, LogEnds(end=7, min_insync_replicas=2))
    one.lead(term(1, isr=(1, 2)))
    produce, coordinator = OffsetProbe(), OffsetProbe(is_patient=True)
    one.produce_waits.add(9, produce)
    one.produce_waits.add(9, coordinator)
    one.lead(term(1, replicas=(1, 2), isr=(1,)))
    assert (produce.told, coordinator.told) == (["starved"], [])
    assert len(one.produce_waits) == 1


def test_each_fetch_is_woken_by_what_it_may_read() -> None:
    """A follower by the log's end, a consumer by the mark, a reader of committed records by the last stable offset."""
    one = partition()
    one.lead(term(1, isr=(1, 2)))
    log = cast(Any, one.log)
    follower, consumer, committed = FetchProbe(), FetchProbe(), FetchProbe()
    one.end_waits.add(follower)
    one.mark_waits.add(consumer)
    one.waits_for_stable_records().add(committed)

    def woken() -> tuple[int, int, int]:
        return follower.woken, consumer.woken, committed.woken

    log.log_end_offset, log.first_unstable = 5, 0
    one.log_grew()
    one.advance(5)
    assert woken() == (1, 0, 0)
    one.fetched_by(2, 5, 0)
    assert woken() == (1, 1, 0)
    log.log_end_offset, log.first_unstable = 6, None
    one.log_grew()
    one.advance(6)
    one.fetched_by(2, 6, 0)
    assert woken() == (2, 2, 1)
    one.end_waits.discard(follower)
    assert one.waiting_fetches == 2
