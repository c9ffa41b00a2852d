"""Click-stream enrichment: page views, with the profile of the user and what was searched within one second before.

Views left-join profiles (a table, from a topic) and left-join searches (a stream): a view of an unknown user, or
without a search, still comes out.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import as_records, drain, fresh_topic, publish, run_alone, stream, table, to_topic

PROFILE = "user STRING, name STRING, interests ARRAY<STRING>"
SEARCH = "user STRING, words STRING, time TIMESTAMP"
VIEW = "user STRING, page STRING, time TIMESTAMP"
RESULT = "user STRING, page STRING, time TIMESTAMP, name STRING, words STRING"
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


def latest_profiles(records: DataFrame) -> DataFrame:
    """The newest profile of each user: a topic read as a table."""
    rows = records.select("key", "offset", F.from_json(F.col("value").cast("string"), PROFILE).alias("row"))
    return rows.groupBy("key").agg(F.max_by("row", "offset").alias("row")).select("row.*")


def enrich(views: DataFrame, searches: DataFrame, profiles: DataFrame) -> DataFrame:
    seen = views.withWatermark("time", "10 seconds").join(profiles, "user", "left")
    asked = searches.withWatermark("time", "10 seconds")
    asked = asked.select(F.col("user").alias("searcher"), "words", F.col("time").alias("searched"))
    together = F.expr("user = searcher AND searched BETWEEN time - INTERVAL 1 SECOND AND time")
    return seen.join(asked, together, "left").select("user", "page", "time", "name", "words")


def example(spark: SparkSession, bootstrap: str, folder: Path) -> DataFrame:
    for topic, rows in sample().items():
        publish(bootstrap, topic, [(row["user"], row) for row in rows])
    fresh_topic(bootstrap, "clicks-with-context")
    profiles = latest_profiles(table(spark, bootstrap, "profiles"))
    enriched = enrich(stream(spark, bootstrap, "views", VIEW), stream(spark, bootstrap, "searches", SEARCH), profiles)
    writer = as_records(enriched, "user").writeStream.format("moldau").queryName("click-stream")
    drain(writer, folder / "clicks", **to_topic(bootstrap, "clicks-with-context"))
    result = table(spark, bootstrap, "clicks-with-context", RESULT)
    result.orderBy("time").show(truncate=False)
    return result


if __name__ == "__main__":
    run_alone(example, __doc__)
