"""Writing through real Spark: columns, options, output modes, and what a replayed batch does."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.partitioner.default import murmur2
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.spark import exactly_once, write_batch
from moldau.spark.output_modes import OutputModeUnsupported
from moldau.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.spark.reading import ATTEMPTS, SECONDS, Reads, produce, run
from tests.support.admin import create_topic
from tests.support.process import free_port
from tests.support.sink import read_committed

PARTITIONS = 3
FOR_EVER = {"retention.ms": -1}
"""Rows may carry old timestamps."""
SLOW_START = "Python worker failed to connect back"
"""Spark gives its own Python process ten seconds to start, whatever else the machine has to do."""


@pytest.fixture
def target(admin: AdminClient, topic: str) -> str:
    create_topic(admin, topic, PARTITIONS, FOR_EVER)
    return topic


@pytest.fixture
def source(admin: AdminClient, topic: str, address: str) -> str:
    """A topic with the values 0 to 11 in two partitions."""
    name = f"{topic}-in"
    create_topic(admin, name, 2)
    produce(address, name, [str(number) for number in range(12)])
    return name


@pytest.fixture
def reads(spark: SparkSession, address: str) -> Reads:
    return Reads(spark, address)


def written(address: str, topic: str, count: int) -> list[Message]:
    """The committed messages of a topic, by another client."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "nobody", "enable.auto.commit": False})
    try:
        found = consumer.list_topics(topic, SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        return consumer.consume(count, SECONDS)
    finally:
        consumer.close()


def transactional_ids(address: str, prefix: str) -> set[str]:
    """Those that the broker lists."""
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": address})) as cluster:
        answer = cluster.any(ListTransactionsRequest(), ListTransactionsResponse)
    return {each.transactional_id for each in answer.transaction_states if each.transactional_id.startswith(prefix)}


def save(frame: DataFrame, address: str, **options: str) -> None:
    frame.write.format("moldau").options(**{"kafka.bootstrap.servers": address, **options}).mode("append").save()


def streaming(frame: DataFrame, address: str, checkpoint: Path, **options: str) -> DataStreamWriter:
    writer = frame.writeStream.format("moldau").options(**{"kafka.bootstrap.servers": address, **options})
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def failure(action: Callable[[], object]) -> str:
    for _ in range(ATTEMPTS):
        with pytest.raises(PySparkException) as caught:
            action()
        if SLOW_START not in str(caught.value):
            break
    return str(caught.value)


def outcome(writer: DataStreamWriter) -> str:
    """What a query fails with."""
    return failure(lambda: writer.start().awaitTermination(SECONDS))


class TestBatch:
    def test_every_column(self, spark: SparkSession, address: str, target: str, admin: AdminClient) -> None:
        create_topic(admin, f"{target}-other", 1, FOR_EVER)
        rows = [
            ("a", b"one", [("h", b"1"), ("h", None)], target, None, datetime(2026, 1, 2, tzinfo=UTC)),
            ("b", None, [], target, 2, None),
            (None, b"", None, f"{target}-other", 0, datetime(1969, 12, 31, 23, 59, 59, 999500, tzinfo=UTC)),
        ]
        schema = (
            "key string, value binary, headers array<struct<key:string,value:binary>>, topic string, partition int, "
            "timestamp timestamp"
        )
        save(spark.createDataFrame(rows, schema), address)
        messages = {bytes(message.key() or b""): message for message in written(address, target, 2)}
        first, second = messages[b"a"], messages[b"b"]
        assert (first.value(), first.headers()) == (b"one", [("h", b"1"), ("h", None)])
        assert first.timestamp()[1] == 1767312000000
        assert first.partition() == (murmur2(b"a") & 0x7FFFFFFF) % PARTITIONS
        assert (second.value(), second.partition(), second.headers()) == (None, 2, None)
        (third,) = written(address, f"{target}-other", 1)
        assert (third.key(), third.value(), third.timestamp()[1]) == (None, b"", -1)

    def test_keys_go_where_kafkas_clients_send_them(self, spark: SparkSession, address: str, target: str) -> None:
        frame = spark.range(300).selectExpr("concat('key-', id) AS key", "cast(id AS string) AS value")
        save(frame, address, topic=target)
        for message in written(address, target, 300):
            assert message.partition() == (murmur2(message.key()) & 0x7FFFFFFF) % PARTITIONS

    def test_rows_without_keys_are_spread(self, spark: SparkSession, address: str, target: str) -> None:
        save(spark.range(3000).selectExpr("cast(id AS string) AS value"), address, topic=target)
        spread = Counter(message.partition() for message in written(address, target, 3000))
        assert min(spread[partition] for partition in range(PARTITIONS)) > 500

    def test_clients_properties(self, spark: SparkSession, address: str, target: str) -> None:
        frame = spark.range(2000).selectExpr("cast(id AS string) AS value")
        options = {"kafka.compression.type": "zstd", "kafka.batch.size": "4096", "kafka.acks": "1"}
        save(frame, address, topic=target, **options)
        assert read_committed(address, target) == Counter(map(str, range(2000)))

    def test_exactly_once_leaves_no_markers(
        self, spark: SparkSession, address: str, target: str, admin: AdminClient
    ) -> None:
        frame = spark.range(0, 100, 1, 5).selectExpr("cast(id AS string) AS value")
        save(frame, address, topic=target, delivery="exactly-once")
        assert read_committed(address, target) == Counter(map(str, range(100)))
        groups = admin.list_consumer_groups().result(SECONDS).valid
        assert not [group.group_id for group in groups if target in group.group_id]

    def test_transactional_ids_bear_their_prefix(
        self, spark: SparkSession, address: str, target: str, admin: AdminClient
    ) -> None:
        frame = spark.range(0, 100, 1, 3).selectExpr("cast(id AS string) AS value")
        job = {"delivery": "exactly-once", "queryId": "nightly", "batchId": "0"}
        prefix = f"team-{target}"[-200:]
        save(frame, address, topic=target, transactionalIdPrefix=prefix, sinkId="copy", **job)
        assert read_committed(address, target) == Counter(map(str, range(100)))
        ids = transactional_ids(address, prefix)
        assert {f"{prefix}/nightly/copy/{task}" for task in range(3)} <= ids
        assert all(each.startswith(f"{prefix}/nightly/copy/") for each in ids)
        groups = {group.group_id for group in admin.list_consumer_groups().result(SECONDS).valid}
        assert f"__moldau_sink/{prefix}/nightly/copy" in groups

    def test_a_stage_of_a_few_bytes(self, spark: SparkSession, address: str, target: str) -> None:
        """The transactions open long before the input has ended; a run that is repeated still adds nothing."""
        frame = spark.range(0, 5000, 1, 2).selectExpr("cast(id AS string) AS value")
        job = {"delivery": "exactly-once", "queryId": f"job-{target}", "batchId": "0"}
        for _ in range(2):
            save(frame, address, topic=target, stageBytes="10", **job, **{"kafka.batch.size": "200"})
        assert read_committed(address, target) == Counter(map(str, range(5000)))

    @pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
    def test_a_broker_that_is_away(self, spark: SparkSession, delivery: str) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        frame = spark.range(3).selectExpr("cast(id AS string) AS value")
        options = {"topic": "t", "delivery": delivery, "kafka.default.api.timeout.ms": "300"}
        said = failure(lambda: save(frame, nobody, **options))
        assert f"no answer from the cluster of kafka.bootstrap.servers ({nobody})" in said
        assert "Check that it runs and that its listeners can be reached from here" in said

    def test_a_named_batch_can_be_written_again(self, spark: SparkSession, address: str, target: str) -> None:
        options = {"topic": target, "delivery": "exactly-once", "queryId": f"job-{target}"}
        for batch in (0, 0, 1, 1):
            frame = spark.range(10).selectExpr(f"concat({batch}, '-', id) AS value")
            save(frame, address, batchId=str(batch), **options)
        expected = Counter(f"{batch}-{number}" for batch in range(2) for number in range(10))
        assert read_committed(address, target) == expected
        other = spark.range(11).selectExpr("cast(id AS string) AS value")
        assert "of batch 1 committed 5 rows" in failure(lambda: save(other, address, batchId="1", **options))
        assert "was rewound or copied" in failure(lambda: save(other, address, batchId="0", **options))

    def test_two_hundred_tasks_with_ten_rows(self, spark: SparkSession, address: str, target: str) -> None:
        frame = spark.range(10).repartition(200, "id").selectExpr("cast(id AS string) AS value")
        save(frame, address, topic=target, delivery="exactly-once")
        assert read_committed(address, target) == Counter(map(str, range(10)))

    def test_what_is_refused_before_a_row_is_written(self, spark: SparkSession, address: str) -> None:
        for column, options, problem in (
            ("id AS value", {"topic": "t"}, "column 'value' is bigint; it has to be binary or string"),
            ("'x' AS value", {}, "a topic is needed: the option 'topic', or a column 'topic'"),
            ("'x' AS value", {"topic": "t", "delivry": "x"}, "did you mean 'delivery'?"),
            ("'x' AS value", {"topic": "t", "value.schema": "not a schema <<"}, "'value.schema': has no meaning when"),
            ("'x' AS value", {"topic": "t", "key.format": "json"}, "'key.format': has no meaning: there is no column"),
            ("'x' AS value", {"topic": "t", "sinkId": "s"}, "'sinkId': has no meaning with delivery=at-least-once"),
        ):
            frame = spark.range(1).selectExpr(column)
            assert problem in failure(lambda frame=frame, options=options: save(frame, address, **options))

    def test_a_topic_is_not_overwritten(self, spark: SparkSession, address: str, target: str) -> None:
        writer = spark.range(1).selectExpr("'x' AS value").write.format("moldau")
        ready = writer.options(**{"kafka.bootstrap.servers": address, "topic": target}).mode("overwrite")
        assert "a topic cannot be overwritten; use append" in failure(ready.save)

    def test_rows_that_are_refused(self, spark: SparkSession, address: str, target: str) -> None:
        for columns, problem in (
            ("'x' AS value, cast(null AS string) AS topic", "column 'topic' is null in a row"),
            (f"'x' AS value, '{target}' AS topic, {PARTITIONS} AS partition", "column 'partition': row 0 names"),
        ):
            assert problem in failure(lambda c=columns: save(spark.range(1).selectExpr(*split(c)), address))

    @pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
    def test_a_time_that_the_topic_refuses(self, spark: SparkSession, address: str, target: str, delivery: str) -> None:
        frame = spark.sql("SELECT 'x' AS value, timestamp'9999-12-31 00:00:00' AS timestamp")
        problem = failure(lambda: save(frame, address, topic=target, delivery=delivery))
        assert f"RowRefused: column 'timestamp': {target}-" in problem
        assert "message.timestamp.after.max.ms" in problem
        assert read_committed(address, target) == Counter()

    def test_headers_need_no_option(self, spark: SparkSession, address: str, target: str) -> None:
        for number, option in enumerate(({}, {"includeHeaders": "true"}, {"includeHeaders": "false"})):
            frame = spark.sql(
                f"SELECT '{number}' AS value, array(struct('h' AS key, X'{number:02d}' AS value)) AS headers"
            )
            save(frame, address, topic=target, **option)
        found = {message.value(): message.headers() for message in written(address, target, 3)}
        assert found == {str(n).encode(): [("h", bytes([n]))] for n in range(3)}
        assert "'includeHeaders': 'maybe' is neither" in failure(
            lambda: save(frame, address, topic=target, includeHeaders="maybe")
        )

    def test_typed_values(self, spark: SparkSession, address: str, target: str) -> None:
        frame = spark.range(3).selectExpr("id AS key", "struct(id, concat('n', id) AS name) AS value")
        save(frame, address, topic=target, **{"value.format": "json", "key.format": "string"})
        found = {message.key(): json.loads(message.value()) for message in written(address, target, 3)}
        assert found == {str(n).encode(): {"id": n, "name": f"n{n}"} for n in range(3)}

    def test_typed_columns_are_found_whatever_their_case(self, spark: SparkSession, address: str, target: str) -> None:
        frame = spark.range(3).selectExpr("id AS KEY", "struct(id) AS Value")
        save(frame, address, topic=target, **{"value.format": "json", "key.format": "string"})
        found = {message.key(): json.loads(message.value()) for message in written(address, target, 3)}
        assert found == {str(n).encode(): {"id": n} for n in range(3)}


def split(columns: str) -> list[str]:
    """At commas that stand between columns."""
    return columns.split(", ")


class TestStreams:
    def test_append_with_two_sinks_of_one_kind(
        self, reads: Reads, address: str, source: str, target: str, tmp_path: Path
    ) -> None:
        frame = reads.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="5")
        for delivery in ("exactly-once", "at-least-once"):
            values = frame.selectExpr("key", f"concat('{delivery}-', cast(value AS string)) AS value")
            run(streaming(values, address, tmp_path / delivery, topic=target, delivery=delivery))
        expected = [f"{how}-{n}" for how in ("exactly-once", "at-least-once") for n in range(12)]
        assert read_committed(address, target) == Counter(expected)

    def test_complete(self, reads: Reads, address: str, source: str, target: str, tmp_path: Path) -> None:
        frame = reads.stream(subscribe=source, startingOffsets="earliest")
        counts = frame.groupBy((f.length("value")).alias("n")).count()
        rows = counts.selectExpr("cast(n AS string) AS key", "concat(n, '=', count) AS value")
        run(streaming(rows, address, tmp_path / "checkpoint", topic=target).outputMode("complete"))
        assert read_committed(address, target) == Counter(["1=10", "2=2"])

    def test_update_goes_through_foreach_batch(
        self, reads: Reads, address: str, source: str, target: str, tmp_path: Path
    ) -> None:
        frame = reads.stream(subscribe=source, startingOffsets="earliest")
        counts = frame.groupBy((f.length("value")).alias("n")).count()
        rows = counts.selectExpr("cast(n AS string) AS key", "concat(n, '=', count) AS value")
        direct = streaming(rows, address, tmp_path / "refused", topic=target).outputMode("update")
        with pytest.raises(OutputModeUnsupported, match="foreachBatch"):
            direct.start()
        for _ in range(2):
            each = exactly_once({"kafka.bootstrap.servers": address, "topic": target})
            writer = rows.writeStream.outputMode("update").foreachBatch(each)
            run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True))
            if "2=3" not in read_committed(address, target):
                produce(address, source, ["99"])
        assert read_committed(address, target) == Counter(["1=10", "2=2", "2=3"])

    def test_two_writes_in_one_foreach_batch(
        self, reads: Reads, address: str, source: str, target: str, tmp_path: Path
    ) -> None:
        options = {"kafka.bootstrap.servers": address, "topic": target}
        frame = reads.stream(subscribe=source, startingOffsets="earliest").selectExpr("value")

        def twice(batch: DataFrame, number: int) -> None:
            write_batch(batch, number, options)
            write_batch(batch.selectExpr("concat('again-', cast(value AS string)) AS value"), number, options)

        def apart(batch: DataFrame, number: int) -> None:
            write_batch(batch, number, {**options, "sinkId": "first"})
            write_batch(
                batch.selectExpr("concat('again-', cast(value AS string)) AS value"),
                number,
                {**options, "sinkId": "second"},
            )

        def query(each: Callable[[DataFrame, int], None], name: str) -> DataStreamWriter:
            writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / name))
            return writer.trigger(availableNow=True)

        assert "a second write in one foreachBatch needs a sinkId" in outcome(query(twice, "twice"))
        assert read_committed(address, target) == Counter(map(str, range(12)))
        run(query(apart, "apart"))
        doubled = Counter(map(str, range(12))) + Counter(map(str, range(12)))
        assert read_committed(address, target) == doubled + Counter(f"again-{n}" for n in range(12))

    def test_outside_of_a_query_a_batch_needs_a_name(self, spark: SparkSession, address: str, target: str) -> None:
        frame = spark.range(5).selectExpr("cast(id AS string) AS value")
        options = {"kafka.bootstrap.servers": address, "topic": target}
        with pytest.raises(ValueError, match="with a query_id"):
            write_batch(frame, 0, options)
        for _ in range(2):
            write_batch(frame, 0, options, query_id=f"nightly-{target}")
        assert read_committed(address, target) == Counter(map(str, range(5)))


