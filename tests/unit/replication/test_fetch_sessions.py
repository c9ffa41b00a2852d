"""Fetch sessions: opened, continued, closed, evicted; answers hold only what is new."""

from __future__ import annotations

import itertools

import pytest

from moldau.replication.fetch_sessions import EVICTION_MS, MAX_EPOCH, FetchSessions, FetchTarget
from moldau.types.errors import ErrorCode, KafkaError


def target(partition: int, offset: int = 0, topic: str = "t") -> FetchTarget:
    return FetchTarget((topic, partition), offset, 1000, -1, -1)


def sessions(slots: int = 2) -> FetchSessions:
    numbers = itertools.count(1)
    return FetchSessions(slots, lambda: next(numbers))


def test_a_session_goes_on_with_the_next_epoch_and_keeps_its_partitions() -> None:
    cache = sessions()
    session = cache.open([target(0), target(1)], False, 0)
    assert session is not None
    again = cache.resume(session.id, 1, False, 5)
    again.change([target(1, offset=7), target(2)], [("t", 0)])
    assert [(key, one.fetch_offset) for key, one in again.targets.items()] == [(("t", 1), 7), (("t", 2), 0)]
    assert cache.resume(session.id, 2, False, 6) is session


@pytest.mark.parametrize(
    ("session_id", "epoch", "uses_ids", "code"),
    [
        (99, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_request_that_does_not_follow_is_refused(
    session_id: int, epoch: int, uses_ids: bool, code: ErrorCode
) -> None:
    cache = sessions()
    assert cache.open([target(0)], False, 0) is not None
    with pytest.raises(KafkaError) as refused:
        cache.resume(session_id, epoch, uses_ids, 0)
    assert refused.value.code == code


def test_the_epoch_wraps_around_to_one() -> None:
    cache = sessions()
    session = cache.open([target(0)], False, 0)
    assert session is not None
    session.epoch = MAX_EPOCH
    assert cache.resume(session.id, MAX_EPOCH, False, 0).epoch == 1


def test_a_session_may_begin_with_nothing() -> None:
    cache = sessions()
    session = cache.open([], False, 0)
    assert session is not None
    session.change([target(0)], [])
    assert list(cache.resume(session.id, 1, False, 0).targets) == [("t", 0)]


def test_a_full_cache_evicts_the_stale_and_spares_those_in_use() -> None:
    cache = sessions(slots=2)
    first = cache.open([target(0)], False, 0)
    second = cache.open([target(0)], False, 0)
    assert first is not None
    assert second is not None
    assert cache.open([target(0)], False, EVICTION_MS) is None
    cache.resume(second.id, 1, False, EVICTION_MS)
    third = cache.open([target(0)], False, EVICTION_MS + 1)
    assert third is not None
    assert {session.id for session in cache} == {second.id, third.id}


def test_a_larger_session_takes_the_place_of_a_smaller_one_that_had_its_time() -> None:
    cache = sessions(slots=1)
    small = cache.open([target(0)], False, 0)
    assert small is not None
    cache.resume(small.id, 1, False, EVICTION_MS + 1)
    large = cache.open([target(0), target(1)], False, EVICTION_MS + 1)
    assert large is not None
    assert [session.id for session in cache] == [large.id]


def test_what_gave_data_goes_to_the_end() -> None:
    session = sessions().open([target(0), target(1), target(2)], False, 0)
    assert session is not None
    session.rotate([("t", 0), ("t", 9)])
    assert [key[1] for key in session.targets] == [1, 2, 0]


def test_news_is_data_a_moved_mark_an_error_or_its_end() -> None:
    one = target(0)
    assert one.is_news(0, 5, 0, 0, False)
    assert not one.is_news(0, 5, 0, 0, False)
    assert one.is_news(10, 5, 0, 0, False)
    assert one.is_news(0, 6, 0, 0, False)
    assert one.is_news(0, 6, 1, 0, False)
    assert one.is_news(0, 6, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
    assert one.is_news(0, 6, 1, 0, False), "the end of an error is news"
    assert not one.is_news(0, 6, 1, 0, False)
    assert one.is_news(0, 6, 1, 0, True)


def test_the_mark_is_told_again_to_who_has_cut_its_log() -> None:
    """Whoever hears where it diverges does not heed what else it is told."""
    one = target(0)
    assert one.is_news(0, 5, 0, 0, True)
    assert one.is_news(0, 5, 0, 0, False)
    assert not one.is_news(0, 5, 0, 0, False)


def test_the_mark_is_told_again_to_who_follows_in_another_epoch() -> None:
    """Whatever was answered to a fetch of the earlier one is thrown away."""
    one = target(0)
    assert one.is_news(0, 5, 0, 0, False)
    one.update(target(0))
    assert not one.is_news(0, 5, 0, 0, False)
    later = target(0)
    later.leader_epoch = one.leader_epoch + 1
    one.update(later)
    assert one.is_news(0, 5, 0, 0, False)
