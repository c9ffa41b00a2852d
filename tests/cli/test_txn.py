"""`moldau txn` against a real broker: open transactions, and one that hangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from moldau.client.cluster import Cluster, check
from moldau.client.settings import ClientSettings
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from moldau.wire.records import Record, build_batch
from tests.cli.conftest import Moldau
from tests.cli.traffic import open_transaction
from tests.peers.choice import new_broker
from tests.support.admin import admin_client, create_topic
from tests.support.command import Ran, run
from tests.support.waiting import wait_until


def test_list_describe_and_abort(moldau: Moldau, admin: AdminClient, address: str, name: str) -> None:
    create_topic(admin, name)
    with open_transaction(address, f"id-{name}", name, ["a", "b"]):
        (listed,) = [
            row for row in moldau("txn", "list", "-o", "json").document if row["transactional_id"] == f"id-{name}"
        ]
        assert listed["state"] == "Ongoing"
        assert f"id-{name}" in moldau("txn", "list", "--state", "Ongoing").out
        assert f"id-{name}" not in moldau("txn", "list", "--longer-than", "1d").out
        (found,) = moldau("txn", "describe", f"id-{name}", "-o", "json").document
        assert (found["state"], found["partitions"]) == ("Ongoing", [[name, 0]])
        assert found["producer_id"] == listed["producer_id"] and found["running_ms"] >= 0
        (producer,) = moldau("txn", "producers", name, "-o", "json").document
        assert (producer["producer_id"], producer["transaction_start"]) == (found["producer_id"], 0)
        assert moldau("txn", "list", "--hanging", "--older-than", "0s", "--topic", name).err == "no transaction hangs\n"
        assert "would abort" in moldau("txn", "abort", f"id-{name}", "--dry-run").out
        assert moldau("txn", "abort", f"id-{name}").code == 2
        assert (
            moldau("txn", "abort", f"id-{name}", "--yes").out == f"aborted the transaction of id-{name} in {name}-0\n"
        )
        (producer,) = moldau("txn", "producers", name, "-o", "json").document
        assert producer["transaction_start"] is None
    refused = moldau("txn", "abort", f"id-{name}", "--yes")
    assert refused.code == 1 and "no open transaction" in refused.complaint


def test_what_may_lose_a_committed_transaction_is_told(
    moldau: Moldau, admin: AdminClient, address: str, name: str
) -> None:
    """TXN-05."""
    create_topic(admin, name)
    with open_transaction(address, f"id-{name}", name, ["a"]):
        told = moldau("txn", "describe", f"id-{name}", "-o", "json")
        assert told.document[0]["state"] == "Ongoing"
    lines = told.err.splitlines()
    assert [line.split()[1] for line in lines] == ["__transaction_state", name]
    assert lines[1] == (
        f"warning: {name} has 1 replica and min.insync.replicas=1: what was committed can be lost with one broker; "
        "3 replicas and min.insync.replicas=2 keep it"
    )


def test_unknown_transactions(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    refused = moldau("txn", "describe", f"no-{name}")
    assert refused.code == 4 and "does not exist" in refused.complaint
    refused = moldau("txn", "abort", "--topic", name, "--partition", 0, "--start-offset", 3, "--yes")
    assert refused.code == 4 and "none is open there" in refused.complaint
    refused = moldau("txn", "abort", "--topic", name)
    assert refused.code == 2 and "--start-offset" in refused.complaint
    refused = moldau("txn", "producers", name, "--partition", 4)
    assert refused.code == 4 and "has no partition 4" in refused.complaint


@pytest.fixture
def careless_broker(tmp_path: Path) -> Iterator[str]:
    """It does not ask the coordinator about a transactional write, as brokers did before Kafka 3.6."""
    with new_broker(tmp_path / "careless", {"transaction.partition.verification.enable": "false"}) as process:
        yield process.address


def write_what_nobody_will_end(address: str, topic: str) -> None:
    batch = build_batch(
        [Record(b"v", timestamp=1_700_000_000_000)],
        transactional=True,
        producer_id=4711,
        producer_epoch=0,
        base_sequence=0,
    )
    part = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        transactional_id="forgotten",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[part])],
    )
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": address})) as cluster:
        answer = cluster.any(request, ProduceResponse, max_version=11)
        check(answer.responses[0].partition_responses[0].error_code, "produce")


def test_a_hanging_transaction_is_found_and_aborted(careless_broker: str, name: str) -> None:
    def moldau(*arguments: object) -> Ran:
        return run("txn", *arguments, "-b", careless_broker)

    # The record is old, so that its transaction is too; retention must not have it.
    create_topic(admin_client(careless_broker), name, configs={"retention.ms": -1})
    write_what_nobody_will_end(careless_broker, name)
    assert moldau("list").err == "no transactions\n"
    (found,) = moldau("list", "--hanging", "-o", "json").document
    assert (found["topic"], found["partition"], found["start_offset"], found["producer_id"]) == (name, 0, 0, 4711)
    where = ("--topic", name, "--partition", 0, "--start-offset", 0)
    refused = moldau("abort", *where[:-1], 5, "--yes")
    assert refused.code == 4 and "open ones began at 0" in refused.complaint
    assert "would abort" in moldau("abort", *where, "--dry-run").out
    assert moldau("abort", *where, "--yes").code == 0
    wait_until(lambda: moldau("list", "--hanging").err == "no transaction hangs\n", "nothing hangs")
