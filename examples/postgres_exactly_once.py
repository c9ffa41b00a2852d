"""Exactly once into PostgreSQL: the results and the offsets they came from are stored in one transaction.

Whatever crashes and whenever: after a restart the database says where to go on, so the job needs no checkpoint of
Spark's at all. It begins with `startingOffsets` from the table of offsets, and each batch commits its
rows together with the offsets behind them, or neither.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import stream
from moldau.spark import session

TABLES = """
CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, amount BIGINT NOT NULL, payments BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, part INT, next BIGINT NOT NULL, PRIMARY KEY (topic, part));
"""
ADD = """
INSERT INTO totals VALUES (%s, %s, %s) ON CONFLICT (account)
DO UPDATE SET amount = totals.amount + excluded.amount, payments = totals.payments + excluded.payments
"""
MOVE = "INSERT INTO offsets VALUES (%s, %s, %s) ON CONFLICT (topic, part) DO UPDATE SET next = excluded.next"
BATCH = "100"
SCHEMA = "account STRING, amount LONG"


def stored_offsets(connection: psycopg.Connection, topic: str, partitions: int) -> str:
    """Where the database is, as `startingOffsets`; -2 (earliest) for partitions it knows nothing of."""
    rows = connection.execute("SELECT part, next FROM offsets WHERE topic = %s", (topic,)).fetchall()
    known: dict[int, int] = dict(rows)
    return json.dumps({topic: {str(number): known.get(number, -2) for number in range(partitions)}})


def store(connection: psycopg.Connection, batch: DataFrame, step: Callable[[str], None]) -> None:
    """One transaction: the batch's sums and the offsets after it. `step` is told how far it has come."""
    batch = batch.persist()
    payment = F.from_json(F.col("value").cast("string"), SCHEMA)
    sums = (
        batch.select(payment.alias("payment"))
        .groupBy("payment.account")
        .agg(F.sum("payment.amount").alias("amount"), F.count("*").alias("payments"))
    )
    ends = batch.groupBy("topic", "partition").agg((F.max("offset") + 1).alias("next"))
    sum_rows, end_rows = sums.collect(), ends.collect()
    batch.unpersist()
    with connection.transaction():
        step("before the results")
        for row in sum_rows:
            connection.execute(ADD, (row["account"], row["amount"], row["payments"]))
        step("between results and offsets")
        for row in end_rows:
            connection.execute(MOVE, (row["topic"], row["partition"], row["next"]))
        step("before the commit")
    step("after the commit")


def run(
    spark: SparkSession,
    bootstrap: str,
    database: str,
    topic: str,
    partitions: int = 2,
    step: Callable[[str], None] = lambda _: None,
) -> None:
    """Bring the database up to date with the topic."""
    with psycopg.connect(database, autocommit=True) as connection, tempfile.TemporaryDirectory() as folder:
        connection.execute(TABLES)
        start = stored_offsets(connection, topic, partitions)
        payments = stream(spark, bootstrap, topic, startingOffsets=start, maxOffsetsPerTrigger=BATCH)
        writer = payments.writeStream.foreachBatch(lambda batch, _: store(connection, batch, step))
        # The folder is new each time: Spark's own memory of the offsets is not used.
        query = writer.option("checkpointLocation", str(Path(folder))).trigger(availableNow=True).start()
        query.awaitTermination()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bootstrap", default="127.0.0.1:9092")
    options.add_argument("--database", required=True, help="postgresql://user@host/name")
    options.add_argument("--topic", default="payments")
    given = options.parse_args()
    spark = session("payments", "local[*]", ui=False)
    run(spark, given.bootstrap, given.database, given.topic)
    with psycopg.connect(given.database) as connection:
        for account, amount, payments in connection.execute("SELECT * FROM totals ORDER BY account"):
            print(account, amount, payments)
    spark.stop()


if __name__ == "__main__":
    main()
