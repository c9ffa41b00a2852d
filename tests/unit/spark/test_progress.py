"""Reading what Spark tells of a batch."""

from __future__ import annotations

from typing import Any

from moldau.spark.listener import progress_of


def source(end: object, latest: object, rows: int = 10) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest, "numInputRows": rows, "processedRowsPerSecond": 5.0}


def offsets(**partitions: int) -> dict[str, Any]:
    return {"version": 1, "offsets": {"orders": {name[1:]: place for name, place in partitions.items()}}}


def test_lag_is_the_distance_to_the_end_over_all_sources() -> None:
    behind = source(offsets(p0=5, p1=7), offsets(p0=9, p1=7))
    level = source(offsets(p0=3), offsets(p0=3))
    progress = progress_of({"name": "q", "batchId": 4, "batchDuration": 250, "sources": [behind, level]})
    assert (progress.query, progress.batch, progress.milliseconds) == ("q", 4, 250)
    assert (progress.rows, progress.rows_per_second, progress.lag) == (20, 10.0, 4)


def test_other_sources_have_no_lag_that_we_could_tell() -> None:
    progress = progress_of({"id": "1-2", "batchId": 0, "sources": [source("7", "9"), source(offsets(p0=1), offsets())]})
    assert (progress.query, progress.lag) == ("1-2", None)


def test_rows_that_the_watermark_dropped_and_rows_in_state_are_counted() -> None:
    operators = [{"numRowsTotal": 5, "numRowsDroppedByWatermark": 2}, {"numRowsTotal": 1}]
    report = {"batchId": 1, "sources": [], "stateOperators": operators, "eventTime": {"watermark": "2026-01-01"}}
    progress = progress_of(report)
    assert (progress.dropped_late, progress.state_rows, progress.watermark) == (2, 6, "2026-01-01")


def test_a_rate_over_no_time_is_none() -> None:
    report = {"batchId": 1, "sources": [source(None, None) | {"processedRowsPerSecond": "Infinity"}]}
    assert progress_of(report).rows_per_second == 0.0
