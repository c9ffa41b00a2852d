"""What a leader makes of its followers' fetches: high watermark, in-sync set, where the log begins."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.replication.leader import DOUBT_MS, IsrChange, Leadership, Neighbours
from moldau.replication.partition import Partition
from moldau.types.errors import ErrorCode, KafkaError
from tests.fakes.waits import OffsetProbe
from tests.support.logs import TOPIC_PARTITION
from tests.support.terms import term

MAX_LAG_MS = 1000
TOPIC_ID = UUID(int=1)


class Cluster:
    """Brokers around broker 1, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.epochs: dict[int, int] = {1: 100, 2: 102, 3: 103}
        self.dead: set[int] = set()
        self.neighbours = Neighbours(
            lambda: self.now_ms, self.epochs.get, lambda broker: broker not in self.dead, lambda: MAX_LAG_MS
        )


class Log:
    def __init__(self, end: int, min_in_sync: int) -> None:
        self.log_end_offset, self.log_start_offset = end, 0
        self.config = SimpleNamespace(min_insync_replicas=min_in_sync, unclean_leader_election_enable=False)

    def begin_epoch(self, epoch: int) -> None: ...

    def flush_required(self) -> bool:
        return False

    def last_stable_offset(self, mark: int) -> int:
        return mark

    def advance_log_start(self, offset: int) -> None:
        self.log_start_offset = offset


ALL = (1, 2, 3)


def led(cluster: Cluster, end: int = 10, isr: tuple[int, ...] = ALL, min_in_sync: int = 1, mark: int = 0) -> Partition:
    one = Partition(TOPIC_PARTITION, TOPIC_ID, 1, cluster.neighbours)
    one.log = cast(Any, Log(end, min_in_sync))
    one.high_watermark = mark
    one.lead(term(1, epoch=5, replicas=ALL, isr=isr, partition_epoch=7))
    return one


def fetch(one: Partition, cluster: Cluster, replica: int, offset: int, start: int = 0) -> IsrChange | None:
    return one.fetched_by(replica, offset, start, cluster.epochs.get(replica, -1))


def leadership(one: Partition) -> Leadership:
    assert one.leadership is not None
    return one.leadership


def grow(one: Partition, end: int) -> None:
    cast(Any, one.log).log_end_offset = end
    one.advance(end)


# --- high watermark ---


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.sets(st.sampled_from((2, 3))),
    st.dictionaries(st.sampled_from((2, 3)), st.integers(0, 50)),
)
def test_the_mark_never_falls_and_never_passes_a_replica_in_sync(
    current: int, end: int, in_sync: set[int], ends: dict[int, int]
) -> None:
    cluster = Cluster()
    one = led(cluster, end=end, isr=(1, *sorted(in_sync)), mark=min(current, end))
    for replica, offset in ends.items():
        fetch(one, cluster, replica, min(offset, end))
    assert min(current, end) <= one.high_watermark <= end
    if one.high_watermark > min(current, end):
        assert all(one.high_watermark <= ends.get(replica, 0) for replica in in_sync)


def test_the_mark_waits_for_who_is_about_to_join() -> None:
    """Else it could be in the in-sync set, by the time the image says so, without what was acknowledged meanwhile."""
    cluster = Cluster()
    one = led(cluster, isr=(1, 2))
    fetch(one, cluster, 2, 10)
    assert one.high_watermark == 10
    change = fetch(one, cluster, 3, 10)
    assert change is not None
    grow(one, 12)
    fetch(one, cluster, 2, 12)
    assert one.high_watermark == 10
    fetch(one, cluster, 3, 11)
    assert one.high_watermark == 11


def test_a_member_that_is_proposed_to_leave_still_counts() -> None:
    cluster = Cluster()
    one = led(cluster)
    cluster.now_ms = MAX_LAG_MS + 1
    fetch(one, cluster, 2, 10)
    change = one.look_at_followers()
    assert change is not None
    assert change.isr == (1, 2)
    assert one.high_watermark == 0
    one.lead(term(1, epoch=5, replicas=ALL, isr=(1, 2), partition_epoch=8))
    assert one.high_watermark == 10


def test_a_caught_up_replica_counts_only_if_it_may_join() -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1, 2))
    fetch(one, cluster, 3, 10)
    del cluster.epochs[3]
    grow(one, 12)
    fetch(one, cluster, 2, 12)
    assert leadership(one).pending is not None
    one.isr_answered(cast(IsrChange, leadership(one).pending), ErrorCode.INELIGIBLE_REPLICA)
    assert one.high_watermark == 12


def test_with_fewer_in_sync_than_asked_for_the_mark_stands() -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1,), min_in_sync=2)
    assert one.high_watermark == 0
    one.lead(term(1, epoch=5, replicas=ALL, isr=(1, 2), partition_epoch=8))
    fetch(one, cluster, 2, 10)
    assert one.high_watermark == 10


def test_progress_of_another_term_is_forgotten() -> None:
    cluster = Cluster()
    one = led(cluster)
    for replica in (2, 3):
        fetch(one, cluster, replica, 8)
    grow(one, 12)
    one.lead(term(1, epoch=6, replicas=ALL, isr=ALL, partition_epoch=8))
    fetch(one, cluster, 2, 12)
    assert one.high_watermark == 8


# --- in-sync set ---


def test_a_follower_joins_only_at_the_start_of_the_epoch() -> None:
    """The mark of a new leader may lag behind what its predecessor acknowledged; all of that is in its log."""
    cluster = Cluster()
    one = led(cluster, end=10, isr=(1,), min_in_sync=2, mark=4)
    assert fetch(one, cluster, 3, 9) is None
    change = fetch(one, cluster, 3, 10)
    assert change == IsrChange(TOPIC_ID, 0, 5, 7, ((1, 100), (3, 103)))


