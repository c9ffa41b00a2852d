"""Where streams begin, which partitions they read and how long they wait, through a real Spark session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.reading import Collected, Reads, produce, run_to_end, started
from tests.support.admin import create_topic
from tests.support.waiting import wait_until

FIRST_MS = 1_700_000_000_000
PATIENCE = 240.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def reads(spark: SparkSession, address: str, admin: AdminClient, topic: str) -> Reads:
    """Partition p of the topic holds p/0 to p/3, a second apart from FIRST_MS on; partition 1 ends at p/1."""
    create_topic(admin, topic, 2, {"retention.ms": -1})
    for partition, count in ((0, 4), (1, 2)):
        values = [f"{partition}/{number}" for number in range(count)]
        produce(address, topic, values, partition, [FIRST_MS + 1000 * number for number in range(count)])
    return Reads(spark, address)


def failure(frame: DataFrame, checkpoint: Path) -> str:
    with pytest.raises(PySparkException) as caught:
        run_to_end(frame, checkpoint)
    return str(caught.value)


def test_a_stream_that_begins_at_a_time(reads: Reads, topic: str, tmp_path: Path) -> None:
    since = {"startingTimestamp": str(FIRST_MS + 1000)}
    # It goes before both others.
    every = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": json.dumps({topic: {"0": 0, "1": 0}})}
    found = run_to_end(reads.stream(subscribe=topic, **since, **every), tmp_path / "all")
    assert found.values() == ["0/1", "0/2", "0/3", "1/1"]
    produce(reads.address, topic, ["1/later"], 1)
    after = run_to_end(reads.stream(subscribe=topic, startingTimestamp="0"), tmp_path / "all")
    assert after.values() == ["1/later"], "a checkpoint goes before where a new query begins"


def test_a_stream_that_begins_at_a_time_for_each_partition(reads: Reads, topic: str, tmp_path: Path) -> None:
    times = json.dumps({topic: {"0": FIRST_MS + 2500, "1": FIRST_MS}})
    found = run_to_end(
        reads.stream(subscribe=topic, startingOffsetsByTimestamp=times, startingOffsets="latest"), tmp_path / "each"
    )
    assert found.values() == ["0/3", "1/0", "1/1"]
    incomplete = reads.stream(subscribe=topic, startingOffsetsByTimestamp=json.dumps({topic: {"0": FIRST_MS}}))
    assert f"names no place for {topic}-1" in failure(incomplete, tmp_path / "incomplete")


def test_a_time_after_the_last_record(reads: Reads, topic: str, tmp_path: Path) -> None:
    times = {
        "startingTimestamp": str(FIRST_MS + 2000),
        "startingOffsetsByTimestamp": json.dumps({topic: {"0": FIRST_MS + 2000, "1": FIRST_MS + 2000}}),
    }
    for name, value in times.items():
        options = {"subscribe": topic, name: value}
        for number, strategy in enumerate(({}, {"startingOffsetsByTimestampStrategy": "error"})):
            problem = failure(reads.stream(**options, **strategy), tmp_path / f"{name}-{number}")
            assert f"no record at or after {FIRST_MS + 2000} in {topic}-1" in problem
        latest = {"startingOffsetsByTimestampStrategy": "latest", **options}
        found = run_to_end(reads.stream(**latest), tmp_path / name)
        assert found.values() == ["0/2", "0/3"]
        produce(reads.address, topic, [f"1/after {name}"], 1, [FIRST_MS + 1])
        after = run_to_end(reads.stream(**latest), tmp_path / name)
        assert after.values() == [f"1/after {name}"], "it had begun at the end of partition 1"


def test_assigned_partitions(reads: Reads, topic: str, tmp_path: Path) -> None:
    options = {"assign": json.dumps({topic: [1]}), "startingOffsets": json.dumps({topic: {"1": 1}})}
    assert run_to_end(reads.stream(**options), tmp_path / "one").values() == ["1/1"]
    for partition in (0, 1):
        produce(reads.address, topic, [f"{partition}/later"], partition)
    assert run_to_end(reads.stream(**options), tmp_path / "one").values() == ["1/later"]
    problem = failure(reads.stream(assign=json.dumps({topic: [1, 7]})), tmp_path / "other")
    assert f"assign names {topic}-7, which does not exist" in problem


def test_a_delay_after_which_too_few_records_are_enough(reads: Reads, topic: str, tmp_path: Path) -> None:
    collected = Collected()
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": "1000000",
        "maxTriggerDelay": "500ms",
    }
    writer = (
        reads.stream(**options)
        .writeStream.foreachBatch(lambda batch, number: collected.batches.update({number: batch.collect()}))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = started(writer, lambda: bool(collected.rows()))
    try:
        for count in (1, 2):
            produce(reads.address, topic, ["later"], 1)
            wait_until(lambda count=count: len(collected.rows()) == 6 + count, "the delay is over", PATIENCE)  # type: ignore[misc]
        assert query.isActive
    finally:
        query.stop()
