"""The ten stocks that gained most, in two phases: the gain of each symbol, then the ten largest of all.

The first phase runs per symbol, wherever its trades are; only its result, one row a symbol, meets in one place.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import drain, publish, run_alone, stream

SCHEMA = "symbol STRING, price DOUBLE, number LONG"


def sample(count: int = 600, symbols: int = 40, seed: int = 5) -> list[dict[str, Any]]:
    """A day of prices; `number` orders them."""
    chance = random.Random(seed)
    return [
        {"symbol": f"S{chance.randrange(symbols):02}", "price": round(chance.uniform(50, 150), 2), "number": number}
        for number in range(count)
    ]


def gain_per_symbol(prices: DataFrame) -> DataFrame:
    """Phase one: the last price of the day against the first."""
    ends = prices.groupBy("symbol").agg(
        F.min_by("price", "number").alias("opened"), F.max_by("price", "number").alias("closed")
    )
    return ends.withColumn("gain", F.col("closed") / F.col("opened") - 1)


def top_ten(gains: DataFrame) -> DataFrame:
    """Phase two: all symbols in one place."""
    return gains.orderBy(F.desc("gain"), "symbol").limit(10)


def example(spark: SparkSession, bootstrap: str, folder: Path) -> DataFrame:
    publish(bootstrap, "prices", [(row["symbol"], row) for row in sample()], partitions=4)
    best = top_ten(gain_per_symbol(stream(spark, bootstrap, "prices", SCHEMA)))
    drain(best.writeStream.queryName("top_gainers").format("memory").outputMode("complete"), folder / "gainers")
    result = spark.table("top_gainers")
    result.show()
    return result


if __name__ == "__main__":
    run_alone(example, __doc__)
