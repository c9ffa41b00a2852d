"""Counting votes with a crash: voters cannot be asked again, so the tally must be exact whatever happens.

With `--crash-after N` the job kills itself, its JVM included, in the middle of batch N. Started again with the same
`--checkpoint` it goes on: no vote is lost, none is counted twice.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import stream
from moldau.spark import session

VOTES_PER_BATCH = "150"


def tally(votes: DataFrame) -> DataFrame:
    return votes.groupBy(F.col("value").cast("string").alias("party")).count()


def count(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path, during: Callable[[int], None] | None = None
) -> dict[str, int]:
    """Count all votes that are there; `during` is called in the middle of every batch. Returns the final tally."""
    board: dict[str, int] = {}

    def publish(counts: DataFrame, batch: int) -> None:
        rows = counts.collect()
        if during is not None:
            during(batch)
        board.update((row["party"], row["count"]) for row in rows)

    votes = stream(spark, bootstrap, topic, maxOffsetsPerTrigger=VOTES_PER_BATCH)
    writer = tally(votes).writeStream.outputMode("complete").foreachBatch(publish).queryName("votes")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return board


def crash(spark: SparkSession) -> None:
    """As if the power went: the JVM first, then this process."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.proc.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bootstrap", default="127.0.0.1:9092")
    options.add_argument("--topic", default="votes")
    options.add_argument("--checkpoint", type=Path, required=True)
    options.add_argument("--crash-after", type=int, metavar="N")
    given = options.parse_args()
    spark = session("votes", "local[2]", ui=False)

    def maybe_crash(batch: int) -> None:
        if batch == given.crash_after:
            crash(spark)

    print(json.dumps(count(spark, given.bootstrap, given.topic, given.checkpoint, maybe_crash)))
    spark.stop()


if __name__ == "__main__":
    main()
