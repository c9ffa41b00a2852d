"""`moldau broker adopt` on log directories that a real Apache Kafka has left, and the broker that serves them then."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.peers.record_folder import GROUP, records, tell
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.kafka_folders import KafkaFolders, contents, unpack
from tests.support.process import free_port

SECONDS = 60


@pytest.fixture
def kafka(tmp_path: Path) -> KafkaFolders:
    return unpack("kraft", tmp_path / "kafka")


def broker_on(directory: Path, *folders: Path) -> Broker:
    return Broker(directory, {"log.dirs": ",".join(map(str, folders))})


@pytest.mark.parametrize("kind", ["kraft", "kraft3", "zookeeper"])
def test_a_copy_serves_what_kafka_served(kind: str, tmp_path: Path) -> None:
    kafka = unpack(kind, tmp_path / "kafka")
    before = contents(*kafka.both)
    into = [tmp_path / "a", tmp_path / "b"]
    ran = run("broker", "adopt", *kafka.both, "--into", into[0], "--into", into[1])
    assert ran.code == 0, ran.err
    assert f"--set log.dirs={into[0]},{into[1]}" in ran.err
    assert ("take zookeeper.connect out of server.properties" in ran.err) == (kind == "zookeeper")
    assert contents(*kafka.both) == before
    with broker_on(tmp_path / "broker", *into) as broker:
        found = tell(broker.address)
        assert found["records"] == kafka.expected["records"]
        assert found["offsets"] == kafka.expected["offsets"]
        if kind != "zookeeper":
            assert found["configs"] == kafka.expected["configs"]
        goes_on(broker.address)
        assert "stray" not in broker.output()


def goes_on(address: str) -> None:
    """The transactional producer, the group and its coordinator take up where they were."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "cashier"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("payments", "payment 3", "3", 0)
    producer.commit_transaction(SECONDS)
    payments = list(records(address, TopicPartition("payments", 0)))
    assert [value for _, _, _, value, _ in payments] == ["payment 0", "payment 2", "payment 3"]
    assert payments[-1][0] == 6  # behind two markers of commits and one of an abort
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False})
    consumer.subscribe(["again"])
    message = consumer.poll(SECONDS)
    assert message is not None and not message.error() and message.offset() == 4
    consumer.close()


def test_who_may_come_in_and_do_what_is_taken_too(kafka: KafkaFolders, tmp_path: Path) -> None:
    into = tmp_path / "into"
    assert run("broker", "adopt", *kafka.both, "--into", into).code == 0
    port = free_port()
    settings = {
        "log.dirs": into,
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": 0,
    }
    with Broker(tmp_path / "broker", settings) as broker:
        super_user = AdminClient({"bootstrap.servers": broker.address})
        assert super_user.list_topics(timeout=SECONDS).topics.keys() > {"events", "payments"}
        alice = AdminClient(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        assert set(alice.list_topics(timeout=SECONDS).topics) == {"events"}
        listed = run(
            "security", "quota", "list", "-o", "json", environment={"MOLDAU_BOOTSTRAP_SERVERS": broker.address}
        )
        assert "producer_byte_rate" in listed.out and "slow" in listed.out


def test_in_place_and_all_in_one_copy(kafka: KafkaFolders, tmp_path: Path) -> None:
    one = tmp_path / "one"
    assert run("broker", "adopt", *kafka.both, "--into", one).code == 0
    assert run("broker", "adopt", *kafka.both, "--in-place", "--yes").code == 0
    for number, folders in enumerate(([one], kafka.both)):
        with broker_on(tmp_path / str(number), *folders) as broker:
            assert tell(broker.address) == kafka.expected
    refused = run("broker", "adopt", *kafka.both, "--dry-run")
    assert "no log directory of Apache Kafka" in refused.complaint


def test_a_dry_run_tells_what_is_taken_and_what_not_and_touches_nothing(kafka: KafkaFolders) -> None:
    before = contents(*kafka.both)
    told = run("broker", "adopt", *kafka.both, "--dry-run", "--output", "json").document
    assert (told["node_id"], told["metadata"]) == (1, "kraft")
    assert {topic["name"]: topic["partitions"] for topic in told["topics"]}["events"] == 3
    assert [each["what"] for each in told["not_taken"]] == ["folder"]
    assert (told["acls"], told["scram_users"], told["quotas"]) == (1, ["alice"], 1)
    table = run("broker", "adopt", *kafka.both, "--dry-run")
    assert table.code == 0
    assert "events" in table.out and "Not taken" in table.out and "SCRAM users" in table.out
    assert contents(*kafka.both) == before


def test_bad_input(kafka: KafkaFolders, tmp_path: Path) -> None:
    before = contents(*kafka.both)
    assert "--in-place takes the log directories themselves" in run("broker", "adopt", *kafka.both).complaint
    both = run("broker", "adopt", *kafka.both, "--in-place", "--into", tmp_path / "x")
    assert both.code == 2 and "where to?" in both.complaint
    three = ("--into", tmp_path / "x", "--into", tmp_path / "y", "--into", tmp_path / "z")
    assert "2 log directories cannot go to 3" in run("broker", "adopt", *kafka.both, *three).complaint
    assert run("broker", "adopt", tmp_path / "none", "--dry-run").complaint == f"{tmp_path / 'none'} is no directory"
    unasked = run("broker", "adopt", *kafka.both, "--in-place")
    assert unasked.code == 2 and "Apache Kafka will not start on them again. Add --yes" in unasked.err
    (kafka.first / ".kafka_cleanshutdown").unlink()
    crashed = run("broker", "adopt", *kafka.both, "--in-place", "--yes")
    assert crashed.code == 1 and "stop it with SIGTERM" in crashed.complaint
    (kafka.first / ".kafka_cleanshutdown").write_text("")
    assert set(contents(*kafka.both)) == set(before)
