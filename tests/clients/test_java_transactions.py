"""Apache Kafka's own programs for transactions, whose client is of transaction version 2, and its reader of logs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import StartBroker
from tests.clients.test_transactions import FEW_PARTITIONS, SECONDS, read, transactional, values
from tests.peers.apache_kafka import TOOLS, java_tool, tool_command
from tests.support.admin import admin_client, create_topic
from tests.support.clients import Confluent, Message
from tests.support.process import BrokerProcess
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
