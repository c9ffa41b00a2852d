"""The Kappa switch-over: a new version of a job reads the log from its beginning, is compared, and takes over.

Version 1 counts clicks per page; it treats `/page` and `/page/` as two. Version 2 does not. Version 2 runs as a second
query with a checkpoint and an output topic of its own, beside version 1, which nobody stops until the results are good.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import append, as_records, drain, fresh_topic, publish, run_alone, stream, table, to_topic

PAGES = ("/apollo", "/apollo/", "/shuttle/", "/shuttle", "/facts")
RESULT = "page STRING, count LONG"
Version = Callable[[DataFrame], DataFrame]


def sample(count: int, seed: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    return [(page, page) for page in chance.choices(PAGES, k=count)]


def version_1(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy(F.col("value").cast("string").alias("page")).count()


def version_2(clicks: DataFrame) -> DataFrame:
    page = F.regexp_replace(F.col("value").cast("string"), "(.)/$", "$1")
    return clicks.groupBy(page.alias("page")).count()


def run(spark: SparkSession, bootstrap: str, folder: Path, name: str, version: Version) -> dict[str, int]:
    """Bring one version up to date; it goes on where its own checkpoint is. Returns the newest count of each page."""
    counts = as_records(version(stream(spark, bootstrap, "clicks")), "page")
    writer = counts.writeStream.format("moldau").outputMode("complete").queryName(f"clicks-{name}")
    drain(writer, folder / name, **to_topic(bootstrap, f"clicks-{name}"))
    rows = table(spark, bootstrap, f"clicks-{name}").select(
        F.col("key").cast("string").alias("page"),
        "offset",
        F.from_json(F.col("value").cast("string"), RESULT).alias("row"),
    )
    newest = rows.groupBy("page").agg(F.max_by("row.count", "offset").alias("count"))
    return {row["page"]: row["count"] for row in newest.collect()}


def example(spark: SparkSession, bootstrap: str, folder: Path) -> dict[str, dict[str, int]]:
    publish(bootstrap, "clicks", sample(300, seed=1))
    for name in ("v1", "v2"):
        fresh_topic(bootstrap, f"clicks-{name}")
    run(spark, bootstrap, folder, "v1", version_1)
    append(bootstrap, "clicks", sample(100, seed=2))  # the world goes on
    views = {
        "v1": run(spark, bootstrap, folder, "v1", version_1),
        "v2": run(spark, bootstrap, folder, "v2", version_2),  # from the first offset, to the same end
    }
    good = sum(views["v1"].values()) == sum(views["v2"].values())
    print(views, "switch to version 2" if good else "stay with version 1", sep="\n")
    return views


if __name__ == "__main__":
    run_alone(example, __doc__)
