"""A topic that is deleted while a stream reads it: the query ends and says so, or goes on with the next one."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.reading import SECONDS, Collected, Reads, produce, started
from tests.support.admin import create_topic, delete_topic
from tests.support.waiting import wait_until


def running(reads: Reads, checkpoint: Path, collected: Collected, **options: str) -> StreamingQuery:
    def keep(batch: object, number: int) -> None:
        collected.batches[number] = batch.collect()  # type: ignore[attr-defined]

    writer = reads.stream(startingOffsets="earliest", **options).writeStream.foreachBatch(keep)
    return started(writer.option("checkpointLocation", str(checkpoint)), lambda: collected.values() == ["one"])


@pytest.fixture
def reads(spark: SparkSession, address: str) -> Reads:
    return Reads(spark, address)


def test_the_query_ends_and_names_it(reads: Reads, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    create_topic(admin, topic)
    produce(reads.address, topic, ["one"])
    query = running(reads, tmp_path, Collected(), subscribe=topic)
    delete_topic(admin, topic)
    with pytest.raises(StreamingQueryException, match=f"topic {topic} was deleted; it had been read up to 0: 1"):
        query.awaitTermination(SECONDS)


def test_or_it_goes_on_with_the_one_that_is_created_anew(
    reads: Reads, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    create_topic(admin, topic)
    produce(reads.address, topic, ["one"])
    collected = Collected()
    query = running(reads, tmp_path, collected, subscribe=topic, failOnDataLoss="false")
    delete_topic(admin, topic)
    create_topic(admin, topic)
    produce(reads.address, topic, ["three", "two"])
    wait_until(lambda: collected.values() == ["one", "three", "two"], "the new topic's records arrive", SECONDS)
    assert query.isActive
    query.stop()
