"""Spark's own Kafka connector in a process of its own: its jars cannot be added to a running session.

    python -m tests.spark.connector_worker ADDRESS TOPIC FOLDER

writes, reads and streams with `format("kafka")`, goes on with `format("moldau")` from that stream's checkpoint, and
prints what it saw as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from moldau.spark import session
from tests.peers.spark_connector import spark_jars
from tests.spark.reading import run

ROWS = 500


def main(address: str, topic: str, folder: Path) -> None:
    spark = session("connector", "local[2]", ui=False, settings={"spark.jars": spark_jars()})
    try:
        print(json.dumps(results(spark, address, topic, folder)))
    finally:
        spark.stop()


def results(spark: SparkSession, address: str, topic: str, folder: Path) -> dict[str, object]:
    servers = {"kafka.bootstrap.servers": address}
    reading = {**servers, "subscribe": topic, "startingOffsets": "earliest"}

    def write(first: int, end: int) -> None:
        rows = spark.range(first, end).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
        rows.write.format("kafka").options(**servers, topic=topic).save()

    def total(source: str, name: str) -> list[int]:
        frame = spark.read.format(source).options(**servers, subscribe=name).load()
        row = frame.selectExpr("count(*)", "coalesce(sum(CAST(CAST(value AS STRING) AS BIGINT)), 0)").first()
        assert row is not None
        return [int(each) for each in row]

    def copy(source: str) -> None:
        frame = spark.readStream.format(source).options(**reading).load().select("key", "value")
        writer = frame.writeStream.format("kafka").options(**servers, topic=f"{topic}-copy")
        run(writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True))

    write(0, ROWS)
    seen: dict[str, object] = {"kafka": total("kafka", topic), "moldau": total("moldau", topic)}
    copy("kafka")
    write(ROWS, 2 * ROWS)
    copy("moldau")
    return seen | {"copied": total("moldau", f"{topic}-copy")}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
