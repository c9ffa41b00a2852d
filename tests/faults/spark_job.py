"""The job of spark_chaos: from topic to topic, each id once, on a standalone cluster; runs until it is killed.

python -m tests.faults.spark_job MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT SPLITS

SPLITS is how many tasks a batch is read and, if it is the query's first start, shuffled by: another layout.
"""

from __future__ import annotations

import sys

from moldau.spark import session

SETTINGS = {
    "spark.cores.max": 2,
    "spark.executor.cores": 1,
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.task.maxFailures": 4,
    "spark.sql.streaming.minBatchesToRetain": 3,
}


def main(master: str, bootstrap: str, source: str, target: str, checkpoint: str, splits: str) -> None:
    spark = session("chaos", master, ui=False, settings={**SETTINGS, "spark.sql.shuffle.partitions": splits})
    place = {"kafka.bootstrap.servers": bootstrap}
    events = (
        spark.readStream.format("moldau")
        .options(**place, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="400")
        .option("minPartitions", splits)
        .load()
    )
    each_once = events.selectExpr("cast(value AS string) AS id").dropDuplicates(["id"])
    rows = each_once.selectExpr("id AS key", "concat('seen-', id) AS value")
    query = rows.writeStream.format("moldau").options(**place, topic=target, checkpointLocation=checkpoint)
    query.trigger(processingTime="100 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
