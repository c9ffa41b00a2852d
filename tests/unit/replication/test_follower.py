"""What a follower asks for, and what it makes of the answers."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from moldau.replication.follower import (
    FIRST_BACKOFF_MS,
    MOST_NAMED,
    Action,
    Cut,
    FetchPlan,
    FetchSettings,
    Restart,
    Take,
    truncation_point,
)
from moldau.replication.partition import Partition
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.fakes.model_log import ModelLog
from tests.fakes.mutations import MUTATIONS
from tests.support.terms import term

TOPIC_ID = UUID(int=9)
SESSION = 77


def followed(index: int = 0, epoch: int = 5, entries: tuple[int, ...] = ()) -> Partition:
    """A partition that follows broker 2; of its records the epochs are given."""
    one = Partition(TopicPartition("t", index), TOPIC_ID, 1)
    log = ModelLog(1)
    for value, written_in in enumerate(entries):
        log.append(written_in, value)
    one.log = cast(Any, log)
    one.follow(term(2, epoch=epoch))
    return one


def plan_of(*partitions: Partition) -> FetchPlan:
    plan = FetchPlan(FetchSettings(1, lambda: 101))
    for one in partitions:
        plan.follow(one)
    return plan


def asked(request: FetchRequest | None) -> dict[int, tuple[int, int, int]]:
    """Epoch, offset and last epoch of each partition that a request names."""
    assert request is not None
    return {
        one.partition: (one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch)
        for topic in request.topics
        for one in topic.partitions
    }


def answer(plan: FetchPlan, *found: PartitionData, session: int = SESSION, now_ms: float = 0) -> list[Action]:
    response = FetchResponse(
        session_id=session, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(found))]
    )
    return [action for _, action in plan.answered(response, now_ms)]


def data(index: int = 0, error: int = 0, **fields: Any) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, **fields)


def test_a_session_names_what_has_changed() -> None:
    first, second = followed(0, entries=(3, 4)), followed(1)
    plan = plan_of(first, second)
    request = plan.next_request(0)
    assert asked(request) == {0: (5, 2, 4), 1: (5, 0, -1)}
    assert request is not None
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 101)
    assert answer(plan, data(0, high_watermark=1)) == [Take(b"", 1, -1)]
    cast(Any, first.log).append(5, 9)
    request = plan.next_request(0)
    assert asked(request) == {0: (5, 3, 5)}
    assert request is not None
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    answer(plan)
    plan.forget((TOPIC_ID, 0))
    request = plan.next_request(0)
    assert request is not None
    assert (request.session_epoch, request.topics, request.forgotten_topics_data[0].partitions) == (2, [], [0])


def test_of_thousands_some_are_named_at_a_time_and_answered_at_once() -> None:
    plan = plan_of(*(followed(index) for index in range(2 * MOST_NAMED + 3)))
    for _ in range(2):  # the second time after the session is lost
        named: list[int] = []
        for count, wait_ms in ((MOST_NAMED, 0), (MOST_NAMED, 0), (3, 500)):
            request = plan.next_request(0)
            assert request is not None and request.max_wait_ms == wait_ms
            assert len(asked(request)) == count
            named += asked(request)
            answer(plan, *(data(index) for index in asked(request)))
        assert named == list(range(2 * MOST_NAMED + 3))
        request = plan.next_request(0)
        assert asked(request) == {} and request is not None and request.max_wait_ms == 500
        plan.lost()


def test_those_that_wait_hide_none_of_those_that_do_not() -> None:
    partitions = [followed(index) for index in range(MOST_NAMED + 5)]
    plan = FetchPlan(FetchSettings(1, lambda: 101), lambda one: one.key[1] < MOST_NAMED)
    for one in partitions:
        plan.follow(one)
    assert sorted(asked(plan.next_request(0))) == list(range(MOST_NAMED, MOST_NAMED + 5))


def test_without_a_session_all_are_named_each_time() -> None:
    every = range(2 * MOST_NAMED)
    plan = plan_of(*map(followed, every))
    assert len(asked(plan.next_request(0))) == MOST_NAMED
    for _ in range(2):
        answer(plan, session=0)
        request = plan.next_request(0)
        assert sorted(asked(request)) == list(every) and request is not None and request.max_wait_ms == 500


def test_after_a_lost_session_everything_is_named_again() -> None:
    plan = plan_of(followed(0), followed(1))
    plan.next_request(0)
    answer(plan)
    plan.lost()
    assert set(asked(plan.next_request(0))) == {0, 1}
    assert not list(plan.answered(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH), 0))
    request = plan.next_request(0)
    assert set(asked(request)) == {0, 1}
    assert request is not None
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_without_a_session_every_request_is_whole() -> None:
    plan = plan_of(followed(0), followed(1))
    plan.next_request(0)
    answer(plan, session=0)
    assert set(asked(plan.next_request(0))) == {0, 1}


@pytest.mark.parametrize("change", ["epoch", "end of the log", "leader and back"])
def test_an_answer_counts_only_if_what_was_asked_is_still_true(change: str) -> None:
    one = followed(entries=(3, 3, 3))
    plan = plan_of(one)
    plan.next_request(0)
    if change == "epoch":
        one.follow(term(2, epoch=6))
        plan.follow(one)
    elif change == "end of the log":
        cast(Any, one.log).append(4, 9)
    else:
        plan.forget((TOPIC_ID, 0))
        plan.follow(one)
    cut = data(diverging_epoch=EpochEndOffset(epoch=3, end_offset=1))
    assert answer(plan, cut) == []


def test_the_mistake_of_using_old_answers_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, value in MUTATIONS[8]():
        monkeypatch.setattr(owner, name, value)
    with pytest.raises(AssertionError):
        test_an_answer_counts_only_if_what_was_asked_is_still_true("epoch")


@pytest.mark.parametrize(
    ("ours", "epoch", "leader_end", "point"),
    [
        ((3, 3, 4, 4), 3, 1, 1),
        ((3, 3, 4, 4), 3, 9, 2),
        ((3, 3, 5, 5), 4, 3, 2),
        ((5, 5), 4, 3, 0),
        ((), 4, 3, 0),
    ],
    ids=["the leader has less of it", "we have less of it", "we do not know it", "only later ones", "nothing"],
)
def test_where_histories_part(ours: tuple[int, ...], epoch: int, leader_end: int, point: int) -> None:
    assert truncation_point(cast(Any, followed(entries=ours).log), epoch, leader_end) == point


def test_while_a_log_is_cut_nothing_is_asked_for_it() -> None:
    one = followed(entries=(3, 3, 4))
    plan = plan_of(one, followed(1))
    plan.next_request(0)
    response = FetchResponse(
        session_id=SESSION,
        responses=[
            FetchableTopicResponse(
                topic_id=TOPIC_ID, partitions=[data(diverging_epoch=EpochEndOffset(epoch=3, end_offset=1))]
            )
        ],
    )
    ((cut_one, action),) = plan.answered(response, 0)
    assert action == Cut(1)
    request = plan.next_request(0)
    assert asked(request) == {}
    assert request is not None
    assert request.forgotten_topics_data[0].partitions == [0]
    answer(plan)
    cast(Any, one.log).truncate_to(1)
    plan.resume(cut_one)
    assert asked(plan.next_request(0)) == {0: (5, 1, 3)}


def test_a_leader_whose_log_begins_later_makes_us_begin_anew() -> None:
    plan = plan_of(followed(entries=(3, 3)))
    plan.next_request(0)
    out_of_range = data(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=40)
    assert answer(plan, out_of_range) == [Restart(40)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_an_error_holds_one_partition_back_for_longer_each_time(code: ErrorCode) -> None:
    plan = plan_of(followed(0), followed(1))
    plan.next_request(0)
    now_ms, pauses = 0.0, []
    for _ in range(9):
        assert answer(plan, data(error=code), now_ms=now_ms) == []
        assert 0 not in asked(plan.next_request(now_ms)), "the others go on"
        answer(plan)
        retry = plan.next_retry_ms()
        assert retry is not None
        pauses.append(retry - now_ms)
        now_ms = retry
        assert 0 in asked(plan.next_request(now_ms))
    assert pauses[:3] == [FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS, 4 * FIRST_BACKOFF_MS]
    assert pauses[-1] == 1000
    answer(plan, data(high_watermark=0))
    answer_to_new_epoch = plan.next_retry_ms()
    assert answer_to_new_epoch is None


def test_a_new_epoch_ends_the_pause() -> None:
    one = followed()
    plan = plan_of(one)
    plan.next_request(0)
    answer(plan, data(error=ErrorCode.FENCED_LEADER_EPOCH))
    assert plan.next_request(1) is None
    one.follow(term(2, epoch=6))
    plan.follow(one)
    assert asked(plan.next_request(1)) == {0: (6, 0, -1)}


def test_a_partition_without_its_log_is_left_out() -> None:
    first, second = followed(0), followed(1)
    plan = plan_of(first, second)
    first.lose_log()
    assert set(asked(plan.next_request(0))) == {1}
