"""`moldau produce`, `consume`, `tail`, `perf` and `log` against a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from confluent_kafka import Producer
from kafka.partitioner.default import murmur2

from moldau.cli.records import produce_actions
from tests.cli.conftest import Moldau
from tests.cli.traffic import SECONDS, open_transaction
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

LINES = "a:1\nd:2\nc:NULL\n"


@pytest.fixture
def filled(moldau: Moldau, name: str) -> str:
    """A topic of two partitions with three keyed records, the last one a tombstone."""
    assert moldau("topic", "create", name, "--partitions", 2).code == 0
    done = moldau("produce", name, "-K", ":", "--null", "NULL", "-H", "source=test", stdin=LINES)
    assert (done.code, done.err) == (0, "3 records written\n")
    return name


def test_records_come_back_as_the_template_says(moldau: Moldau, filled: str) -> None:
    done = moldau("consume", filled, "-F", r"%t %k=%v %h\n", "--null", "NIL")
    assert sorted(done.out.splitlines()) == [
        f"{filled} a=1 source=test",
        f"{filled} c=NIL source=test",
        f"{filled} d=2 source=test",
    ]
    assert done.err.startswith("3 records read in ")


def test_keys_go_where_other_clients_put_them(moldau: Moldau, filled: str) -> None:
    found = {tuple(line.split()) for line in moldau("consume", filled, "-F", r"%k %p\n").out.splitlines()}
    assert found == {(key, str((murmur2(key.encode()) & 0x7FFFFFFF) % 2)) for key in "adc"}
    assert len({partition for _, partition in found}) == 2


def test_what_consume_prints_as_json_produce_reads(moldau: Moldau, filled: str, tmp_path: Path) -> None:
    printed = moldau("consume", filled, "-o", "json").out
    file = tmp_path / "records.json"
    file.write_text(printed)
    copy = f"{filled}-copy"
    moldau("topic", "create", copy, "--partitions", 2)
    written = moldau("produce", copy, "-i", "json", "-f", file, "--keep-partitions", "-o", "json")
    assert written.code == 0
    assert len([json.loads(line) for line in written.out.splitlines()]) == 3
    again = moldau("consume", copy, "-o", "json").out
    kept = ("partition", "timestamp", "key", "value", "headers")

    def content(text: str) -> list[str]:
        return sorted(str([json.loads(line)[field] for field in kept]) for line in text.splitlines())

    assert content(again) == content(printed)


def test_bytes_that_are_no_text_survive(moldau: Moldau, name: str, address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    producer.produce(name, b"\xff\x00", b"\xfe")
    assert producer.flush(SECONDS) == 0
    line = moldau("consume", name, "-o", "json").out
    assert json.loads(line)["value_base64"] == "/wA="
    moldau("produce", name, "-i", "json", stdin=line)
    assert moldau("consume", name, "-F", r"%v{hex}%k{hex}\n").out == "ff00fe\nff00fe\n"


def test_parts_of_a_topic(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    moldau("produce", name, *[str(number) for number in range(10)])

    def values(*options: object) -> str:
        return moldau("consume", name, "-F", "%v", *options).out

    assert values() == "0123456789"
    assert values("--from", 7) == values("--from", "-3") == "789"
    assert values("--from", 2, "--to", 5) == "234"
    assert values("-n", 4) == "0123"
    assert values("--grep", "[36]") == "36"
    assert values("--from", "@-1h") == "0123456789"
    assert values("--from", "@2100-01-01") == values("--from", "end") == ""
    assert values("--from", 100) == ""


def test_patterns_stand_for_topics(moldau: Moldau, name: str) -> None:
    for number in range(3):
        moldau("topic", "create", f"{name}.{number}")
        moldau("produce", f"{name}.{number}", str(number))
    assert sorted(moldau("consume", f"{name}.*").out) == sorted("0\n1\n2\n")
    assert moldau("consume", f"{name}.?", f"{name}.1", "--from", -1, "--partition", 0).out.count("1") == 1
    assert sorted(moldau("consume", f"{name}.*", "--group", name).out.split()) == ["0", "1", "2"]
    assert "no topic matches" in moldau("consume", f"{name}-nothing*").complaint


def test_a_group_reads_on_where_it_stopped(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    moldau("produce", name, "x", "y", "z")
    read = ("consume", name, "--group", name, "-F", "%v")
    assert moldau(*read, "-n", 2).out == "xy"
    assert moldau(*read, "-n", 1).out == "z"
    refused = moldau("consume", name, "--group", name, "--partition", 0)
    assert refused.code == 2 and "--group" in refused.complaint


def test_open_transactions_are_shown_only_when_asked_for(moldau: Moldau, name: str, address: str) -> None:
    moldau("topic", "create", name)
    with open_transaction(address, name, name, ["pending"]) as producer:
        assert moldau("consume", name).out == ""
        assert moldau("consume", name, "--isolation", "read_uncommitted").out == "pending\n"
        producer.abort_transaction(SECONDS)
    moldau("produce", name, "after")
    assert moldau("consume", name).out == "after\n"


def test_the_last_records_are_found_before_markers_and_aborted_ones(moldau: Moldau, name: str, address: str) -> None:
    moldau("topic", "create", name)
    moldau("produce", name, "first", "second")
    with open_transaction(address, name, name, ["committed"]) as producer:
        producer.commit_transaction(SECONDS)
        for _ in range(3):
            producer.begin_transaction()
            producer.produce(name, "aborted")
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)

    def values(*options: object) -> str:
        return moldau("consume", name, "-F", r"%v ", *options).out

    assert values("--from", -1) == "committed "
    assert values("--from", -2) == "second committed "
    assert values("--from", -99) == "first second committed "
    assert values("--from", -2, "--to", -1) == "second "
    assert values("--from", -1, "--isolation", "read_uncommitted") == "aborted "


def test_looking_back_goes_on_until_there_are_enough(moldau: Moldau, name: str, address: str) -> None:
    """Further back than one look: an aborted transaction of more records than it takes at once."""
    moldau("topic", "create", name)
    moldau("produce", name, "first", "second", "third")
    with open_transaction(address, name, name, ["aborted"] * 500) as producer:
        producer.abort_transaction(SECONDS)
    assert moldau("consume", name, "-F", r"%v ", "--from", -2).out == "second third "


def test_a_group_that_has_read_everything_ends_and_has_no_lag(moldau: Moldau, name: str, address: str) -> None:
    """Also behind a marker; and it never ends before it was given its partitions."""
    moldau("topic", "create", name, "--partitions", 2)
    moldau("produce", name, "plain", "--partition", 1)
    with open_transaction(address, name, name, ["committed"]) as producer:
        producer.commit_transaction(SECONDS)
    read = moldau("consume", name, "--group", name, "-F", r"%v\n")
    assert (read.code, sorted(read.out.split())) == (0, ["committed", "plain"])
    (described,) = moldau("group", "describe", name, "-o", "json").document
    assert [row["lag"] for row in described["offsets"]] == [0, 0]


def test_tail_prints_what_arrives_and_ends_with_a_summary(moldau: Moldau, name: str, address: str) -> None:
    moldau("topic", "create", name)
    moldau("produce", name, "old", "last")
    command = [sys.executable, "-m", "moldau", "tail", name, "-n", "1", "-b", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "last\n"
        moldau("produce", name, "new")
        assert process.stdout.readline() == "new\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert told.startswith("2 records read")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("consume", "{name}x"), 4, "did you mean '{name}'"),
        (("consume", "{name}", "--partition", "7"), 4, "has no partition 7"),
        (("consume", "{name}", "--from", "yesterday"), 2, "'yesterday' is no position"),
        (("consume", "{name}", "--grep", "("), 2, "no regular expression"),
        (("consume", "{name}", "-F", "%q"), 2, "%q is not known"),
        (("consume", "{name}", "-o", "json", "-k"), 2, "--keys"),
        (("consume", "{name}", "--follow", "--to", "5"), 2, "--follow has no end"),
        (("produce", "bad name", "x"), 2, "bad name"),
        (("produce", "{name}", "--partition", "9", "x"), 2, "has no partition 9"),
        (("produce", "{name}", "-f", "/nonexistent"), 2, "/nonexistent"),
        (("produce", "{name}", "-H", "oops", "x"), 2, "--header 'oops'"),
        (("produce", "{name}", "--timestamp", "noon", "x"), 2, "'noon' is no time"),
        (("perf", "produce", "nowhere-at-all"), 4, "does not exist"),
        (("log", "dump", "/nonexistent"), 4, "does not exist"),
    ],
)
def test_bad_input_is_one_line(moldau: Moldau, name: str, arguments: tuple[str, ...], code: int, says: str) -> None:
    topic = f"t{abs(hash(name)) % 10**9}"
    moldau("topic", "create", topic, "--if-not-exists")
    done = moldau(*[argument.replace("{name}", topic) for argument in arguments])
    assert done.code == code
    assert says.replace("{name}", topic) in done.complaint


def test_a_line_that_is_no_record_is_named_and_what_came_before_is_written(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    done = moldau("produce", name, "-K", ":", stdin="k:v\nno separator\n")
    assert (done.code, done.complaint) == (1, "line 2: no key separator ':' in it; 1 record before it was written")
    assert moldau("consume", name).out == "v\n"
    done = moldau("produce", name, "-K", ":", stdin="no separator\n")
    assert (done.code, done.complaint) == (2, "line 1: no key separator ':' in it")


def test_a_record_that_the_client_refuses_is_counted_and_the_others_are_written(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    done = moldau("produce", name, stdin="small\n" * 10 + "x" * 2_000_000 + "\nlast\n")
    warned, told = done.err.splitlines()
    assert done.code == 1
    assert "a record was not written" in warned and "Message size too large" in warned
    assert told == "11 records written, 1 failed"
    assert moldau("consume", name).out == "small\n" * 10 + "last\n"


def test_what_nobody_foresaw_in_the_middle_says_how_many_records_were_written(
    moldau: Moldau, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moldau("topic", "create", name)

    def broken(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        yield 1, b"read"
        raise OSError("the disk is gone")

    monkeypatch.setattr(produce_actions, "numbered", broken)
    done = moldau("produce", name, stdin="")
    assert (done.code, done.err.splitlines()) == (1, ["1 record written", "moldau: the disk is gone"])


def test_old_times_are_told_where_the_topic_deletes_them(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    records = "".join(json.dumps({"value": "x", "timestamp": 1_700_000_000_000 + each}) + "\n" for each in range(3))
    warned, told = moldau("produce", name, "-i", "json", stdin=records).err.splitlines()
    assert warned.startswith("warning: records are ") and f"{name!r} keeps them for 7 days (retention.ms)" in warned
    assert told == "3 records written"
    assert moldau("produce", name, "--timestamp", "-2h", "x").err == "1 record written\n"
    assert moldau("config", "set", "topic", name, "retention.ms=-1").code == 0
    assert moldau("produce", name, "-i", "json", stdin=records).err == "3 records written\n"


def test_perf_measures_there_and_back(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    written = moldau("perf", "produce", name, "-n", 500, "--size", 50, "-o", "json").document
    assert (written["records"], written["bytes"], written["failed"]) == (500, 25_000, 0)
    assert moldau("perf", "consume", name, "-o", "json").document["records"] == 500
    tripped = moldau("perf", "end-to-end", name, "-n", 5, "-o", "json").document
    assert tripped["records"] == 5
    assert 0 < tripped["latency_ms"]["p50"] <= tripped["latency_ms"]["max"]


def test_log_files_are_shown_and_checked(moldau: Moldau, filled: str, broker: BrokerProcess, tmp_path: Path) -> None:
    folder = broker.data / f"{filled}-0"
    wait_until(lambda: any(folder.glob("*.log")), "the log is there")
    (batch,) = moldau("log", "dump", folder, "-o", "json").document
    assert (batch["records"], batch["codec"], batch["problem"]) == (2, "none", None)
    assert moldau("log", "dump", folder, "-F", "%k").out == "ac"
    checked = moldau("log", "verify", folder, "-o", "json")
    assert (checked.code, [each["records"] for each in checked.document]) == (0, [2])
    damaged = tmp_path / "copy-0" / "00000000000000000000.log"
    damaged.parent.mkdir()
    whole = next(folder.glob("*.log")).read_bytes()
    damaged.write_bytes(whole[:70] + bytes([whole[70] ^ 1]) + whole[71:])
    found = moldau("log", "verify", damaged)
    assert found.code == 1 and "bad crc" in found.out
    damaged.write_bytes(whole + whole[:30])
    assert "30 bytes at the end" in moldau("log", "verify", damaged).out
    assert os.fspath(damaged) in moldau("log", "dump", damaged).out
