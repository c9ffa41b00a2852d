"""A sensor pipeline: JSON readings, some of them broken, to three results.

Hot temperatures are picked out; the mean per sensor type over five minutes, every minute; readings per minute. The
results are JSON files that a restart never doubles.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import drain, publish, run_alone, stream

SCHEMA = "deviceId STRING, timestamp TIMESTAMP, sensorType STRING, value DOUBLE"
HOT = 35.0
LATE = "2 minutes"


def sample(count: int = 400, seed: int = 8) -> list[Any]:
    """Readings of one hour; every twentieth line is broken. The last one, much later, closes every window."""
    chance, start = random.Random(seed), datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows: list[Any] = []
    for number in range(count):
        kind = chance.choice(["temperature", "humidity"])
        time = start + timedelta(seconds=number * 9 - chance.randrange(60))
        value = round(chance.uniform(15, 40), 1)
        row = {"deviceId": f"d{chance.randrange(9)}", "timestamp": time.isoformat(), "sensorType": kind, "value": value}
        rows.append("{" if number % 20 == 7 else row)
    later = (start + timedelta(hours=9)).isoformat()
    return [*rows, {"deviceId": "clock", "timestamp": later, "sensorType": "clock", "value": 0.0}]


def readable(readings: DataFrame) -> DataFrame:
    return readings.where("deviceId IS NOT NULL AND timestamp IS NOT NULL AND value IS NOT NULL")


def hot_temperatures(readings: DataFrame) -> DataFrame:
    return readings.where((F.col("sensorType") == "temperature") & (F.col("value") > HOT))


def mean_per_type(readings: DataFrame) -> DataFrame:
    window = F.window("timestamp", "5 minutes", "1 minute").alias("window")
    return readings.withWatermark("timestamp", LATE).groupBy(window, "sensorType").agg(F.avg("value").alias("mean"))


def readings_per_minute(readings: DataFrame) -> DataFrame:
    window = F.window("timestamp", "1 minute").alias("window")
    return readings.withWatermark("timestamp", LATE).groupBy(window, "sensorType").count()


RESULTS = {"hot": hot_temperatures, "mean": mean_per_type, "count": readings_per_minute}


def run(spark: SparkSession, bootstrap: str, folder: Path) -> dict[str, DataFrame]:
    """Each result as a folder of JSON files; run again, it goes on where it was."""
    readings = readable(stream(spark, bootstrap, "sensors", SCHEMA))
    for name, result in RESULTS.items():
        writer = result(readings).writeStream.format("json").outputMode("append").queryName(f"sensor-{name}")
        drain(writer, folder / "checkpoints" / name, path=str(folder / name))
    return {name: spark.read.json(str(folder / name)) for name in RESULTS}


def example(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    publish(bootstrap, "sensors", [(None, row) for row in sample()])
    for name, result in run(spark, bootstrap, folder).items():
        print(name)
        result.show(5, truncate=False)


if __name__ == "__main__":
    run_alone(example, __doc__)
