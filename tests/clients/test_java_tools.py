"""Apache Kafka's own programs against the broker, and its reader of log files on the files that the broker wrote.

They need Kafka's jars, some 130 MB that only Maven can fetch, and each start of a JVM costs more than most of the other
tests together. So they run with the conformance tests, which need the jars anyway, and not in `make test`, which must
pass on a machine that has nothing but Python.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import StartBroker
from tests.peers.apache_kafka import CONFIG_COMMAND, TOOLS, java_tool
from tests.support.admin import admin_client, broker_id, configs_of, create_topic, partitions_of, topic_names
from tests.support.clients import A_DAY_AGO_MS, CODECS, Confluent, Message
from tests.support.segments import partition_folder, segment_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live
client = Confluent()


def tool(name: str, address: str, *arguments: object) -> str:
    done = java_tool(TOOLS + name, "--bootstrap-server", address, *arguments)
    return done.stdout


def test_topic_command(address: str, admin: AdminClient, topic: str) -> None:
    """TOP-01, TP-05 to TP-11: create, describe, list, alter, delete."""
    created = tool(
        "TopicCommand", address, "--create", "--topic", topic, "--partitions", 2, "--replication-factor", 1,
        "--config", "retention.ms=100000",
    )  # fmt: skip
    assert f"Created topic {topic}." in created
    described = tool("TopicCommand", address, "--describe", "--topic", topic)
    assert re.search(rf"Topic: {topic}\s.*PartitionCount: 2\s.*ReplicationFactor: 1\s.*retention.ms=100000", described)
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 2
    again = java_tool(TOOLS + "TopicCommand", "--bootstrap-server", address, "--create", "--topic", topic, check=False)
    assert again.returncode == 1
    assert "already exists" in again.stdout + again.stderr
    tool("TopicCommand", address, "--create", "--topic", topic, "--if-not-exists")
    tool("TopicCommand", address, "--alter", "--topic", topic, "--partitions", 4)
    wait_until(lambda: partitions_of(admin, topic) == {0, 1, 2, 3}, "4 partitions")
    assert topic in tool("TopicCommand", address, "--list").split()
    tool("TopicCommand", address, "--delete", "--topic", topic)
    wait_until(lambda: topic not in topic_names(admin), "the topic is deleted")


def test_config_command(address: str, admin: AdminClient, topic: str) -> None:
    """TP-21, TP-22: topic settings, the broker's own and the cluster's default."""
    create_topic(admin, topic)
    here = broker_id(admin)

    def configs(*arguments: object) -> str:
        return java_tool(CONFIG_COMMAND, "--bootstrap-server", address, *arguments).stdout

    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    assert "Completed updating config" in configs(
        "--alter", *of_topic, "--add-config", "segment.ms=60000,retention.ms=9"
    )
    described = configs("--describe", *of_topic)
    assert "segment.ms=60000" in described and "DYNAMIC_TOPIC_CONFIG:segment.ms=60000" in described
    configs("--alter", *of_topic, "--delete-config", "segment.ms")
    assert configs_of(admin, "topic", topic)["segment.ms"].value == "604800000"
    assert "compression.type=producer" in configs("--describe", "--all", *of_topic)
    of_all = ("--entity-type", "brokers", "--entity-default")
    configs("--alter", *of_all, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in configs("--describe", *of_all)
    configs("--alter", *of_all, "--delete-config", "log.cleaner.threads")
    of_one = ("--entity-type", "brokers", "--entity-name", here)
    configs("--alter", *of_one, "--add-config", "message.max.bytes=2000000")
    assert "message.max.bytes=2000000" in configs("--describe", *of_one)
    configs("--alter", *of_one, "--delete-config", "message.max.bytes")
    refused = ("--alter", *of_topic, "--add-config", "retention.ms=soon")
    bad = java_tool(CONFIG_COMMAND, "--bootstrap-server", address, *refused, check=False)
    assert bad.returncode == 1
    assert "retention.ms" in bad.stdout + bad.stderr


@pytest.mark.parametrize("codec", CODECS)
def test_producer_performance(address: str, admin: AdminClient, topic: str, codec: str) -> None:
    """The Java producer, idempotent by default, with every codec; read back by librdkafka."""
    create_topic(admin, topic, 1)
    done = tool(
        "ProducerPerformance", address, "--topic", topic, "--num-records", 5000, "--record-size", 200,
        "--throughput", -1, "--command-property", f"compression.type={codec}",
    )  # fmt: skip
    assert "5000 records sent" in done
    received = client.consume(address, topic, 5000)
    assert [each.offset for each in received] == list(range(5000))
    assert all(each.value is not None and len(each.value) == 200 for each in received)


def test_get_offset_shell(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, 2)
    now = A_DAY_AGO_MS
    client.produce(address, topic, [Message(b"x", timestamp=now + number) for number in range(7)], partition=1)
    for time, expected in (("-2", "0"), ("-1", "7"), ("-3", "6"), (str(now + 4), "4")):
        lines = tool("GetOffsetShell", address, "--topic", topic, "--time", time).split()
        assert f"{topic}:1:{expected}" in lines


def test_log_dirs_command(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    create_topic(admin, topic, 1)
    client.produce(address, topic, [Message(b"x" * 1000)])
    described = tool("LogDirsCommand", address, "--describe", "--topic-list", topic)
    assert str(data) in described
    assert f'"partition":"{topic}-0"' in described


def test_broker_api_versions_command(address: str) -> None:
    """Every API that the broker announces is one that Kafka's client knows and finds usable."""
    listed = tool("BrokerApiVersionsCommand", address)
    assert address in listed
    for api in ("Produce(0)", "Fetch(1)", "ListOffsets(2)", "Metadata(3)", "ApiVersions(18)", "CreateTopics(19)"):
        assert re.search(rf"{re.escape(api)}: .*\[usable: \d+\]", listed), api
    assert "UNKNOWN(" not in listed