@pytest.mark.parametrize("why", ["unknown or fenced", "another life"])
def test_a_follower_joins_only_in_the_life_that_is_registered(why: str) -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1,))
    if why == "unknown or fenced":
        del cluster.epochs[3]
        assert one.fetched_by(3, 10, 0, 103) is None
    else:
        assert one.fetched_by(3, 10, 0, 99) is None


def test_one_change_at_a_time_and_only_the_image_ends_it() -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1,))
    first = fetch(one, cluster, 2, 10)
    assert first is not None
    assert fetch(one, cluster, 3, 10) is None
    assert not one.isr_answered(first, ErrorCode.NONE)
    assert fetch(one, cluster, 3, 10) is None
    one.lead(term(1, epoch=5, replicas=ALL, isr=(1, 2), partition_epoch=8))
    second = fetch(one, cluster, 3, 10)
    assert second is not None
    assert second.partition_epoch == 8


@pytest.mark.parametrize(
    ("code", "again", "is_over"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, True),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, False),
        (ErrorCode.NOT_CONTROLLER, True, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, False),
    ],
)
def test_what_the_controller_says(code: ErrorCode, again: bool, is_over: bool) -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1,))
    change = fetch(one, cluster, 2, 10)
    assert change is not None
    assert one.isr_answered(change, code) is again
    assert (leadership(one).pending is None) is is_over


def test_a_refusal_decides_nothing_while_another_copy_may_be_under_way() -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1,))
    change = fetch(one, cluster, 2, 10)
    assert change is not None
    one.isr_unanswered(change)
    assert one.isr_answered(change, ErrorCode.INELIGIBLE_REPLICA)
    assert leadership(one).pending is change
    cluster.now_ms += DOUBT_MS
    assert not one.isr_answered(change, ErrorCode.INELIGIBLE_REPLICA)
    assert leadership(one).pending is None


def test_late_news_of_an_older_change_is_ignored() -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1,))
    change = fetch(one, cluster, 2, 10)
    assert change is not None
    other = replace(change, partition_epoch=6)
    assert not one.isr_answered(other, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert leadership(one).pending is change


def test_who_has_all_is_never_too_late_and_who_keeps_up_gets_its_time() -> None:
    cluster = Cluster()
    one = led(cluster)
    for replica in (2, 3):
        fetch(one, cluster, replica, 10)
    cluster.now_ms = 10 * MAX_LAG_MS
    assert one.look_at_followers() is None, "nothing was written: both have all"
    grow(one, 20)
    fetch(one, cluster, 2, 15)
    cluster.now_ms += 10
    fetch(one, cluster, 3, 20)
    grow(one, 30)
    cluster.now_ms += MAX_LAG_MS - 5
    change = one.look_at_followers()
    assert change is not None
    assert change.isr == (1, 3), "2 was last known to hold all a long time ago, 3 just now"


def test_a_follower_that_reaches_the_end_of_its_last_fetch_kept_up_then() -> None:
    cluster = Cluster()
    one = led(cluster, isr=(1, 2))
    for step in range(1, 6):
        cluster.now_ms = step * MAX_LAG_MS * 0.9
        grow(one, 10 * (step + 1))
        fetch(one, cluster, 2, 10 * step)
        assert one.look_at_followers() is None


# --- who may fetch ---


def refused(one: Partition, replica: int, told_epoch: int, broker_epoch: int) -> ErrorCode | None:
    try:
        one.check_follower(replica, told_epoch, broker_epoch)
    except KafkaError as error:
        return error.code
    return None


def test_strangers_and_earlier_lives_are_refused() -> None:
    cluster = Cluster()
    one = led(cluster)
    assert refused(one, 2, 5, 102) is None
    assert refused(one, 9, 5, 109) is ErrorCode.UNKNOWN_LEADER_EPOCH, "its image is ahead of ours"
    assert refused(one, 9, -1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(one, 1, -1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader itself"
    fetch(one, cluster, 2, 10)
    assert refused(one, 2, 5, 101) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.follow(term(2, epoch=6))
    assert refused(one, 2, 6, 102) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_does_not_know_the_latest_offset_before_its_mark_has_come_to_its_epoch() -> None:
    cluster = Cluster()
    one = led(cluster, end=10, isr=(1, 2), mark=4)
    with pytest.raises(KafkaError) as unknown:
        one.check_mark_is_known()
    assert unknown.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    fetch(one, cluster, 2, 10)
    one.check_mark_is_known()


# --- where the log begins ---


def test_records_are_deleted_when_every_replica_that_lives_has_moved_its_start() -> None:
    cluster = Cluster()
    one = led(cluster)
    cast(Any, one.log).log_start_offset = 6
    for replica in (2, 3):
        fetch(one, cluster, replica, 10, start=2)
    wait = OffsetProbe()
    one.start_waits.add(6, wait)
    fetch(one, cluster, 2, 10, start=6)
    assert (wait.told, one.low_watermark()) == ([], 2)
    cluster.dead.add(3)
    one.look_at_followers()
    assert (wait.told, one.low_watermark()) == (["reached"], 6)


def test_a_follower_learns_the_mark_and_the_start_as_far_as_it_has_come() -> None:
    one = Partition(TOPIC_PARTITION, TOPIC_ID, 1)
    one.log = cast(Any, Log(10, 1))
    one.follow(term(2, epoch=6))
    one.learn(15, 12)
    log = cast(Any, one.log)
    assert (one.high_watermark, log.log_start_offset) == (10, 10)
    one.learn(3, 0)
    assert (one.high_watermark, log.log_start_offset) == (10, 10)
