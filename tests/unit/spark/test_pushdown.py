"""Filters that narrow a batch read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from moldau.spark.planning.offsets import PartitionOffsets
from moldau.spark.planning.planner import Range
from moldau.spark.planning.pushdown import Narrowing, narrow, take_filters
from moldau.types.ids import TopicPartition
from tests.fakes.spark_catalog import FakeLog

A, B = TopicPartition("t", 0), TopicPartition("u", 1)
LOGS = {A: FakeLog(0, 4, [1000, 3000, 2000, 4000]), B: FakeLog(5, 7, [-1, 20])}
ALL = {A: Range(0, 4), B: Range(5, 7)}


def look(wanted: Mapping[TopicPartition, int]) -> PartitionOffsets:
    return {place: LOGS[place].offset_at(time) for place, time in wanted.items()}


def narrowed(*filters: Filter) -> dict[TopicPartition, tuple[int, int]]:
    ranges = narrow(ALL, take_filters(filters)[0], look)
    return {place: (span.start, span.end) for place, span in ranges.items() if span.size > 0}


def test_exact_filters_are_taken() -> None:
    for filters, left in (
        ([EqualTo(("topic",), "t")], {A: (0, 4)}),
        ([EqualTo(("partition",), 1)], {B: (5, 7)}),
        ([In(("partition",), (0, 1)), In(("topic",), ("u",))], {B: (5, 7)}),
        ([EqualTo(("partition",), 0), EqualTo(("partition",), 1)], {}),
        ([GreaterThan(("offset",), 1), LessThanOrEqual(("offset",), 5)], {A: (2, 4), B: (5, 6)}),
        ([GreaterThanOrEqual(("offset",), 3), LessThan(("offset",), 4)], {A: (3, 4)}),
        ([EqualTo(("offset",), 6)], {B: (6, 7)}),
        ([IsNotNull(("offset",)), GreaterThan(("offset",), 100)], {}),
    ):
        assert narrowed(*filters) == left
        assert take_filters(filters)[1] == []


def test_time_moves_the_start_and_is_left_to_spark() -> None:
    since = GreaterThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 2, 1, tzinfo=UTC))
    assert narrowed(since) == {A: (1, 4)}
    narrowing, left = take_filters([since, LessThan(("timestamp",), datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC))])
    assert len(left) == 2
    assert (narrowing.first_micros, narrowing.last_micros) == (2_000_001, 2_999_999)


def test_a_time_before_1970_moves_no_start() -> None:
    for year in (1960, 1970):
        assert narrowed(GreaterThanOrEqual(("timestamp",), datetime(year, 1, 1, tzinfo=UTC))) == {A: (0, 4), B: (5, 7)}


def test_other_filters_are_left_alone() -> None:
    filters: list[Filter] = [
        Not(EqualTo(("partition",), 0)),
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        EqualTo(("offset",), "1"),
        GreaterThan(("partition",), 0),
        GreaterThan(("timestamp",), datetime(2020, 1, 1)),  # noqa: DTZ001 (Spark may hand over a time without zone)
        EqualTo(("headers", "key"), "x"),
    ]
    narrowing, left = take_filters(filters)
    assert narrowing == Narrowing()
    assert left == filters
