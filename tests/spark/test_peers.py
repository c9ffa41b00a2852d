"""Our source on Apache Kafka, and Spark's own connector on our broker. `make conformance` runs these."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from moldau.spark.listener import ProgressListener
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.secured_kafka import PASSWORD, USER, secured_kafka
from tests.spark.connector_worker import ROWS
from tests.spark.reading import SECONDS, Reads, produce, run, run_to_end
from tests.support.admin import admin_client, create_topic, log_range
from tests.support.sink import read_committed
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    peer = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    peer.start()
    yield peer
    peer.stop()


def test_our_source_reads_apache_kafka(spark: SparkSession, kafka: ApacheKafka, topic: str, tmp_path: Path) -> None:
    admin = admin_client(kafka.address)
    reads = Reads(spark, kafka.address)
    create_topic(admin, topic, 2)
    expected = []
    for codec in CODECS:
        values = [f"{codec}-{number}" for number in range(200)]
        produce(kafka.address, topic, values, **{"compression.type": codec})
        expected += values
    aborting = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic, "log_level": 0})
    aborting.init_transactions(SECONDS)
    aborting.begin_transaction()
    for partition in (0, 1):
        aborting.produce(topic, b"aborted", partition=partition)
    assert aborting.flush(SECONDS) == 0
    aborting.abort_transaction(SECONDS)
    rows = reads.batch(subscribe=topic, minPartitions="5", includeHeaders="true").collect()
    assert sorted(bytes(row.value).decode() for row in rows) == sorted(expected)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "600", "group.id": topic}
    streamed = run_to_end(reads.stream(**options), tmp_path / "checkpoint")
    assert streamed.values() == sorted(expected)
    assert len(streamed.batches) >= 2
    assert lag(admin, topic) == 0


LOGINS = {
    "PLAIN": {"kafka.sasl.username": USER, "kafka.sasl.password": PASSWORD},
    "SCRAM-SHA-512": {
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{PASSWORD}";'
    },
    # Only librdkafka knows this one.
    "OAUTHBEARER": {
        "kafka.enable.sasl.oauthbearer.unsecure.jwt": "true",
        "kafka.sasl.oauthbearer.config": f"principal={USER}",
    },
}


WRITE_LOGINS = {
    **{mechanism: login for mechanism, login in LOGINS.items() if mechanism != "OAUTHBEARER"},
    "SCRAM-SHA-256": {"kafka.sasl.jaas.config": f"ScramLoginModule required username={USER} password={PASSWORD};"},
}
NO_OPTIONS: Mapping[str, str] = {}


def test_every_way_to_log_in_reads_the_same_rows(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    with secured_kafka(tmp_path / "kafka") as kafka:
        create_topic(admin_client(kafka.open_address), topic, 2)
        produce(kafka.open_address, topic, [str(number) for number in range(1000)], **{"compression.type": "zstd"})
        expected = Reads(spark, kafka.open_address).batch(subscribe=topic).orderBy("partition", "offset").collect()
        assert len(expected) == 1000
        for mechanism, login in LOGINS.items():
            options = {
                "subscribe": topic,
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": mechanism,
                **login,
            }
            reads = Reads(spark, kafka.address)
            assert reads.batch(**options).orderBy("partition", "offset").collect() == expected, mechanism
            group = {"startingOffsets": "earliest", "kafka.group.id": f"{topic}-{mechanism}"}
            streamed = run_to_end(reads.stream(**options, **group), tmp_path / mechanism)
            assert len(streamed.rows()) == 1000, mechanism
            assert lag(admin_client(kafka.open_address), f"{topic}-{mechanism}") == 0, mechanism


def test_the_session_logs_in_to_publish_what_is_consumed(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    """As `session(lag={…})` does: the query itself names no group."""
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    listener = ProgressListener(properties=login)
    with secured_kafka(tmp_path / "kafka") as kafka:
        admin = admin_client(kafka.open_address)
        create_topic(admin, topic, 2)
        produce(kafka.open_address, topic, [str(number) for number in range(10)])
        spark.streams.addListener(listener)
        try:
            options = {f"kafka.{key}": value for key, value in login.items()}
            reads = Reads(spark, kafka.address)
            rows = reads.stream(subscribe=topic, startingOffsets="earliest", **options)
            assert len(run_to_end(rows, tmp_path / "checkpoint", name=topic).rows()) == 10
            wait_until(lambda: is_known(admin, topic), "the group is told", SECONDS)
            assert lag(admin, topic) == 0
        finally:
            spark.streams.removeListener(listener)


def is_known(admin: AdminClient, group: str) -> bool:
    """Asking for its offsets too early, before Kafka has a coordinator, would end this process in librdkafka."""
    return group in {each.group_id for each in admin.list_consumer_groups().result(30).valid}


def test_our_sink_writes_apache_kafka_exactly_once(
    spark: SparkSession, kafka: ApacheKafka, topic: str, tmp_path: Path
) -> None:
    admin = admin_client(kafka.address)
    source = f"{topic}-in"
    for name in (source, topic):
        create_topic(admin, name, 2)
    produce(kafka.address, source, [str(number) for number in range(500)])
    write_batch_twice(spark, kafka.address, topic, {})
    frame = Reads(spark, kafka.address).stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="200")
    stream(
        frame.selectExpr("key", "concat('streamed ', cast(value AS string)) AS value"), kafka.address, topic, tmp_path
    )
    expected = [f"batch {number}" for number in range(300)] + [f"streamed {number}" for number in range(500)]
    assert read_committed(kafka.address, topic) == Counter(expected)


def test_logging_in_to_write(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    with secured_kafka(tmp_path / "kafka") as kafka:
        for mechanism, login in WRITE_LOGINS.items():
            name = f"{topic}-{mechanism}"
            create_topic(admin_client(kafka.open_address), name, 2)
            options = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": mechanism, **login}
            write_batch_twice(spark, kafka.address, name, options)
            produce(kafka.open_address, f"{name}-in", [str(number) for number in range(100)])
            frame = Reads(spark, kafka.open_address).stream(subscribe=f"{name}-in", startingOffsets="earliest")
            values = frame.selectExpr("key", "concat('streamed ', cast(value AS string)) AS value")
            stream(values, kafka.address, name, tmp_path / mechanism, options)
            expected = [f"batch {number}" for number in range(300)] + [f"streamed {number}" for number in range(100)]
            assert read_committed(kafka.open_address, name) == Counter(expected), mechanism


def write_batch_twice(spark: SparkSession, address: str, topic: str, options: dict[str, str]) -> None:
    """A job that is run again adds nothing."""
    frame = spark.range(0, 300, 1, 3).selectExpr("concat('batch ', id) AS value")
    job = {"topic": topic, "delivery": "exactly-once", "queryId": f"job-{topic}", "batchId": "0"}
    for _ in range(2):
        writer = frame.write.format("moldau").options(**{"kafka.bootstrap.servers": address, **job, **options})
        writer.mode("append").save()


def stream(
    frame: DataFrame, address: str, topic: str, checkpoint: Path, options: Mapping[str, str] = NO_OPTIONS
) -> None:
    writer = frame.writeStream.format("moldau").options(
        **{"kafka.bootstrap.servers": address, "topic": topic, "checkpointLocation": str(checkpoint), **options}
    )
    run(writer.trigger(availableNow=True))


def lag(admin: AdminClient, group: str) -> int:
    (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return sum(
        log_range(admin, each.topic, each.partition)[1] - each.offset for each in found.result(30).topic_partitions
    )


def test_sparks_own_connector_reads_and_writes_our_broker(
    admin: AdminClient, address: str, topic: str, tmp_path: Path
) -> None:
    create_topic(admin, topic, 3)
    create_topic(admin, f"{topic}-copy", 2)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connector_worker", address, topic, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    written = [ROWS, sum(range(ROWS))]
    assert seen["kafka"] == seen["moldau"] == written
    # The second half was copied by our source, from the checkpoint of the other connector.
    assert seen["copied"] == [2 * ROWS, sum(range(2 * ROWS))]
