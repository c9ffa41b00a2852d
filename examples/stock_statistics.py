"""Stock statistics: for ten tickers the lowest ask, the number of trades and the mean ask, over 5 s, every second.

The results go to a topic, keyed by ticker and start of the window.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import as_records, drain, fresh_topic, publish, run_alone, stream, table, to_topic

SCHEMA = "ticker STRING, ask DOUBLE, size INT, time TIMESTAMP"
RESULT = "key STRING, ticker STRING, start TIMESTAMP, lowest DOUBLE, trades LONG, mean DOUBLE"
TICKERS = ("MMM", "ABT", "ABBV", "ACN", "ATVI", "AYI", "ADBE", "AAP", "AES", "AET")


def sample(count: int = 500, seed: int = 11) -> list[dict[str, Any]]:
    """Trades of one minute, and one of the next hour that closes the windows."""
    chance, start = random.Random(seed), datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    rows = [
        {
            "ticker": chance.choice(TICKERS),
            "ask": round(chance.uniform(90, 110), 2),
            "size": chance.randrange(1, 500),
            "time": (start + timedelta(milliseconds=number * 60_000 // count)).isoformat(),
        }
        for number in range(count)
    ]
    return [*rows, {"ticker": "CLOCK", "ask": 0.0, "size": 0, "time": (start + timedelta(hours=1)).isoformat()}]


def statistics(trades: DataFrame) -> DataFrame:
    window = F.window("time", "5 seconds", "1 second").alias("window")
    grouped = trades.withWatermark("time", "10 seconds").groupBy(window, "ticker")
    result = grouped.agg(F.min("ask").alias("lowest"), F.count("*").alias("trades"), F.avg("ask").alias("mean"))
    start = F.col("window.start")
    return result.select(
        F.concat_ws("@", "ticker", start).alias("key"), "ticker", start.alias("start"), "lowest", "trades", "mean"
    )


def example(spark: SparkSession, bootstrap: str, folder: Path) -> DataFrame:
    publish(bootstrap, "trades", [(row["ticker"], row) for row in sample()])
    fresh_topic(bootstrap, "stock-statistics")
    result = as_records(statistics(stream(spark, bootstrap, "trades", SCHEMA)), "key")
    writer = result.writeStream.format("moldau").queryName("stock-statistics")
    drain(writer, folder / "stocks", **to_topic(bootstrap, "stock-statistics"))
    written = table(spark, bootstrap, "stock-statistics", RESULT)
    written.orderBy("ticker", "start").show(10, truncate=False)
    return written


if __name__ == "__main__":
    run_alone(example, __doc__)
