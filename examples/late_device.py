"""A late device: processing time against event time, the watermark, and a channel for what comes too late.

Three devices report at 00:33, 00:36 and 00:39 (minutes and seconds), but the report of 00:36 is over 20 seconds on its
way. The window of processing time from 00:30 to 00:40 misses it; the window of event time waits and has all three.
An event that is older than the watermark allows is not lost silently: it goes to a topic of its own, with its delay.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import as_records, drain, fresh_topic, publish, run_alone, stream, table, to_topic

SCHEMA = "device STRING, happened TIMESTAMP, arrived TIMESTAMP"
LATE_SCHEMA = "device STRING, happened TIMESTAMP, arrived TIMESTAMP, delay LONG"
START = datetime(2026, 3, 4, tzinfo=UTC)
WATERMARK_SECONDS = 30


def sample() -> list[dict[str, Any]]:
    """Device, when it happened, when it arrived, in seconds."""
    times = [("a", 33, 34), ("c", 39, 39), ("b", 36, 58), ("a", 45, 46), ("d", 35, 120), ("clock", 600, 600)]
    return [
        {
            "device": device,
            "happened": (START + timedelta(seconds=happened)).isoformat(),
            "arrived": (START + timedelta(seconds=arrived)).isoformat(),
        }
        for device, happened, arrived in times
    ]


def delay() -> Any:
    return F.unix_timestamp("arrived") - F.unix_timestamp("happened")


def in_time(events: DataFrame) -> DataFrame:
    return events.where(delay() <= WATERMARK_SECONDS)


def too_late(events: DataFrame) -> DataFrame:
    return events.where(delay() > WATERMARK_SECONDS).withColumn("delay", delay())


def per_window(events: DataFrame, time: str) -> DataFrame:
    """Final counts: a window comes out once, when the watermark has passed its end."""
    window = F.window(time, "10 seconds").alias("window")
    counted = events.withWatermark(time, f"{WATERMARK_SECONDS} seconds").groupBy(window).count()
    return counted.select(F.col("window.start").alias("start"), "count")


def example(spark: SparkSession, bootstrap: str, folder: Path) -> dict[str, dict[int, int]]:
    publish(bootstrap, "device-events", [(row["device"], row) for row in sample()], partitions=1)
    fresh_topic(bootstrap, "late-arrivals")
    counts = {}
    for time in ("arrived", "happened"):
        events = in_time(stream(spark, bootstrap, "device-events", SCHEMA))
        writer = per_window(events, time).writeStream.format("memory").queryName(f"windows_{time}")
        drain(writer, folder / time)
        rows = spark.table(f"windows_{time}").collect()
        counts[time] = {int((row["start"].replace(tzinfo=UTC) - START).total_seconds()): row["count"] for row in rows}
    late = as_records(too_late(stream(spark, bootstrap, "device-events", SCHEMA)), "device")
    drain(late.writeStream.format("moldau"), folder / "late", **to_topic(bootstrap, "late-arrivals"))
    counts["late"] = {row["delay"]: 1 for row in table(spark, bootstrap, "late-arrivals", LATE_SCHEMA).collect()}
    print(counts)
    return counts


if __name__ == "__main__":
    run_alone(example, __doc__)
