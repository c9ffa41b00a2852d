"""Choice of the log to compact and grouping of its segments."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from moldau.storage.compaction.plan import (
    Candidate,
    CompactionPolicy,
    LogState,
    SegmentShape,
    assess,
    choose_dirtiest,
    group_segments,
)
from moldau.types.ids import TopicPartition

PARTITION = TopicPartition("t", 0)
NOW = 10_000


def log(
    *segments: SegmentShape,
    end: int = 100,
    start: int = 0,
    stable: int | None = None,
    cleaned: int | None = None,
    policy: CompactionPolicy | None = None,
    first_timestamps: Mapping[int, int] | None = None,
) -> LogState:
    return LogState(
        PARTITION,
        segments,
        log_start_offset=start,
        log_end_offset=end,
        last_stable_offset=end if stable is None else stable,
        cleaned_offset=cleaned,
        policy=policy or CompactionPolicy(0.5),
        first_timestamp=(first_timestamps or {}).__getitem__,
    )


FOUR = (SegmentShape(0, 10), SegmentShape(20, 20), SegmentShape(40, 30), SegmentShape(60, 40))


def offsets(candidate: Candidate) -> tuple[int, int]:
    return candidate.first_dirty_offset, candidate.first_uncleanable_offset


def test_everything_but_the_active_segment_is_dirty_at_first() -> None:
    candidate = assess(log(*FOUR), NOW)
    assert offsets(candidate) == (0, 60)
    assert (candidate.clean_bytes, candidate.cleanable_bytes, candidate.cleanable_ratio) == (0, 60, 1.0)
    assert candidate.due


def test_the_ratio_counts_dirty_against_clean_bytes() -> None:
    candidate = assess(log(*FOUR, cleaned=40), NOW)
    assert offsets(candidate) == (40, 60)
    assert (candidate.clean_bytes, candidate.cleanable_bytes) == (30, 30)
    assert not candidate.due, "0.5 is not more than 0.5"
    assert assess(log(*FOUR, cleaned=20), NOW).due


def test_nothing_is_due_when_all_is_clean() -> None:
    candidate = assess(log(*FOUR, cleaned=60, policy=CompactionPolicy(0.0)), NOW)
    assert candidate.cleanable_bytes == 0
    assert not candidate.due


def test_a_log_of_one_segment_is_never_due() -> None:
    assert not assess(log(SegmentShape(0, 10)), NOW).due


def test_the_segment_with_the_last_stable_offset_is_not_cleaned() -> None:
    assert offsets(assess(log(*FOUR, stable=45), NOW)) == (0, 40)
    assert offsets(assess(log(*FOUR, stable=40), NOW)) == (0, 40)
    assert offsets(assess(log(*FOUR, stable=5), NOW)) == (0, 0)


def test_a_young_segment_and_all_after_it_wait_for_the_minimum_lag() -> None:
    young = (SegmentShape(0, 10, 1), SegmentShape(20, 10, NOW - 99), SegmentShape(40, 10, 1), SegmentShape(60, 10, NOW))
    policy = CompactionPolicy(0.0, min_lag_ms=100)
    assert offsets(assess(log(*young, policy=policy), NOW)) == (0, 20)
    assert offsets(assess(log(*young, policy=policy), NOW + 1)) == (0, 60)


def test_the_maximum_lag_makes_a_log_due_whatever_its_ratio() -> None:
    policy = CompactionPolicy(1.0, max_lag_ms=1000)
    times = {0: 1, 20: 1, 40: NOW - 1500}
    candidate = assess(log(*FOUR, cleaned=40, policy=policy, first_timestamps=times), NOW)
    assert (candidate.overdue_ms, candidate.due) == (500, True)
    candidate = assess(log(*FOUR, cleaned=40, policy=policy, first_timestamps={40: NOW - 1000}), NOW)
    assert (candidate.overdue_ms, candidate.due) == (0, False)
    assert not assess(log(*FOUR, cleaned=40, policy=policy, first_timestamps={40: -1}), NOW).due


def test_a_checkpoint_outside_the_log_is_reset_to_its_start() -> None:
    for cleaned in (15, 101):
        candidate = assess(log(*FOUR, start=20, cleaned=cleaned), NOW)
        assert candidate.invalid_checkpoint
        assert candidate.first_dirty_offset == 20
    assert not assess(log(*FOUR, start=20, cleaned=None), NOW).invalid_checkpoint


def test_the_dirtiest_due_log_is_chosen() -> None:
    def candidate(name: str, clean: int, dirty: int, overdue: int = 0) -> Candidate:
        return Candidate(TopicPartition(name, 0), 0, 0, clean, dirty, 0.5, overdue, invalid_checkpoint=False)

    logs = [candidate("a", 10, 20), candidate("b", 10, 40), candidate("c", 10, 10), candidate("d", 90, 10, overdue=5)]
    assert choose_dirtiest(logs) == logs[1]
    assert choose_dirtiest(logs[2:]) == logs[3]
    assert choose_dirtiest([logs[2], candidate("e", 0, 0)]) is None
    assert choose_dirtiest([]) is None


def sizes(groups: list[list[SegmentShape]]) -> list[list[int]]:
    return [[segment.size for segment in group] for group in groups]


def test_neighbours_are_grouped_up_to_a_segment_s_size() -> None:
    shapes = [SegmentShape(index * 10, size) for index, size in enumerate((40, 40, 40, 100, 1, 99, 1))]
    groups = group_segments(shapes, max_bytes=100, max_index_bytes=100, first_uncleanable_offset=70)
    assert sizes(groups) == [[40, 40], [40], [100], [1, 99], [1]]


def test_neighbours_are_grouped_up_to_an_index_s_size() -> None:
    shapes = [
        SegmentShape(0, 1, index_size=8),
        SegmentShape(10, 2, index_size=8),
        SegmentShape(20, 3, time_index_size=17),
    ]
    groups = group_segments(shapes, max_bytes=100, max_index_bytes=16, first_uncleanable_offset=30)
    assert sizes(groups) == [[1, 2], [3]]


def test_a_group_spans_no_more_offsets_than_an_index_can_hold() -> None:
    far = 2**31
    shapes = [SegmentShape(0, 1), SegmentShape(far - 10, 2), SegmentShape(far + 10, 3)]
    assert sizes(group_segments(shapes, max_bytes=9, max_index_bytes=9, first_uncleanable_offset=far + 20)) == [
        [1],
        [2, 3],
    ]
    assert sizes(group_segments(shapes[:2], max_bytes=9, max_index_bytes=9, first_uncleanable_offset=far)) == [[1, 2]]


@given(st.lists(st.integers(0, 120), max_size=12))
def test_groups_keep_every_segment_in_order(shape: list[int]) -> None:
    shapes = [SegmentShape(index * 10, size) for index, size in enumerate(shape)]
    groups = group_segments(shapes, max_bytes=100, max_index_bytes=1, first_uncleanable_offset=len(shape) * 10)
    assert [segment for group in groups for segment in group] == shapes
    assert all(len(group) == 1 or sum(segment.size for segment in group) <= 100 for group in groups)
