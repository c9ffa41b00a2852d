"""Streams through a real Spark session: every option that has a meaning for them, restarts, and data that is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from tests.spark.reading import Collected, Reads, produce, run, run_to_end, started
from tests.support.admin import add_partitions, admin_client, create_topic, delete_records, delete_topic, partitions_of
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.waiting import wait_until

PATIENCE = 240.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def reads(spark: SparkSession, address: str) -> Reads:
    return Reads(spark, address)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def committed(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions}


def numbers(first: int, end: int) -> list[str]:
    return [f"{number:03}" for number in range(first, end)]


def failure(frame: DataFrame, checkpoint: Path) -> str:
    with pytest.raises(PySparkException) as caught:
        run_to_end(frame, checkpoint)
    return str(caught.value)


def test_limited_batches_a_restart_and_what_is_new(
    reads: Reads, admin: AdminClient, topic: str, checkpoint: Path
) -> None:
    create_topic(admin, topic, 2)
    for partition in (0, 1):
        produce(reads.address, topic, numbers(20 * partition, 20 * partition + 20), partition)
    options = {
        "subscribePattern": f"{topic}.*",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "30",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "1h",
        "kafka.group.id": f"{topic}-group",
    }
    first = run_to_end(reads.stream(**options), checkpoint)
    assert first.values() == numbers(0, 40)
    assert [len(rows) for rows in first.batches.values()] == [30, 10]
    # The last batch too: it is told when Spark asks whether there is more.
    assert committed(admin, f"{topic}-group") == {(topic, 0): 20, (topic, 1): 20}

    add_partitions(admin, topic, 3)
    wait_until(lambda: len(partitions_of(admin, topic)) == 3, "the new partition is there")
    create_topic(admin, f"{topic}-more")
    produce(reads.address, topic, ["new partition"], 2)
    produce(reads.address, f"{topic}-more", ["new topic"])
    produce(reads.address, topic, ["old partition"], 1)
    second = run_to_end(reads.stream(**options | {"startingOffsets": "latest"}), checkpoint)
    assert second.values() == ["new partition", "new topic", "old partition"]
    assert run_to_end(reads.stream(**options), checkpoint).rows() == []


def test_a_replayed_batch_is_the_same_task_by_task(
    reads: Reads, admin: AdminClient, topic: str, checkpoint: Path
) -> None:
    create_topic(admin, topic, 2)
    produce(reads.address, topic, numbers(0, 40), 0)
    layouts: list[list[tuple[int, int, int]]] = []

    def note(batch: DataFrame, _: int) -> None:
        rows = batch.select(spark_partition_id().alias("task"), "partition", "offset").collect()
        layouts.append(sorted((row.task, row.partition, row.offset) for row in rows))

    def crash(batch: DataFrame, number: int) -> None:
        note(batch, number)
        if layouts[-1]:
            raise RuntimeError("crash before the batch is done")

    options = {"subscribe": topic, "startingOffsets": "earliest"}
    with pytest.raises(PySparkException, match="crash before the batch is done"):
        run_to_end(reads.stream(minPartitions="3", **options), checkpoint, crash)
    produce(reads.address, topic, numbers(40, 50), 1)
    # Another place to begin, another number of tasks, more data: the recorded batch does not care.
    after = run_to_end(reads.stream(subscribe=topic, maxRecordsPerPartition="5"), checkpoint, note)
    assert layouts[1] == layouts[0]
    assert len({task for task, _, _ in layouts[0]}) == 3
    assert after.values() == numbers(0, 50)


def test_a_running_query_finds_what_is_new_and_outlives_a_broker(
    spark: SparkSession, tmp_path: Path, topic: str, checkpoint: Path
) -> None:
    broker = Broker(tmp_path / "broker", port=free_port())
    broker.start()
    try:
        reads = Reads(spark, broker.address)
        admin = admin_client(broker.address)
        create_topic(admin, topic)
        produce(broker.address, topic, ["before the query"])
        collected = Collected()
        options = {
            "subscribePattern": f"{topic}.*",
            "groupIdPrefix": "team",
            "minOffsetsPerTrigger": "2",
            "maxTriggerDelay": "1h",
            "partition.metadata.cache.ttl.ms": "100",
        }
        writer = (
            reads.stream(**options)
            .writeStream.foreachBatch(lambda batch, number: collected.batches.update({number: batch.collect()}))
            .queryName(f"query-{topic}")
            .option("checkpointLocation", str(checkpoint))
        )
        query = started(writer, lambda: 0 in collected.batches)
        try:
            produce(broker.address, topic, ["one"])
            wait_until(lambda: collected.values() == ["one"], "the first record arrives at once", PATIENCE)
            create_topic(admin, f"{topic}-more")
            produce(broker.address, f"{topic}-more", ["two"])
            produce(broker.address, topic, ["two"])
            wait_until(lambda: collected.values() == ["one", "two", "two"], "a new topic is found", PATIENCE)
            assert [len(rows) for rows in collected.batches.values() if rows] == [1, 2], "two come together"
            broker.kill()
            broker.start()
            produce(broker.address, topic, ["zzz", "zzz"])
            wait_until(lambda: collected.values()[3:] == ["zzz", "zzz"], "it goes on after the crash", PATIENCE)
            group = f"team-query-{topic}"
            wait_until(
                lambda: committed(admin, group) == {(topic, 0): 5, (f"{topic}-more", 0): 1},
                "the session's listener has published the last batch",
                PATIENCE,
            )
            assert query.isActive
        finally:
            query.stop()
    finally:
        broker.kill()


def test_a_topic_that_is_deleted_and_created_anew(
    reads: Reads, admin: AdminClient, topic: str, checkpoint: Path
) -> None:
    create_topic(admin, topic)
    produce(reads.address, topic, numbers(0, 3))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run_to_end(reads.stream(**options), checkpoint)
    delete_topic(admin, topic)
    assert f"topic {topic} was deleted; it had been read up to 0: 3" in failure(reads.stream(**options), checkpoint)
    create_topic(admin, topic)
    produce(reads.address, topic, numbers(3, 8))
    problem = failure(reads.stream(**options), checkpoint)
    assert f"topic {topic} was deleted and created anew" in problem
    assert "failOnDataLoss=false" in problem
    after = run_to_end(reads.stream(failOnDataLoss="false", **options), checkpoint)
    assert after.values() == numbers(3, 8)


def test_records_that_expire_under_a_stream(reads: Reads, admin: AdminClient, topic: str, checkpoint: Path) -> None:
    create_topic(admin, topic)
    produce(reads.address, topic, numbers(0, 3))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run_to_end(reads.stream(**options), checkpoint)
    produce(reads.address, topic, numbers(3, 8))
    delete_records(admin, topic, 5)
    problem = failure(reads.stream(**options), checkpoint)
    assert f"{topic}-0" in problem
    assert "failOnDataLoss=false" in problem
    after = run_to_end(reads.stream(failOnDataLoss="false", **options), checkpoint)
    assert after.values() == numbers(5, 8)


def test_the_checkpoint_of_another_query(reads: Reads, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    create_topic(admin, topic)
    create_topic(admin, f"{topic}-other")
    produce(reads.address, topic, numbers(0, 2))
    run_to_end(reads.stream(subscribe=topic, startingOffsets="earliest"), tmp_path / "ours")
    problem = failure(reads.stream(subscribe=f"{topic}-other", failOnDataLoss="false"), tmp_path / "ours")
    assert "belongs to another query; use another checkpointLocation" in problem

    rate = reads.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    run(rate.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "rate")).trigger(once=True))
    problem = failure(reads.stream(subscribe=topic), tmp_path / "rate")
    assert "format 'moldau' did not write" in problem


def test_wrong_options_and_places_of_a_stream(reads: Reads, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    create_topic(admin, topic, 2)
    for number, (wrong, expected) in enumerate(
        (
            ({"endingOffsets": "latest"}, "option 'endingOffsets': has no meaning for a stream read"),
            ({"startingOffsets": json.dumps({topic: {"0": 0}})}, f"names no place for {topic}-1"),
            ({"subscribe": f"{topic}-gone"}, f"topic '{topic}-gone' does not exist; did you mean '{topic}'?"),
        )
    ):
        frame = reads.stream(**{"subscribe": topic, **wrong})
        assert expected in failure(frame, tmp_path / str(number))
