"""Laws of the Spark reader's plans: nothing is left out, nothing is read twice, and a replay is the same."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from moldau.spark.planning.limits import cap, limit_rows, rows_between
from moldau.spark.planning.offsets import Position
from moldau.spark.planning.planner import Range, cut, ranges_between, splits_of
from moldau.types.ids import TopicPartition

topics = st.sampled_from(["a", "b.c", "version", "Ωmega"])
places = st.builds(TopicPartition, topics, st.integers(0, 20))
spans = st.builds(lambda start, size: Range(start, start + size), st.integers(0, 2**40), st.integers(0, 5000))
range_maps = st.dictionaries(places, spans, max_size=12)
counts = st.none() | st.integers(1, 60)


def position_of(ranges: dict[TopicPartition, Range], cuts: dict[TopicPartition, tuple[int, ...]]) -> Position:
    return Position({place: span.end for place, span in ranges.items()}, {}, cuts)


@given(range_maps, counts, counts)
def test_splits_cover_each_range_once(
    ranges: dict[TopicPartition, Range], least_tasks: int | None, most_rows: int | None
) -> None:
    splits = splits_of(ranges, position_of(ranges, cut(ranges, least_tasks, most_rows)))
    assert all(split.size > 0 for split in splits)
    for place, span in ranges.items():
        mine = [split for split in splits if split.topic_partition == place]
        borders = [span.start] + [split.end for split in mine] if span.size else [span.start]
        assert [split.start for split in mine] == borders[:-1]
        assert not mine or mine[-1].end == span.end
    assert sum(split.size for split in splits) == sum(span.size for span in ranges.values())


@given(range_maps, counts, counts)
def test_limits_of_a_plan_hold(
    ranges: dict[TopicPartition, Range], least_tasks: int | None, most_rows: int | None
) -> None:
    splits = splits_of(ranges, position_of(ranges, cut(ranges, least_tasks, most_rows)))
    if most_rows is not None:
        assert all(split.size <= most_rows for split in splits)
    if least_tasks is not None:
        rows = sum(span.size for span in ranges.values())
        assert len(splits) >= min(least_tasks, rows)
    if least_tasks is None and most_rows is None:
        assert len(splits) == sum(span.size > 0 for span in ranges.values())


@given(range_maps, counts, counts)
def test_a_replay_reads_the_same_splits_from_what_was_recorded(
    ranges: dict[TopicPartition, Range], least_tasks: int | None, most_rows: int | None
) -> None:
    start = Position({place: span.start for place, span in ranges.items()})
    end = position_of(ranges, cut(ranges, least_tasks, most_rows))
    planned = splits_of(ranges_between(start, end), end)
    recorded = [Position.from_json(json.loads(json.dumps(each.to_json()))) for each in (start, end)]
    assert splits_of(ranges_between(*recorded), recorded[1]) == planned


@given(
    st.dictionaries(places, st.integers(0, 2**62)),
    st.dictionaries(topics, st.none() | st.uuids().filter(lambda each: each.int != 0)),
    st.dictionaries(places, st.lists(st.integers(0, 2**62), min_size=1, max_size=3).map(tuple)),
    st.dictionaries(places, st.integers(0, 2**62)),
    st.booleans(),
)
def test_recorded_offsets_come_back_and_equal_ones_are_equal_text(offsets, ids, cuts, begins, initial) -> None:  # type: ignore[no-untyped-def]
    ids = {place.topic: ids.get(place.topic) for place in offsets}
    position = Position(offsets, ids, cuts, begins, initial)
    text = json.dumps(position.to_json())
    again = Position.from_json(json.loads(text))
    assert again == position
    assert json.dumps(again.to_json()) == text
    assert json.dumps(Position(dict(reversed(offsets.items())), ids, cuts, begins, initial).to_json()) == text


@given(range_maps, st.integers(1, 10_000))
def test_a_limited_batch_moves_on_and_stays_within_its_limit(ranges: dict[TopicPartition, Range], most: int) -> None:
    begins = {place: span.start for place, span in ranges.items()}
    ends = {place: span.end for place, span in ranges.items()}
    limited = limit_rows(begins, ends, most)
    waiting = rows_between(begins, ends)
    assert limited.keys() == ends.keys()
    assert all(begins[place] <= limited[place] <= ends[place] for place in ends)
    if waiting <= most:
        assert limited == ends
    else:
        busy = sum(span.size > 0 for span in ranges.values())
        assert 0 < rows_between(begins, limited) <= most + busy
        assert all(limited[place] > begins[place] for place, span in ranges.items() if span.size)


@given(range_maps, st.dictionaries(places, st.integers(0, 2**41)))
def test_available_now_never_goes_past_its_target_or_back(
    ranges: dict[TopicPartition, Range], targets: dict[TopicPartition, int]
) -> None:
    begins = {place: span.start for place, span in ranges.items()}
    ends = cap(begins, {place: span.end for place, span in ranges.items()}, targets)
    for place, end in ends.items():
        assert begins[place] <= end <= ranges[place].end
        assert end == begins[place] or end <= targets[place]
