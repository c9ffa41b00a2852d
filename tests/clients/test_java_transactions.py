"""Apache Kafka's own programs for transactions, whose client is of transaction version 2, and its reader of logs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import StartBroker
from tests.clients.test_transactions import FEW_PARTITIONS, SECONDS, read, reader, transactional, values
from tests.peers.apache_kafka import TOOLS, ApacheKafka, java_tool, tool_command
from tests.support.admin import admin_client, create_topic
from tests.support.clients import Confluent, Message
from tests.support.process import BrokerProcess
from tests.support.segments import replace_logs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live
COPIER = TOOLS + "TransactionalMessageCopier"
COPIED = 2000


def copier_arguments(address: str, source: str, target: str, *more: str) -> list[object]:
    return [
        "--broker-list", address, "--input-topic", source, "--input-partition", 0, "--output-topic", target,
        "--transactional-id", f"copy of {source}", "--consumer-group", f"copiers of {source}",
        "--transaction-size", 50, "--enable-random-aborts", "--group-mode", "--use-group-metadata", *more,
    ]  # fmt: skip


def fill(address: str, topic: str) -> list[bytes]:
    wanted = [b"%d" % number for number in range(COPIED)]
    Confluent().produce(address, topic, [Message(value, b"k") for value in wanted])
    return wanted


def test_transactional_message_copier(address: str, admin: AdminClient, topic: str) -> None:
    """TXN-08: with random aborts every message is copied once, in order."""
    source, target = f"{topic}-in", f"{topic}-out"
    create_topic(admin, source)
    create_topic(admin, target)
    wanted = fill(address, source)
    done = java_tool(COPIER, *copier_arguments(address, source, target))
    assert '"stage":"ShutdownComplete"' in done.stdout
    wait_until(lambda: values(address, target) == wanted, "all messages are copied", seconds=SECONDS)


@pytest.mark.timeout(400)
def test_copier_and_broker_are_killed(own_broker: StartBroker) -> None:
    broker = own_broker(**FEW_PARTITIONS, **{"group.initial.rebalance.delay.ms": 0})
    admin = admin_client(broker.address)
    create_topic(admin, "in")
    create_topic(admin, "out")
    wanted = fill(broker.address, "in")
    for number in range(4):
        run_for_a_while(broker, number)
    for _ in range(3):
        java_tool(COPIER, *copier_arguments(broker.address, "in", "out"))
        if len(values(broker.address, "out")) == COPIED:
            break
    assert values(broker.address, "out") == wanted


def run_for_a_while(broker: BrokerProcess, number: int) -> None:
    """Kills the program, the broker, or both."""
    command = tool_command(COPIER, copier_arguments(broker.address, "in", "out"))
    before = len(read(broker.address, "out", isolation="read_uncommitted"))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as copier:
        try:
            wait_until(
                lambda: (
                    len(read(broker.address, "out", isolation="read_uncommitted")) > before or copier.poll() is not None
                ),
                "something is copied",
                seconds=60,
            )
            if number % 2:
                broker.kill()
                broker.start()
        finally:
            copier.kill()


def test_transactions_command(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    producer = transactional(address, topic)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(SECONDS)

    def tool(*arguments: object) -> str:
        return java_tool(TOOLS + "TransactionsCommand", "--bootstrap-server", address, *arguments).stdout

    listed = [line.split() for line in tool("list").splitlines()]
    (mine,) = [line for line in listed if line and line[0] == topic]
    assert mine[3] == "Ongoing"
    described = tool("describe", "--transactional-id", topic)
    assert "Ongoing" in described and f"{topic}-0" in described
    producers = tool("describe-producers", "--topic", topic, "--partition", 0)
    (row,) = [line.split() for line in producers.splitlines()[1:]]
    assert row[0] == mine[2] and row[-1] == "0"
    assert topic not in tool("find-hanging", "--broker-id", 1)
    tool("abort", "--topic", topic, "--partition", 0, "--start-offset", 0)
    assert values(address, topic) == []
    (row,) = [line.split() for line in tool("describe-producers", "--topic", topic, "--partition", 0).splitlines()[1:]]
    assert row[-1] == "None"


def test_features_command(address: str) -> None:
    def tool(*arguments: object) -> str:
        return java_tool(TOOLS + "FeatureCommand", "--bootstrap-server", address, *arguments).stdout

    described = tool("describe")
    assert "transaction.version" in described and "FinalizedVersionLevel: 2" in described
    changed = tool("downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1." in changed
    assert "transaction.version was upgraded to 2." in tool("upgrade", "--feature", "transaction.version=2")


def test_log_dump_reads_our_transactions(own_broker: StartBroker) -> None:
    broker = own_broker(**{"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1})
    create_topic(admin_client(broker.address), "t", 2)
    producer = transactional(broker.address, "my id")
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("t", b"x", partition=0)
        producer.produce("t", b"x", partition=1)
        producer.flush(SECONDS)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
    del producer
    assert broker.stop() == 0
    log = next(Path(broker.data).glob("__transaction_state-0/*.log"))
    dumped = java_tool(TOOLS + "DumpLogSegments", "--transaction-log-decoder", "--files", log).stdout
    lines = [line for line in dumped.splitlines() if '"transactionalId":"my id"' in line]
    states = [line.split('"transactionStatus":')[1].split(",")[0] for line in lines]
    assert [state for state, before in zip(states, [None, *states], strict=False) if state != before] == [
        "0", "1", "2", "4", "1", "3", "5",
    ]  # fmt: skip
    assert '"version":"1"' in lines[0] and '"transactionPartitions":null' in lines[0]


def begun(address: str, name: str) -> Producer:
    """A transaction of one record, with its offset in a group of the same name."""
    consumer = reader(address, **{"group.id": name})
    producer = transactional(address, name)
    producer.begin_transaction()
    producer.produce("out", name.encode())
    producer.send_offsets_to_transaction([TopicPartition("in", 0, 5)], consumer.consumer_group_metadata(), SECONDS)
    producer.flush(SECONDS)
    consumer.close()
    return producer


def known_transactions(address: str) -> set[tuple[str, ...]]:
    listed = java_tool(TOOLS + "TransactionsCommand", "--bootstrap-server", address, "list").stdout
    return {tuple(line.split()) for line in listed.splitlines()[1:]}


def committed(address: str, group: str) -> int:
    consumer = reader(address, **{"group.id": group})
    try:
        return int(consumer.committed([TopicPartition("in", 0)], timeout=SECONDS)[0].offset)
    finally:
        consumer.close()


def test_we_go_on_with_transactions_of_kafka(own_broker: StartBroker, tmp_path: Path) -> None:
    """`__transaction_state`, `__consumer_offsets` and the data of an Apache Kafka that was killed: what it had decided
    stands, what was open is still open, and the next owner of its id ends it."""
    names = ("finished", "aborted", "open")
    with ApacheKafka(tmp_path / "kafka", FEW_PARTITIONS) as kafka:
        admin = admin_client(kafka.address)
        create_topic(admin, "in")
        create_topic(admin, "out")
        finished, aborted, _open = (begun(kafka.address, name) for name in names)
        finished.commit_transaction(SECONDS)
        aborted.abort_transaction(SECONDS)
        wait_until(lambda: values(kafka.address, "out") == [b"finished"], "one is committed")
        states = {"finished": "CompleteCommit", "aborted": "CompleteAbort", "open": "Ongoing"}
        wait_until(
            lambda: {row[0]: row[3] for row in known_transactions(kafka.address)} == states, "two are ended", 60, 0.5
        )
        expected = known_transactions(kafka.address)
        kafka.kill()
    ours = own_broker(**FEW_PARTITIONS)
    admin = admin_client(ours.address)
    create_topic(admin, "in")
    create_topic(admin, "out")
    begun(ours.address, "replaced").commit_transaction(SECONDS)
    assert ours.stop() == 0
    replace_logs(ours.data, kafka.data, "__transaction_state", "__consumer_offsets", "out")
    ours.start()
    assert known_transactions(ours.address) == expected
    assert values(ours.address, "out") == [b"finished"]
    assert [committed(ours.address, name) for name in ("finished", "aborted")] == [5, OFFSET_INVALID]
    begun(ours.address, "open").commit_transaction(SECONDS)
    wait_until(lambda: values(ours.address, "out") == [b"finished", b"open"], "the next one of that name")
    assert len(values(ours.address, "out", isolation="read_uncommitted")) == len(names) + 1
    assert committed(ours.address, "open") == 5
