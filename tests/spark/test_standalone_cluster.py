"""A job on a standalone cluster with two workers: nothing assumes local mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.admin import create_topic
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
one = spark.range(1, numPartitions=1).rdd
(zipped,) = one.mapPartitions(lambda rows: [".zip" in sys.modules["pyspark"].__file__]).collect()
print(json.dumps({"count": total[0], "sum": total[1], "workers": folders, "partitions": partitions, "zipped": zipped}))
"""


SPECULATING_JOB = """
import json, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import functions as F
from moldau.spark import session

master, bootstrap, topic, folder = sys.argv[1:]
settings = {
    "spark.executor.cores": 1, "spark.cores.max": 2, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1", "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
}
spark = session("speculating", master, ui=False, settings=settings)
place = {"kafka.bootstrap.servers": bootstrap}

@F.udf("string")
def stumble(value):
    "The first attempt of one task stops in the middle of its rows; when it does, a second attempt overtakes it."
    task = TaskContext.get()
    stopped = Path(folder, "stopped")
    if task.partitionId() == 0 and task.attemptNumber() == 0 and int(value) == 600:
        stopped.touch()
        time.sleep(60)
    while task.partitionId() == 0 and task.attemptNumber() > 0 and not stopped.exists():
        time.sleep(0.1)
    Path(folder, f"attempt-{task.partitionId()}-{task.attemptNumber()}").touch()
    return value

numbers = spark.range(1000, numPartitions=1).select(F.col("id").cast("string").alias("value"))
numbers = numbers.withColumn("partition", F.lit(0)).union(numbers.withColumn("partition", F.lit(1)))
numbers.write.format("moldau").options(**place, topic=topic).mode("append").save()
read = spark.readStream.format("moldau").options(**place, subscribe=topic, startingOffsets="earliest").load()
slow = read.select(stumble(F.col("value").cast("string")).alias("value"))
query = slow.writeStream.format("moldau").options(**place, topic=topic + "-out")
query = query.option("checkpointLocation", folder + "/checkpoint")
query.queryName("stumbling").trigger(availableNow=True).start().awaitTermination()
out = spark.read.format("moldau").options(**place, subscribe=topic + "-out").load()
counts = out.groupBy(F.col("value").cast("string").cast("int").alias("n")).count().groupBy("count").count().collect()
attempts = sorted(path.name for path in Path(folder).glob("attempt-0-*"))
print(json.dumps({"attempts": attempts, "times": {str(row[0]): row[1] for row in counts}}))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def run(job: str, folder: Path, *arguments: str) -> Any:
    """What the job prints last."""
    script = folder / "job.py"
    script.write_text(job)
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(900)
def test_a_pipeline_runs_on_two_workers(cluster: StandaloneCluster, broker: Broker, topic: str, tmp_path: Path) -> None:
    found = run(JOB, tmp_path, cluster.address, broker.address, topic, str(tmp_path / "checkpoint"))
    assert found == {"count": 1000, "sum": 999_000, "workers": 2, "partitions": "2", "zipped": False}


@pytest.mark.timeout(900)
def test_a_task_that_another_attempt_overtakes_writes_once(
    cluster: StandaloneCluster, admin: AdminClient, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(admin, topic, 2)
    create_topic(admin, f"{topic}-out", 2)
    found = run(SPECULATING_JOB, tmp_path, cluster.address, broker.address, topic, str(tmp_path))
    assert found["attempts"][:2] == ["attempt-0-0", "attempt-0-1"]
    assert found["times"] == {"2": 1000}  # each number stood in both partitions
