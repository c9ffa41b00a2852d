"""Apache Kafka's own consumer and group command against the broker, its reader of `__consumer_offsets` on our files,
and our reading of the files that it wrote.

They need Kafka's jars: see test_java_tools.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.clients.conftest import StartBroker
from tests.peers.apache_kafka import TOOLS, ApacheKafka, java_tool
from tests.support.admin import SECONDS, admin_client, create_topic
from tests.support.clients import Confluent, Message
from tests.support.segments import replace_logs, segment_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live
client = Confluent()
OFFSETS = "__consumer_offsets"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}


def group_command(address: str, *arguments: object) -> str:
    done = java_tool(f"{TOOLS}consumer.group.ConsumerGroupCommand", "--bootstrap-server", address, *arguments)
    return done.stdout


def rows(printed: str) -> list[dict[str, str]]:
    """The table that the command prints, a row each."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(index for index, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[start], line, strict=False)) for line in lines[start + 1 :]]


def test_console_consumer_and_group_command(own_broker: StartBroker) -> None:
    """Reads in a group, then looks at the group, resets, deletes offsets, deletes it."""
    address = own_broker(**SETTINGS).address
    admin = admin_client(address)
    create_topic(admin, "read", 2)
    for partition in range(2):
        client.produce(address, "read", [Message(b"%d" % number) for number in range(10)], partition=partition)
    read = java_tool(
        f"{TOOLS}consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", "read", "--group", "readers",
        "--from-beginning", "--max-messages", 20, "--timeout-ms", 30_000,
    )  # fmt: skip
    assert sorted(map(int, read.stdout.split())) == sorted([*range(10), *range(10)])
    assert "readers" in group_command(address, "--list").split()
    listed = group_command(address, "--list", "--state", "Empty")
    assert re.search(r"readers\s+Empty", listed)
    described = {int(row["PARTITION"]): row for row in rows(group_command(address, "--describe", "--group", "readers"))}
    assert {index: (row["CURRENT-OFFSET"], row["LAG"]) for index, row in described.items()} == {
        0: ("10", "0"),
        1: ("10", "0"),
    }
    group_command(
        address, "--reset-offsets", "--group", "readers", "--topic", "read", "--to-offset", 3, "--execute"
    )  # fmt: skip
    lags = {row["PARTITION"]: row["LAG"] for row in rows(group_command(address, "--describe", "--group", "readers"))}
    assert lags == {"0": "7", "1": "7"}
    group_command(address, "--delete-offsets", "--group", "readers", "--topic", "read:1")
    left = rows(group_command(address, "--describe", "--group", "readers"))
    assert [row["PARTITION"] for row in left] == ["0"]
    assert "was successful" in group_command(address, "--delete", "--group", "readers")
    assert "readers" not in group_command(address, "--list").split()


def test_group_command_sees_members(own_broker: StartBroker) -> None:
    address = own_broker(**SETTINGS).address
    create_topic(admin_client(address), "read", 2)
    member = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g", "client.id": "who"})
    member.subscribe(["read"])
    wait_until(lambda: member.poll(0.1) is not None or len(member.assignment()) == 2, "an assignment")
    (row,) = rows(group_command(address, "--describe", "--group", "g", "--members", "--verbose"))
    assert (row["CLIENT-ID"], row["#PARTITIONS"], row["HOST"]) == ("who", "2", "/127.0.0.1")
    assert "read:0,1" in json.dumps(row) or "read(0,1)" in json.dumps(row)
    (state,) = rows(group_command(address, "--describe", "--group", "g", "--state"))
    assert "Stable" in state.values()
    member.close()


# --- files ---


