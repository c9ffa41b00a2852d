"""Click-stream enrichment: page views, with the profile of the user and what was searched within one second before.

Views left-join searches (a stream) and left-join profiles (a table, from a topic): a view of an unknown user, or
without a search, still comes out. A profile that changes counts for the views that follow, while the query runs: each
batch reads the table as it is then.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import append, as_records, fresh_topic, publish, run_alone, stream, table, to_topic
from moldau.spark import exactly_once

PROFILE = "user STRING, name STRING, interests ARRAY<STRING>"
SEARCH = "user STRING, words STRING, time TIMESTAMP"
VIEW = "user STRING, page STRING, time TIMESTAMP"
RESULT = "user STRING, page STRING, time TIMESTAMP, name STRING, interests ARRAY<STRING>, words STRING"
START = datetime(2026, 3, 3, 20, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def sample() -> dict[str, list[dict[str, Any]]]:
    """Three users, one of them unknown; the last rows, much later, let the join give up waiting."""
    return {
        "profiles": [
            {"user": "1", "name": "Mathias", "interests": ["surfing", "boating"]},
            {"user": "2", "name": "Anna", "interests": ["ice cream"]},
            {"user": "1", "name": "Mathias", "interests": ["sailing"]},
        ],
        "searches": [
            {"user": "1", "words": "retro wheel", "time": at(0)},
            {"user": "2", "words": "light jacket", "time": at(5)},
            {"user": "clock", "words": "", "time": at(3600)},
        ],
        "views": [
            {"user": "1", "page": "collections/mens-wetsuits/", "time": at(0.5)},
            {"user": "1", "page": "product/wetsuit", "time": at(9)},
            {"user": "2", "page": "product/jacket", "time": at(6)},
            {"user": "3", "page": "product/socks", "time": at(7)},
            {"user": "clock", "page": "", "time": at(3600)},
        ],
    }


def later() -> dict[str, list[dict[str, Any]]]:
    """Two hours later: one user has other interests, and all look at something once more."""
    return {
        "profiles": [{"user": "2", "name": "Anna", "interests": ["skiing"]}],
        "searches": [{"user": "clock", "words": "", "time": at(14400)}],
        "views": [
            {"user": "1", "page": "product/anchor", "time": at(7200)},
            {"user": "2", "page": "product/skis", "time": at(7201)},
            {"user": "clock", "page": "", "time": at(14400)},
        ],
    }


def latest_profiles(records: DataFrame) -> DataFrame:
    """The newest profile of each user: a topic read as a table."""
    rows = records.select("key", "offset", F.from_json(F.col("value").cast("string"), PROFILE).alias("row"))
    return rows.groupBy("key").agg(F.max_by("row", "offset").alias("row")).select("row.*")


def with_searches(views: DataFrame, searches: DataFrame) -> DataFrame:
    seen = views.withWatermark("time", "10 seconds")
    asked = searches.withWatermark("time", "10 seconds")
    asked = asked.select(F.col("user").alias("searcher"), "words", F.col("time").alias("searched"))
    together = F.expr("user = searcher AND searched BETWEEN time - INTERVAL 1 SECOND AND time")
    return seen.join(asked, together, "left").select("user", "page", "time", "words")


def with_profiles(views: DataFrame, profiles: DataFrame) -> DataFrame:
    return views.join(profiles, "user", "left").select("user", "page", "time", "name", "interests", "words")


def example(spark: SparkSession, bootstrap: str, folder: Path) -> DataFrame:
    for topic, rows in sample().items():
        publish(bootstrap, topic, [(row["user"], row) for row in rows])
    fresh_topic(bootstrap, "clicks-with-context")

    def enrich(views: DataFrame) -> DataFrame:
        profiles = latest_profiles(table(views.sparkSession, bootstrap, "profiles"))
        return as_records(with_profiles(views, profiles), "user")

    views = with_searches(stream(spark, bootstrap, "views", VIEW), stream(spark, bootstrap, "searches", SEARCH))
    write = exactly_once(to_topic(bootstrap, "clicks-with-context"), enrich)
    query = (
        views.writeStream.queryName("click-stream")
        .option("checkpointLocation", str(folder / "clicks"))
        .foreachBatch(write)
        .start()
    )
    query.processAllAvailable()
    for topic, rows in later().items():
        append(bootstrap, topic, [(row["user"], row) for row in rows])
    query.processAllAvailable()
    query.stop()
    result = table(spark, bootstrap, "clicks-with-context", RESULT)
    result.orderBy("time").show(truncate=False)
    return result


if __name__ == "__main__":
    run_alone(example, __doc__)
