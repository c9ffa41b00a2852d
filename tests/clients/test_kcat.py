"""kcat, the command-line client: produce, consume, list and query.

It comes as a system package. Where root runs the tests, set-up has installed it and a missing kcat is a failure; an
ordinary user cannot install it, so there these tests are left out with a printed reason (see conftest.py).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.admin import create_topic
from tests.support.clients import A_DAY_AGO_MS, Confluent, Message
from tests.support.segments import partition_folder, stored_batches

KCAT_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def kcat(address: str, *arguments: str, stdin: bytes = b"") -> str:
    program = shutil.which("kcat")
    assert program is not None, "kcat is not installed: run `make setup` as root, or apt-get install kcat"
    done = subprocess.run(
        [program, "-b", address, *arguments], input=stdin, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def consumed(address: str, topic: str, *arguments: str) -> list[dict[str, object]]:
    """Everything in partition 0, as kcat's JSON."""
    text = kcat(address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("codec", KCAT_CODECS)
def test_produce_and_consume(address: str, admin: AdminClient, topic: str, data: Path, codec: str) -> None:
    """PCF-10, MSG-02, MSG-05, AD-06, AD-07: keys, headers and every codec; the codec bits stand on disk."""
    create_topic(admin, topic)
    lines = "".join(f"key{number}:{number} {'value ' * 40}\n" for number in range(200))
    kcat(
        address, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, "-H", "from=kcat", "-X", "linger.ms=200",
        stdin=lines.encode(),
    )  # fmt: skip
    found = consumed(address, topic)
    assert [row["key"] for row in found] == [f"key{number}" for number in range(200)]
    assert [row["payload"] for row in found] == [f"{number} {'value ' * 40}" for number in range(200)]
    assert [row["offset"] for row in found] == list(range(200))
    assert all(row["headers"] == ["from", "kcat"] for row in found)
    batches = stored_batches(partition_folder(data, topic))
    assert codec in {batch.codec for batch in batches} <= {codec, "none"}
    assert all(batch.crc_valid for batch in batches)


def test_null_values(address: str, admin: AdminClient, topic: str) -> None:
    """CMP-03: with -Z an empty value is a tombstone."""
    create_topic(admin, topic)
    kcat(address, "-P", "-t", topic, "-p", "0", "-K", ":", "-Z", stdin=b"gone:\nkept:value\n")
    assert [(row["key"], row["payload"]) for row in consumed(address, topic)] == [("gone", None), ("kept", "value")]


def test_an_idempotent_kcat(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    create_topic(admin, topic)
    kcat(address, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin=b"a\nb\nc\n")
    assert [row["payload"] for row in consumed(address, topic)] == ["a", "b", "c"]
    assert all(batch.producer_id >= 0 for batch in stored_batches(partition_folder(data, topic)))


def test_the_metadata_listing(address: str, admin: AdminClient, topic: str) -> None:
    """TOP-01, BRK-04, AD-08."""
    create_topic(admin, topic, 3)
    listed = json.loads(kcat(address, "-L", "-J", "-t", topic))
    assert [f"{broker['name']}" for broker in listed["brokers"]] == [address]
    (found,) = listed["topics"]
    assert found["topic"] == topic
    assert [row["partition"] for row in found["partitions"]] == [0, 1, 2]
    assert {row["leader"] for row in found["partitions"]} == {listed["brokers"][0]["id"]}


def test_offsets_by_time(address: str, admin: AdminClient, topic: str) -> None:
    """TP-17: -Q asks ListOffsets, -o s@ starts a reader there."""
    create_topic(admin, topic)
    now = A_DAY_AGO_MS
    Confluent().produce(address, topic, [Message(b"%d" % number, timestamp=now + number) for number in range(10)])
    assert kcat(address, "-Q", "-t", f"{topic}:0:{now + 6}").split()[-1] == "6"
    text = kcat(address, "-C", "-t", topic, "-p", "0", "-o", f"s@{now + 8}", "-e", "-q")
    assert text.split() == ["8", "9"]


def test_the_last_messages(address: str, admin: AdminClient, topic: str) -> None:
    """-o -3 reads from three before the end, -c limits the count."""
    create_topic(admin, topic)
    Confluent().produce(address, topic, [Message(b"%d" % number) for number in range(10)])
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-q").split() == ["7", "8", "9"]
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "2", "-c", "2", "-q").split() == ["2", "3"]
