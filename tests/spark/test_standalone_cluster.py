"""A job on a standalone cluster with two workers: nothing assumes local mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.spark_cluster import StandaloneCluster

SECONDS = 500
JOB = """
import json, os, sys
from pyspark.sql import functions as F
from moldau.spark import session

master, bootstrap, topic, checkpoint = sys.argv[1:]
small = {"spark.executor.cores": 1, "spark.cores.max": 2, "spark.executor.memory": "512m"}
spark = session("cluster", master, ui=False, settings={**small, "spark.driver.host": "127.0.0.1"})
place = {"kafka.bootstrap.servers": bootstrap}
numbers = spark.range(1000, numPartitions=4).select(F.col("id").cast("string").cast("binary").alias("value"))
numbers.write.format("moldau").options(**place, topic=topic).mode("append").save()
read = spark.readStream.format("moldau").options(**place, subscribe=topic, startingOffsets="earliest").load()
doubled = read.select((F.col("value").cast("string").cast("long") * 2).cast("string").cast("binary").alias("value"))
query = doubled.writeStream.format("moldau").options(**place, topic=topic + "-doubled", checkpointLocation=checkpoint)
query.queryName("doubling").trigger(availableNow=True).start().awaitTermination()
out = spark.read.format("moldau").options(**place, subscribe=topic + "-doubled").load()
total = out.agg(F.count("*"), F.sum(F.col("value").cast("string").cast("long"))).collect()[0]
folders = spark.range(8, numPartitions=8).rdd.mapPartitions(lambda rows: [os.getcwd()]).distinct().count()
partitions = spark.conf.get("spark.sql.shuffle.partitions")
print(json.dumps({"count": total[0], "sum": total[1], "workers": folders, "partitions": partitions}))
"""


@pytest.mark.timeout(900)
def test_a_pipeline_runs_on_two_workers(broker: Broker, topic: str, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        done = subprocess.run(
            [sys.executable, str(script), cluster.address, broker.address, topic, str(tmp_path / "checkpoint")],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "count": 1000,
        "sum": 999_000,
        "workers": 2,
        "partitions": "2",
    }
