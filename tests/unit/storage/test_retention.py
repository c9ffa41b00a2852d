"""Which segments retention takes, against Kafka's rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.storage.retention import Deletion, Reason, RetentionPolicy, SegmentAge, plan_deletion

KEEP_ALL = RetentionPolicy(deletes=True)
NOW = 1_000_000


def segments(*sizes_and_times: tuple[int, int]) -> list[SegmentAge]:
    """Ten offsets per segment."""
    return [SegmentAge(index * 10, size, time) for index, (size, time) in enumerate(sizes_and_times)]


def plan(
    log: list[SegmentAge],
    policy: RetentionPolicy,
    *,
    start: int = 0,
    end: int | None = None,
    committed: int | None = None,
) -> Deletion:
    end = len(log) * 10 if end is None else end
    committed = end if committed is None else committed
    return plan_deletion(log, policy, log_start_offset=start, log_end_offset=end, high_watermark=committed, now_ms=NOW)


def bases(deletion: Deletion) -> list[tuple[int, Reason]]:
    return [(doomed.base_offset, doomed.reason) for doomed in deletion.doomed]


def test_nothing_goes_without_limits() -> None:
    deletion = plan(segments((5, 0), (5, 0), (5, 0)), KEEP_ALL)
    assert deletion == Deletion((), roll_first=False, log_start_offset=0)


def test_time_takes_the_oldest_until_one_is_young_enough() -> None:
    policy = RetentionPolicy(deletes=True, retention_ms=1000)
    log = segments((5, NOW - 1001), (5, NOW - 5000), (5, NOW - 1000), (5, NOW - 9000), (5, NOW))
    deletion = plan(log, policy)
    assert bases(deletion) == [(0, Reason.TIME), (10, Reason.TIME)]
    assert (deletion.log_start_offset, deletion.roll_first) == (20, False)


def test_a_timestamp_in_the_future_protects_its_segment() -> None:
    policy = RetentionPolicy(deletes=True, retention_ms=0)
    assert bases(plan(segments((5, NOW + 10), (5, 0), (5, 0)), policy)) == []


def test_the_active_segment_is_rolled_first_when_it_expired_too() -> None:
    policy = RetentionPolicy(deletes=True, retention_ms=1000)
    deletion = plan(segments((5, 0), (5, 0)), policy, end=17)
    assert bases(deletion) == [(0, Reason.TIME), (10, Reason.TIME)]
    assert (deletion.log_start_offset, deletion.roll_first) == (17, True)


def test_an_empty_active_segment_stays() -> None:
    policy = RetentionPolicy(deletes=True, retention_ms=1000)
    deletion = plan(segments((5, 0), (0, 0)), policy, end=10)
    assert bases(deletion) == [(0, Reason.TIME)]
    assert (deletion.log_start_offset, deletion.roll_first) == (10, False)


def test_size_keeps_at_least_the_limit() -> None:
    log = segments((40, 0), (40, 0), (40, 0), (40, 0))
    assert bases(plan(log, RetentionPolicy(deletes=True, retention_bytes=100))) == [(0, Reason.SIZE)]
    assert bases(plan(log, RetentionPolicy(deletes=True, retention_bytes=160))) == []
    assert len(bases(plan(log, RetentionPolicy(deletes=True, retention_bytes=0)))) == 4


def test_the_log_start_offset_takes_whole_segments_below_it_even_without_delete_policy() -> None:
    log = segments((5, NOW), (5, NOW), (5, NOW))
    policy = RetentionPolicy(deletes=False, retention_ms=0, retention_bytes=0)
    assert bases(plan(log, policy, start=19)) == [(0, Reason.START_OFFSET)]
    assert bases(plan(log, policy, start=20)) == [(0, Reason.START_OFFSET), (10, Reason.START_OFFSET)]
    deletion = plan(log, policy, start=30)
    assert bases(deletion) == [(0, Reason.START_OFFSET), (10, Reason.START_OFFSET)]
    assert deletion.log_start_offset == 30


def test_the_passes_follow_each_other() -> None:
    log = segments((50, NOW), (50, NOW), (50, 0), (50, NOW))
    policy = RetentionPolicy(deletes=True, retention_ms=1000, retention_bytes=100)
    assert bases(plan(log, policy, start=10)) == [(0, Reason.START_OFFSET), (10, Reason.SIZE), (20, Reason.TIME)]


def test_what_the_high_watermark_does_not_cover_stays() -> None:
    policy = RetentionPolicy(deletes=True, retention_ms=0, retention_bytes=0)
    log = segments((5, 0), (5, 0), (5, 0))
    assert bases(plan(log, policy, committed=19)) == [(0, Reason.SIZE)]
    assert bases(plan(log, policy, committed=0)) == []


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(NOW - 100, NOW + 10)), min_size=1, max_size=8),
    st.integers(0, 100),
    st.integers(-1, 400),
    st.integers(0, 80),
    st.integers(0, 80),
    st.booleans(),
)
def test_a_plan_is_always_a_prefix_below_the_high_watermark(
    shape: list[tuple[int, int]], retention_ms: int, retention_bytes: int, start: int, committed: int, deletes: bool
) -> None:
    log = segments(*shape)
    end = len(log) * 10
    start, committed = min(start, committed, end), min(committed, end)
    policy = RetentionPolicy(deletes, retention_ms, retention_bytes)
    deletion = plan(log, policy, start=start, committed=committed)
    assert [doomed.base_offset for doomed in deletion.doomed] == [s.base_offset for s in log[: len(deletion.doomed)]]
    assert start <= deletion.log_start_offset <= max(start, committed)
    assert deletion.roll_first == (len(deletion.doomed) == len(log))
    if retention_bytes >= 0 and all(doomed.reason is Reason.SIZE for doomed in deletion.doomed):
        left = sum(s.size for s in log[len(deletion.doomed) :])
        assert not deletion.doomed or left >= retention_bytes