def test_delete_records_command(address: str, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    create_topic(admin, topic)
    client.produce(address, topic, [Message(b"x")] * 10)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 6}}]}}')
    assert "low_watermark: 6" in tool("DeleteRecordsCommand", address, "--offset-json-file", wanted)


def test_console_consumer_reads_a_partition(address: str, admin: AdminClient, topic: str) -> None:
    """The Java consumer, by assignment: keys, headers, timestamps and offsets as they were written."""
    create_topic(admin, topic)
    client.produce(address, topic, [Message(b"value", b"key", (("h", b"v"),), A_DAY_AGO_MS)], codec="zstd")
    printed = tool(
        "consumer.ConsoleConsumer", address, "--topic", topic, "--partition", 0, "--offset", "earliest",
        "--max-messages", 1, "--timeout-ms", 30_000,
        *(f"--formatter-property=print.{part}=true" for part in ("key", "headers", "timestamp", "offset")),
    )  # fmt: skip
    assert printed.strip() == f"CreateTime:{A_DAY_AGO_MS}\tOffset:0\th:v\tkey\tvalue"


def test_dump_log_segments_finds_every_batch_valid(own_broker: StartBroker) -> None:
    """FMT-01, FMT-02, TP-20: Kafka's reader opens every file of ours: logs in all codecs, indexes, snapshots."""
    broker = own_broker(**{"log.index.interval.bytes": 200})
    admin = admin_client(broker.address)
    create_topic(admin, "dumped", configs={"segment.bytes": 1024 * 1024})
    noise = random.Random(7)
    for number in range(60):
        messages = [
            Message(noise.randbytes(5000).hex().encode(), b"key %d" % part, (("h", b"v"),)) for part in range(5)
        ]
        client.produce(broker.address, "dumped", messages, codec=CODECS[number % 5], idempotent=number % 2 == 0)
    # A stop trims the indexes of the active segment, which Kafka preallocates while it runs.
    assert broker.stop() == 0
    folder = partition_folder(broker.data, "dumped")
    logs = segment_files(folder)
    assert len(logs) >= 2
    dumped = _dump(logs, "--deep-iteration", "--print-data-log")
    batches = [line for line in dumped.splitlines() if line.startswith("baseOffset:")]
    assert batches
    assert all("isvalid: true" in line for line in batches)
    assert {codec for codec in CODECS if f"compresscodec: {codec} " in dumped} == set(CODECS)
    assert len(re.findall(r"^\| offset: \d+ .* headerKeys: \[h\] key: key \d payload: ", dumped, re.MULTILINE)) == 300
    indexes = [path for log in logs for path in (log.with_suffix(".index"), log.with_suffix(".timeindex"))]
    checked = _dump(indexes, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(indexes)
    assert "Found" not in _dump(indexes, "--verify-index-only")
    assert "producerId: " in _dump(segment_files(folder, ".snapshot"))


def _dump(files: list[Path], *options: str) -> str:
    done = java_tool(TOOLS + "DumpLogSegments", "--files", ",".join(map(str, files)), *options)
    assert "Exception" not in done.stderr, done.stderr
    return done.stdout
