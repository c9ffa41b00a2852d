"""Web-log analytics: first on a sample at rest, then the same on the stream.

Batch: the most requested URLs per day, then content pages only (no images, no scripts). Streaming: trending URLs,
counted per five minutes of event time, every minute. The fields are those of NASA's log: host, timestamp, request,
http_reply, bytes. Both share their functions.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import drain, publish, run_alone, stream, table

SCHEMA = "host STRING, timestamp TIMESTAMP, request STRING, http_reply INT, bytes LONG"
URL = r"^GET (\S+)"
CONTENT = ("", ".html", ".htm")
PAGES = {
    "/images/NASA-logosmall.gif": 12,
    "/shuttle/missions/sts-70/liftoff.html": 7,
    "/shuttle/countdown/": 6,
    "/cgi-bin/imagemap.pl": 4,
    "/history/apollo.htm": 2,
    "/": 5,
}


def sample(count: int = 600, seed: int = 13) -> list[dict[str, Any]]:
    """Requests of two days in July 1995, one every few minutes."""
    chance, start = random.Random(seed), datetime(1995, 7, 13, tzinfo=UTC)
    return [
        {
            "host": f"host{chance.randrange(40)}.example",
            "timestamp": (start + timedelta(seconds=number * 250 + chance.randrange(250))).isoformat(),
            "request": f"GET {chance.choices(list(PAGES), list(PAGES.values()))[0]} HTTP/1.0",
            "http_reply": 200,
            "bytes": chance.randrange(10_000),
        }
        for number in range(count)
    ]


def with_url(logs: DataFrame) -> DataFrame:
    return logs.withColumn("url", F.regexp_extract("request", URL, 1)).where("url <> ''")


def content_pages(logs: DataFrame) -> DataFrame:
    """Keep pages: the extension is what follows the first dot in the last five characters, if there is one."""
    extension = F.regexp_extract(F.expr("right(url, 5)"), r"(\..*)$", 1)
    return logs.where(extension.isin(*CONTENT))


def urls_per_day(logs: DataFrame) -> DataFrame:
    return logs.groupBy(F.dayofmonth("timestamp").alias("day"), "url").count()


def trending(logs: DataFrame) -> DataFrame:
    return logs.groupBy(F.window("timestamp", "5 minutes", "1 minute").alias("window"), "url").count()


def batch(spark: SparkSession, bootstrap: str) -> tuple[DataFrame, DataFrame]:
    """The rankings of the sample at rest: every URL, and content pages."""
    logs = with_url(table(spark, bootstrap, "web-logs", SCHEMA))
    return urls_per_day(logs), urls_per_day(content_pages(logs))


def streaming(spark: SparkSession, bootstrap: str, folder: Path) -> DataFrame:
    """The table `urlranks`, which the stream keeps."""
    ranks = trending(with_url(stream(spark, bootstrap, "web-logs", SCHEMA)))
    drain(ranks.writeStream.queryName("urlranks").format("memory").outputMode("complete"), folder / "urlranks")
    return spark.table("urlranks")


def example(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    publish(bootstrap, "web-logs", [(row["host"], row) for row in sample()])
    for ranking in (*batch(spark, bootstrap), streaming(spark, bootstrap, folder)):
        ranking.orderBy(F.desc("count"), "url").show(8, truncate=False)


if __name__ == "__main__":
    run_alone(example, __doc__)
