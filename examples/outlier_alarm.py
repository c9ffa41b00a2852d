"""The outlier alarm: a message for each value that is more than five deviations away from its device's mean.

State is three numbers a device (count, mean, sum of squares), whatever number of readings there were.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from common import drain, publish, run_alone, stream

SCHEMA = "device STRING, number LONG, value DOUBLE"
DEVIATIONS = 5
ENOUGH = 20


def sample(count: int = 300, seed: int = 4) -> list[dict[str, Any]]:
    """Values around 10, with one of 1000 planted on device d1."""
    chance = random.Random(seed)
    rows = [
        {"device": f"d{number % 3}", "number": number, "value": round(10 + chance.uniform(-0.5, 0.5), 3)}
        for number in range(count)
    ]
    rows[count // 3 * 2]["value"] = 1000.0
    rows[count // 3 * 2]["device"] = "d1"
    return rows


class Outliers(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "count LONG, mean DOUBLE, squares DOUBLE")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        count, mean, squares = self._seen.get() or (0, 0.0, 0.0)
        for row in sorted(rows, key=lambda row: row.number):
            if count >= ENOUGH and abs(row.value - mean) > DEVIATIONS * math.sqrt(squares / count):
                yield Row(device=row.device, number=row.number, value=row.value)
                continue
            count += 1
            step = row.value - mean
            mean += step / count
            squares += step * (row.value - mean)
        self._seen.update((count, mean, squares))

    def close(self) -> None:
        """Nothing to close."""


def outliers(readings: DataFrame) -> DataFrame:
    return readings.groupBy("device").transformWithState(Outliers(), SCHEMA, outputMode="Append", timeMode="None")


def example(spark: SparkSession, bootstrap: str, folder: Path) -> list[Row]:
    publish(bootstrap, "measurements", [(row["device"], row) for row in sample()])
    found = outliers(stream(spark, bootstrap, "measurements", SCHEMA, maxOffsetsPerTrigger="200"))
    drain(found.writeStream.queryName("outliers").format("memory"), folder / "outliers")
    result: list[Row] = spark.table("outliers").collect()
    print(*result, sep="\n")
    return result


if __name__ == "__main__":
    run_alone(example, __doc__)
