"""Filters that narrow a batch read: on topic, partition and offset exactly, on time as far as a log allows.

A record's time need not grow with its offset, so a lower bound on time moves a range's start (all records before the
first one at or after it are older), but an upper bound cannot move its end. Spark therefore applies time filters again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from moldau.spark.planning.looking import FindOffsets
from moldau.spark.planning.planner import Range
from moldau.spark.planning.resolve import NO_MATCH
from moldau.types.ids import TopicPartition

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEVER_NULL: Final = ("topic", "partition", "offset", "timestamp")
ONE_MILLISECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What may be left unread; None is no bound, bounds are inclusive."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    first_micros: int | None = None
    last_micros: int | None = None

    def reads(self, place: TopicPartition) -> bool:
        return (self.topics is None or place.topic in self.topics) and (
            self.partitions is None or place.partition in self.partitions
        )


def take_filters(filters: Iterable[Filter]) -> tuple[Narrowing, list[Filter]]:
    """The bounds that the filters give, and those filters that Spark has to apply itself."""
    narrowing = Narrowing()
    left: list[Filter] = []
    for each in filters:
        column = column_of(each)
        if isinstance(each, IsNotNull) and column in NEVER_NULL:
            continue
        taken = narrowed(narrowing, column, each)
        if taken is not None:
            narrowing = taken
        if taken is None or column == "timestamp":
            left.append(each)
    return narrowing, left


def column_of(each: Filter) -> str:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else ""


def narrowed(narrowing: Narrowing, column: str, each: Filter) -> Narrowing | None:
    if column == "topic" and (names := choices(each, str)) is not None:
        return replace(narrowing, topics=both(narrowing.topics, names))
    if column == "partition" and (numbers := choices(each, int)) is not None:
        return replace(narrowing, partitions=both(narrowing.partitions, numbers))
    if column == "offset" and (bounds := bounds_of(each, 1, whole_number)) is not None:
        first, last = bounds
        return replace(
            narrowing,
            first_offset=highest(narrowing.first_offset, first),
            last_offset=lowest(narrowing.last_offset, last),
        )
    if column == "timestamp" and (bounds := bounds_of(each, 1, micros)) is not None:
        first, last = bounds
        return replace(
            narrowing,
            first_micros=highest(narrowing.first_micros, first),
            last_micros=lowest(narrowing.last_micros, last),
        )
    return None


def choices(each: Filter, kind: type) -> frozenset[Any] | None:
    match each:
        case EqualTo(value=value) | EqualNullSafe(value=value) if isinstance(value, kind):
            return frozenset({value})
        case In(value=values) if all(isinstance(value, kind) for value in values):
            return frozenset(values)
        case _:
            return None


def bounds_of(each: Filter, step: int, number: Any) -> tuple[int | None, int | None] | None:
    """First and last number that pass, or None where the filter is of another kind."""
    value = number(getattr(each, "value", None))
    if value is None:
        return None
    match each:
        case EqualTo() | EqualNullSafe():
            return value, value
        case GreaterThan():
            return value + step, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value - step
        case LessThanOrEqual():
            return None, value
        case _:
            return None


def whole_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def micros(value: object) -> int | None:
    """A time without a zone cannot be placed, and is left to Spark."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    passed = value - EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def both(known: Collection[Any] | None, more: frozenset[Any]) -> frozenset[Any]:
    return more if known is None else more & frozenset(known)


def highest(known: int | None, bound: int | None) -> int | None:
    return bound if known is None else known if bound is None else max(known, bound)


def lowest(known: int | None, bound: int | None) -> int | None:
    return bound if known is None else known if bound is None else min(known, bound)


def narrow(
    ranges: Mapping[TopicPartition, Range], narrowing: Narrowing, look: FindOffsets
) -> dict[TopicPartition, Range]:
    kept = {place: span for place, span in ranges.items() if narrowing.reads(place) and span.size > 0}
    first, last = narrowing.first_offset, narrowing.last_offset
    kept = {
        place: Range(
            span.start if first is None else max(span.start, first),
            span.end if last is None else min(span.end, last + 1),
        )
        for place, span in kept.items()
    }
    if narrowing.first_micros is None or not kept:
        return kept
    first_ms = -(-narrowing.first_micros // ONE_MILLISECOND)
    if first_ms <= 0:
        # A cluster cannot be asked for times before 1970, and takes records without a time (-1) for older than any.
        return kept
    found = look(dict.fromkeys(kept, first_ms))
    return {
        place: Range(span.end if found[place] == NO_MATCH else max(span.start, found[place]), span.end)
        for place, span in kept.items()
        if place in found
    }
