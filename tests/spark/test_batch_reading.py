"""Batch reads through a real Spark session: every option that has a meaning for them."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from tests.spark.reading import SECONDS, Reads, produce
from tests.support.admin import admin_client, create_topic, delete_records
from tests.support.broker import Broker

FIRST_MS = 1_700_000_000_000
ROWS = 30
TOPIC = "batch-reading"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def filled(broker: Broker, spark: SparkSession) -> Reads:
    """Three partitions; partition p holds ten records, record i of which was written at FIRST_MS + 1000 i + p."""
    create_topic(admin_client(broker.address), TOPIC, 3, {"retention.ms": -1})
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for number in range(ROWS):
        partition, offset = number % 3, number // 3
        producer.produce(
            TOPIC,
            None if offset == 9 else f"{partition}/{offset}".encode(),
            key=None if offset == 0 else str(offset).encode(),
            partition=partition,
            timestamp=FIRST_MS + 1000 * offset + partition,
            headers=[("at", str(offset).encode()), ("none", None)] if offset % 2 else None,
        )
    assert producer.flush(SECONDS) == 0
    return Reads(spark, broker.address)


def every(first: int = 0, end: int = 10, partitions: tuple[int, ...] = (0, 1, 2)) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in partitions for offset in range(first, end)]


def tasks(frame: DataFrame) -> int:
    return frame.select(spark_partition_id()).distinct().count()


def failure(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


def test_rows_have_the_columns_of_sparks_own_connector(filled: Reads) -> None:
    frame = filled.batch(subscribe=TOPIC, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == every()
    for row in rows:
        assert row.topic == TOPIC
        assert row.timestampType == 0
        assert row.ms == FIRST_MS + 1000 * row.offset + row.partition
        assert row.key == (None if row.offset == 0 else str(row.offset).encode())
        assert row.value == (None if row.offset == 9 else f"{row.partition}/{row.offset}".encode())
        expected = [("at", str(row.offset).encode()), ("none", None)] if row.offset % 2 else None
        assert (row.headers and [(each.key, each.value) for each in row.headers]) == expected


def test_only_the_columns_that_are_asked_for_are_built(filled: Reads) -> None:
    assert filled.batch(subscribe=TOPIC, columns="offset, value").columns == ["offset", "value"]
    chosen = filled.batch(schema="timestamp TIMESTAMP, partition INT", subscribe=TOPIC)
    assert chosen.groupBy("partition").count().count() == 3
    assert filled.batch(subscribe=TOPIC).count() == ROWS
    assert "'offest'" in failure(filled.batch(schema="offest BIGINT", subscribe=TOPIC))
    assert "cannot be NOT NULL" in failure(filled.batch(schema="offset BIGINT NOT NULL", subscribe=TOPIC))
    assert "'value' is binary here, not string" in failure(filled.batch(schema="value STRING", subscribe=TOPIC))


def test_where_a_read_begins_and_ends(filled: Reads) -> None:
    places = filled.places
    at = json.dumps({TOPIC: {"0": 7, "1": -2, "2": -2}})
    assert places(subscribe=TOPIC, startingOffsets=at) == every(7, 10, (0,)) + every(partitions=(1, 2))
    until = json.dumps({TOPIC: {"0": 2, "1": -1, "2": 0}})
    assert places(subscribe=TOPIC, endingOffsets=until) == every(0, 2, (0,)) + every(partitions=(1,))
    since = str(FIRST_MS + 8000)
    assert places(subscribe=TOPIC, startingTimestamp=since) == every(8)
    assert places(subscribe=TOPIC, endingTimestamp=since) == every(0, 8)
    times = json.dumps({TOPIC: {"0": FIRST_MS + 8001, "1": FIRST_MS, "2": FIRST_MS + 9002}})
    mixed = every(9, 10, (0,)) + every(partitions=(1,)) + every(9, 10, (2,))
    assert places(subscribe=TOPIC, startingOffsetsByTimestamp=times) == mixed
    assert places(subscribe=TOPIC, endingOffsetsByTimestamp=times) == sorted(set(every()) - set(mixed))
    late = str(FIRST_MS + 9001)
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert places(subscribe=TOPIC, startingTimestamp=late, **strategy) == every(9, 10, (1, 2))
    assert f"{TOPIC}-0" in failure(filled.batch(subscribe=TOPIC, startingTimestamp=late))


def test_what_is_read(filled: Reads) -> None:
    others = {"kafkaConsumer.pollTimeoutMs": "60000", "fetchOffset.numRetries": "3", "kafka.max.poll.records": "9"}
    assert filled.places(assign=json.dumps({TOPIC: [1]}), **others) == every(partitions=(1,))
    assert filled.places(subscribePattern=r"\Qbatch\E-re[a-d]{2}ing") == every()
    assert filled.places(subscribePattern="batch") == []
    missing = failure(filled.batch(subscribe=TOPIC + "s"))
    assert f"topic '{TOPIC}s' does not exist; did you mean '{TOPIC}'?" in missing
    assert f"{TOPIC}-5" in failure(filled.batch(assign=json.dumps({TOPIC: [0, 5]})))


def test_how_many_tasks_read(filled: Reads) -> None:
    assert tasks(filled.batch(subscribe=TOPIC)) == 3
    assert tasks(filled.batch(subscribe=TOPIC, minPartitions="7")) == 7
    assert tasks(filled.batch(subscribe=TOPIC, maxRecordsPerPartition="4")) == 9
    assert filled.places(subscribe=TOPIC, minPartitions="11", maxRecordsPerPartition="4") == every()


def test_filters_are_pushed_down(filled: Reads) -> None:
    spark = filled.spark
    frame = filled.batch(subscribe=TOPIC, pushdown="true", columns="partition,offset,timestamp")
    assert "spark.sql.python.filterPushdown.enabled" in failure(frame.where("offset > 5"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for condition, expected, task_count in (
            ("partition = 1", every(partitions=(1,)), 1),
            ("partition IN (0, 2) AND offset >= 8", every(8, 10, (0, 2)), 2),
            ("offset < 3 AND offset <> 1", [place for place in every(0, 3) if place[1] != 1], 3),
            (f"timestamp >= timestamp_millis({FIRST_MS + 9001})", every(9, 10, (1, 2)), 2),
            (f"timestamp = timestamp_millis({FIRST_MS + 9001})", every(9, 10, (1,)), 1),
            (f"timestamp < timestamp_millis({FIRST_MS + 1000})", every(0, 1), 3),
            ("partition = 1 OR offset = 0", sorted({*every(partitions=(1,)), *every(0, 1)}), 3),
            ("topic = 'other'", [], 0),
        ):
            kept = filled.batch(subscribe=TOPIC, pushdown="true").where(condition)
            rows = kept.select("partition", "offset", spark_partition_id().alias("task")).collect()
            assert sorted((row.partition, row.offset) for row in rows) == expected, condition
            assert len({row.task for row in rows}) == task_count, condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_filters_on_time_find_what_is_older_than_1970(
    spark: SparkSession, address: str, admin: AdminClient, topic: str
) -> None:
    reads = Reads(spark, address)
    create_topic(admin, topic, 1, {"retention.ms": -1})
    times_ms = (-250_000_000_000, -1, 0, 5000, FIRST_MS, -1)
    rows = ", ".join(f"({number}, {time})" for number, time in enumerate(times_ms))
    frame = spark.sql(f"SELECT string(n) AS value, timestamp_millis(t) AS timestamp FROM VALUES {rows} AS (n, t)")
    frame.coalesce(1).write.format("moldau").mode("append").options(**reads.options({"topic": topic})).save()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for since, count in (("1960-01-01", 6), ("1969-12-31 23:59:59.999", 5), ("1970-01-01", 3), ("1970-01-02", 1)):
            found = {
                pushdown: sorted(
                    bytes(row.value)
                    for row in reads.batch(subscribe=topic, pushdown=pushdown)
                    .where(f"timestamp >= timestamp'{since}'")
                    .collect()
                )
                for pushdown in ("false", "true")
            }
            assert found["true"] == found["false"], since
            assert len(found["true"]) == count, since
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_aborted_and_undecided_records(spark: SparkSession, address: str, admin: AdminClient, topic: str) -> None:
    reads = Reads(spark, address)
    create_topic(admin, topic)
    settings = {"bootstrap.servers": address, "log_level": 0}
    decided, open_one = (Producer({**settings, "transactional.id": f"{topic}-{name}"}) for name in ("a", "b"))
    decided.init_transactions(SECONDS)
    open_one.init_transactions(SECONDS)
    for value, ends_well in (("good", True), ("bad", False), ("fine", True)):
        decided.begin_transaction()
        decided.produce(topic, value.encode())
        assert decided.flush(SECONDS) == 0
        (decided.commit_transaction if ends_well else decided.abort_transaction)(SECONDS)
    open_one.begin_transaction()
    open_one.produce(topic, b"undecided")
    assert open_one.flush(SECONDS) == 0
    produce(address, topic, ["after"])

    def values(**options: str) -> list[str]:
        rows = reads.batch(subscribe=topic, columns="value", minPartitions="4", **options).collect()
        return sorted(bytes(row.value).decode() for row in rows)

    assert values() == ["fine", "good"]
    everything = ["after", "bad", "fine", "good", "undecided"]
    assert values(**{"isolation.level": "read_uncommitted"}) == everything
    assert values(**{"kafka.isolation.level": "read_uncommitted"}) == everything
    open_one.commit_transaction(SECONDS)
    assert values() == ["after", "fine", "good", "undecided"]


def test_records_that_have_expired(spark: SparkSession, address: str, admin: AdminClient, topic: str) -> None:
    reads = Reads(spark, address)
    create_topic(admin, topic)
    produce(address, topic, ["a", "b", "c", "d"])
    delete_records(admin, topic, 2)
    start = json.dumps({topic: {"0": 1}})
    problem = failure(reads.batch(subscribe=topic, startingOffsets=start))
    assert f"startingOffsets names offset 1 of {topic}-0, which holds 2 to 4" in problem
    assert "failOnDataLoss" in problem
    assert reads.places(subscribe=topic, startingOffsets=start, failOnDataLoss="false") == [(0, 2), (0, 3)]
    assert reads.places(subscribe=topic) == [(0, 2), (0, 3)]


def test_bad_options_are_told_where_the_read_is_described(filled: Reads) -> None:
    for wrong, expected in (
        ({"subscribe": TOPIC, "startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"subscribe": TOPIC, "subscribePattern": ".*"}, "option 'subscribePattern': contradicts subscribe"),
        ({"subscribe": TOPIC, "columns": "offest"}, "there is no column 'offest'; did you mean 'offset'?"),
        ({"subscribe": TOPIC, "kafka.auto.offset.reset": "earliest"}, "use startingOffsets and failOnDataLoss"),
        ({"subscribe": TOPIC, "kafka.fetch.max.wait": "1"}, "did you mean 'kafka.fetch.max.wait.ms'?"),
    ):
        with pytest.raises(PySparkException) as caught:
            filled.batch(**wrong)
        assert expected in str(caught.value)


def test_a_broker_that_is_away_is_told_in_seconds(spark: SparkSession) -> None:
    nobody = Reads(spark, "127.0.0.1:9")
    problem = failure(nobody.batch(subscribe="t", **{"kafka.default.api.timeout.ms": "2000"}))
    assert "no answer from the cluster of kafka.bootstrap.servers (127.0.0.1:9)" in problem