class Script:
    """Makes the same groups on any broker: stable, empty, without members, with deleted offsets."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = admin_client(address)
        create_topic(self.admin, "read", 2)
        self.member = self._settled("stable")
        self.member.commit(offsets=[TopicPartition("read", 1, 7, metadata="näher")], asynchronous=False)
        self._settled("left").close()
        for group in ("simple", "deleted", "partly"):
            self.commit(group, (0, 5), (1, 6))
        self.commit("simple", (0, 8))
        self.admin.delete_consumer_groups(["deleted"])["deleted"].result(SECONDS)

    def commit(self, group: str, *offsets: tuple[int, int]) -> None:
        wanted = [TopicPartition("read", partition, offset) for partition, offset in offsets]
        self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[group].result(SECONDS)

    def _settled(self, group: str) -> confluent_kafka.Consumer:
        settings = {"group.id": group, "client.id": "c", "session.timeout.ms": 60_000, "enable.auto.commit": False}
        member = confluent_kafka.Consumer({"bootstrap.servers": self.address, **settings})
        member.subscribe(["read"])
        wait_until(lambda: member.poll(0.1) is not None or len(member.assignment()) == 2, "an assignment", 60)
        return member

    def seen(self) -> dict[str, Any]:
        return seen(self.address)


def seen(address: str) -> dict[str, Any]:
    """All groups, as an administrator sees them."""
    admin = admin_client(address)
    found: dict[str, Any] = {}
    for group in admin.list_consumer_groups().result(SECONDS).valid:
        name = group.group_id
        described = admin.describe_consumer_groups([name])[name].result(SECONDS)
        asked = [ConsumerGroupTopicPartitions(name)]
        offsets = admin.list_consumer_group_offsets(asked)[name].result(SECONDS).topic_partitions
        found[name] = {
            "state": described.state.name,
            "assignor": described.partition_assignor,
            "members": sorted(
                (member.member_id, member.client_id, member.host, len(member.assignment.topic_partitions))
                for member in described.members
            ),
            "offsets": sorted((each.topic, each.partition, each.offset, each.metadata) for each in offsets),
        }
    return found


def test_kafkas_reader_decodes_our_offsets(own_broker: StartBroker) -> None:
    """CMT-01: DumpLogSegments --offsets-decoder shows every record, group and commit."""
    broker = own_broker(**SETTINGS)
    Script(broker.address)
    assert broker.stop() == 0
    logs = [
        path for folder in broker.data.glob(f"{OFFSETS}-*") for path in segment_files(folder) if path.stat().st_size
    ]
    done = java_tool(TOOLS + "DumpLogSegments", "--files", ",".join(map(str, logs)), "--offsets-decoder")
    assert "Exception" not in done.stderr, done.stderr
    records = [
        (json.loads(key), None if value in ("null", "<DELETE>") else json.loads(value))
        for key, value in re.findall(r"^\| offset: .* key: (\{.*?\}) payload: (.*)$", done.stdout, re.MULTILINE)
    ]
    commits = {
        (key["data"]["group"], key["data"]["partition"]): value and value["data"]["offset"]
        for key, value in records
        if key["type"] == "1" or key["type"] == 1
    }
    assert commits == {
        ("stable", 1): 7,
        ("simple", 0): 8, ("simple", 1): 6,
        ("partly", 0): 5, ("partly", 1): 6,
        ("deleted", 0): None, ("deleted", 1): None,
    }  # fmt: skip
    groups = {key["data"]["group"]: value for key, value in records if str(key["type"]) == "2"}
    assert groups["deleted"] is None
    assert groups["left"]["data"]["members"] == []
    assert groups["left"]["data"]["generation"] == 2
    (member,) = groups["stable"]["data"]["members"]
    assert (groups["stable"]["data"]["protocol"], member["clientId"]) == ("range", "c")


def test_we_load_what_kafka_wrote(own_broker: StartBroker, tmp_path: Path) -> None:
    """The groups and offsets of a folder that Apache Kafka wrote, as it showed them itself."""
    with ApacheKafka(tmp_path / "kafka", SETTINGS) as kafka:
        script = Script(kafka.address)
        expected = script.seen()
        stable_member = expected["stable"]["members"]
        kafka.kill()
    assert {name: group["state"] for name, group in expected.items()} == {
        "stable": "STABLE", "left": "EMPTY", "simple": "EMPTY", "partly": "EMPTY",
    }  # fmt: skip
    ours = own_broker(**SETTINGS)
    admin = admin_client(ours.address)
    create_topic(admin, "read", 2)
    assert seen(ours.address) == {}
    confluent_kafka.Consumer({"bootstrap.servers": ours.address, "group.id": "g"}).committed(
        [TopicPartition("read", 0)], SECONDS
    )
    assert ours.stop() == 0
    replace_logs(ours.data, kafka.data, OFFSETS)
    ours.start()
    assert seen(ours.address) == expected
    assert stable_member
