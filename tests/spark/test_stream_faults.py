"""Streams through a real Spark session whose broker goes away for good, or comes back with less than it had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.reading import Collected, Reads, produce, run_to_end, started
from tests.support.admin import admin_client, create_topic
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.waiting import wait_until

PATIENCE = 240.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    running = Broker(tmp_path / "broker", port=free_port())
    running.start()
    yield running
    running.kill()


def test_a_broker_that_goes_away_for_good(spark: SparkSession, own_broker: Broker, topic: str, tmp_path: Path) -> None:
    create_topic(admin_client(own_broker.address), topic)
    produce(own_broker.address, topic, ["one"])
    collected = Collected()
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.default.api.timeout.ms": "2000"}
    writer = (
        Reads(spark, own_broker.address)
        .stream(**options)
        .writeStream.foreachBatch(lambda batch, number: collected.batches.update({number: batch.collect()}))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = started(writer, lambda: collected.values() == ["one"])
    try:
        own_broker.kill()
        wait_until(lambda: not query.isActive, "the query gives up", PATIENCE)
        problem = str(query.exception())
    finally:
        query.stop()
    assert "ClusterUnavailable" in problem
    assert f"no answer from the cluster of kafka.bootstrap.servers ({own_broker.address})" in problem
    assert "start again: a stream goes on from its checkpoint" in problem

    own_broker.start()
    produce(own_broker.address, topic, ["two"])
    after = run_to_end(Reads(spark, own_broker.address).stream(**options), tmp_path / "checkpoint")
    assert after.values()[-1:] == ["two"]


def test_a_log_that_was_cut_is_read_on_at_its_end(
    spark: SparkSession, own_broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(admin_client(own_broker.address), topic)
    for value in ("one", "two", "three"):
        produce(own_broker.address, topic, [value])
    reads = Reads(spark, own_broker.address)
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "fetchOffset.retryIntervalMs": "20",
    }
    assert len(run_to_end(reads.stream(**options), tmp_path / "checkpoint").rows()) == 3
    own_broker.kill()
    (segment,) = (own_broker.data / f"{topic}-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    own_broker.start()

    cut = run_to_end(reads.stream(**options), tmp_path / "checkpoint")
    assert list(cut.batches.values()) == [[]], "a batch without rows records the new place"
    produce(own_broker.address, topic, ["another three", "four"])
    after = run_to_end(reads.stream(**options), tmp_path / "checkpoint")
    assert [(row.offset, bytes(row.value)) for row in after.rows()] == [(2, b"another three"), (3, b"four")]