def waits_for_another(address: str, target: str) -> Callable[..., Column]:
    """A function of value and task that gives the value; in task 1 it waits until another task has committed."""

    def value_in_time(value: str, task: int) -> str:
        from confluent_kafka import Consumer, TopicPartition  # the task imports them, they cannot travel

        if task == 1:
            looking = Consumer({"bootstrap.servers": address, "group.id": "nobody"})
            places = [TopicPartition(target, partition) for partition in range(PARTITIONS)]
            while not any(looking.get_watermark_offsets(place, SECONDS)[1] for place in places):
                pass
            looking.close()
        return value

    return f.udf(value_in_time, "string", useArrow=False)


class TestReplays:
    def test_another_layout_after_a_failure_in_mid_batch(
        self, reads: Reads, address: str, source: str, target: str, tmp_path: Path
    ) -> None:
        """Task 0 has committed when task 1 fails. Another number of tasks is refused, the same completes the batch."""

        def attempt(tasks: int, fails: bool) -> DataStreamWriter:
            frame = reads.stream(subscribe=source, startingOffsets="earliest").selectExpr("cast(value as string)")
            placed = frame.repartition(tasks, "value")
            if fails:
                waits = waits_for_another(address, target)
                placed = placed.select(waits("value", f.spark_partition_id()).alias("value"))
                problem = "raise_error('the power is gone')"
                placed = placed.selectExpr(f"CASE WHEN spark_partition_id() = 1 THEN {problem} ELSE value END AS value")
            return streaming(placed, address, tmp_path / "checkpoint", topic=target)

        adaptive = reads.spark.conf.get("spark.sql.adaptive.enabled")
        reads.spark.conf.set("spark.sql.adaptive.enabled", "false")
        try:
            assert "the power is gone" in outcome(attempt(2, fails=True))
            before = read_committed(address, target)
            assert "the batch was cut into other tasks" in outcome(attempt(3, fails=False))
            assert read_committed(address, target) == before
            run(attempt(2, fails=False))
        finally:
            reads.spark.conf.set("spark.sql.adaptive.enabled", adaptive or "true")
        assert read_committed(address, target) == Counter(map(str, range(12)))

    def test_a_rewound_checkpoint(self, reads: Reads, address: str, source: str, target: str, tmp_path: Path) -> None:
        frame = reads.stream(subscribe=source, startingOffsets="earliest").selectExpr("value")
        checkpoint, saved = tmp_path / "checkpoint", tmp_path / "saved"
        run(streaming(frame, address, checkpoint, topic=target))
        shutil.copytree(checkpoint, saved)
        for value in ("12", "13"):
            produce(address, source, [value])
            run(streaming(frame, address, checkpoint, topic=target))
        rewound = outcome(streaming(frame, address, saved, topic=target))
        assert "this checkpoint was rewound or copied; set a new sinkId" in rewound
        assert read_committed(address, target) == Counter(map(str, range(14)))
        new_sink = outcome(streaming(frame, address, saved, topic=target, sinkId="copy"))
        assert "Set sinkStartsAtBatch=1 to go on from here" in new_sink
        run(streaming(frame, address, saved, topic=target, sinkId="copy", sinkStartsAtBatch="1"))
        assert read_committed(address, target) == Counter(map(str, [*range(14), 12, 13]))
