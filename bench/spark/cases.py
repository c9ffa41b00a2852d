"""The catalogue of what is compared with Spark's own connector. A goal is a ratio to its figure."""

from __future__ import annotations

from dataclasses import dataclass

from bench.figures import Figure, Goal, at_least, at_most
from bench.spark.scenarios import (
    BatchRead,
    BatchWrite,
    MicroBatches,
    Scenario,
    StreamRead,
    TopicToTopic,
    hashes,
    totals,
)

QUICK_SHARE = 10


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    scenario: Scenario
    figures: tuple[Figure, ...]


def source_rows(quick: bool) -> int:
    return 4_000_000 // (QUICK_SHARE if quick else 1)


def catalogue(quick: bool = False) -> list[Case]:
    written = 2_000_000 // (QUICK_SHARE if quick else 1)
    read = f"{source_rows(quick):,} rows of 100 B in 4 partitions"
    twice, as_fast = at_least(2.0), at_least(1.0)
    return [
        Case(
            "read-totals",
            f"batch read: count, sum of lengths, max offset of {read}; columns value, offset",
            BatchRead("value,offset", totals),
            _rates(twice),
        ),
        Case(
            "read-hash",
            f"batch read: hash of value, offset, partition of {read}; these columns",
            BatchRead("value,partition,offset", hashes),
            _rates(twice),
        ),
        Case("stream-read", f"stream of {read} into the noop sink; columns value, offset", StreamRead(), _rates(twice)),
        Case(
            "write",
            f"batch write of {written:,} keyed rows of 100 B, both at least once",
            BatchWrite(written, "at-least-once"),
            _rates(as_fast),
        ),
        Case(
            "write-exactly-once",
            f"batch write of {written:,} keyed rows of 100 B, ours exactly once, theirs at least once",
            BatchWrite(written, "exactly-once"),
            _rates(as_fast),
        ),
        Case(
            "topic-to-topic",
            f"stream of {read} from topic to topic, ours exactly once, theirs at least once",
            TopicToTopic(),
            _rates(as_fast),
        ),
        Case(
            "micro-batches",
            "stream of 1,000 rows per second from topic to topic, ours exactly once, theirs at least once",
            MicroBatches(10 if quick else 25),
            (
                Figure("batch_ms", "one batch", "ms", at_most(1.0)),
                Figure("worst_ms", "slowest batch", "ms"),
                Figure("batches", "batches", "n"),
            ),
        ),
    ]


def _rates(goal: Goal | None) -> tuple[Figure, ...]:
    return (
        Figure("rows", "rate", "rows/s", goal),
        Figure("spark_cpu", "Spark CPU, workers too", "s/M"),
        Figure("broker_cpu", "broker CPU", "s/M"),
    )
