"""`moldau topic` against a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka.admin import AdminClient

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.types.uuid_text import encode_uuid
from tests.cli.conftest import Moldau
from tests.cli.traffic import SECONDS, open_transaction, produce
from tests.support.admin import create_topic, log_range
from tests.support.waiting import wait_until


def settled(moldau: Moldau, name: str, partitions: int) -> None:
    """Creation is answered before every broker's metadata shows it."""
    wait_until(lambda: [name, str(partitions), "1"] in moldau("topic", "list").rows, f"{name} is listed")


def test_create_list_describe_delete(moldau: Moldau, name: str) -> None:
    done = moldau("topic", "create", name, "--partitions", 3, "--set", "retention.ms=60000")
    assert (done.code, done.out, done.err) == (0, f"created topic {name}\n", "")
    settled(moldau, name, 3)
    (described,) = moldau("topic", "describe", name, "-o", "json").document
    assert described["config"] == {"retention.ms": "60000"}
    assert (described["partitions"], described["replication_factor"]) == (3, 1)
    assert [part["partition"] for part in described["layout"]] == [0, 1, 2]
    shown = moldau("topic", "describe", name).out
    assert "retention.ms  60000" in shown and "3 partitions" in shown
    assert moldau("topic", "delete", name, "--yes").out == f"deleted topic {name}\n"
    wait_until(lambda: name not in moldau("topic", "list").out, "it is gone")


def test_the_id_of_a_topic_is_the_one_that_kafkas_tools_and_files_tell(moldau: Moldau, address: str, name: str) -> None:
    """About half of all ids have a character in which the alphabets of base64 differ."""
    names = [f"{name}-{number}" for number in range(8)]
    moldau("topic", "create", *names)
    for each in names:
        settled(moldau, each, 1)
    told = {each["name"]: each["id"] for each in moldau("topic", "describe", *names, "-o", "json").document}
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": address})) as cluster:
        assert told == {each.name: encode_uuid(each.topic_id) for each in cluster.metadata(names).topics}


def test_what_describe_prints_makes_the_same_topic(moldau: Moldau, name: str, tmp_path: Path) -> None:
    moldau("topic", "create", name, "--partitions", 2, "--set", "cleanup.policy=compact", "--set", "flush.ms=9")
    settled(moldau, name, 2)
    printed = moldau("topic", "describe", name, "-o", "json").out
    file = tmp_path / "topic.json"
    file.write_text(printed.replace(name, f"{name}-copy"))
    assert moldau("topic", "create", "--from-file", file).code == 0
    settled(moldau, f"{name}-copy", 2)
    made, copied = (moldau("topic", "describe", each, "-o", "json").document[0] for each in (name, f"{name}-copy"))
    for key in ("partitions", "replication_factor", "config"):
        assert made[key] == copied[key]


def test_a_listing_can_be_fed_back_through_stdin(moldau: Moldau, name: str) -> None:
    listing = json.dumps([{"name": f"{name}-{number}", "partitions": number} for number in (1, 2)])
    made = moldau("topic", "create", "--from-file", "-", "-o", "json", stdin=listing).document
    assert [(topic["name"], topic["partitions"]) for topic in made] == [(f"{name}-1", 1), (f"{name}-2", 2)]


def test_a_dry_run_creates_nothing_and_still_checks(moldau: Moldau, name: str) -> None:
    assert moldau("topic", "create", name, "--dry-run").out == f"would create topic {name}\n"
    assert name not in moldau("topic", "list", "--all").out
    assert "retention.mss" in moldau("topic", "create", name, "--dry-run", "--set", "retention.mss=1").complaint


def test_topics_that_exist_are_refused_or_left_alone(moldau: Moldau, name: str) -> None:
    moldau("topic", "create", name)
    refused = moldau("topic", "create", name)
    assert refused.code == 1 and "already exists" in refused.complaint and "--if-not-exists" in refused.complaint
    settled(moldau, name, 1)
    assert moldau("topic", "create", name, "--if-not-exists").code == 0


def test_what_can_be_created_is_created_although_another_one_is_refused(moldau: Moldau, name: str) -> None:
    done = moldau("topic", "create", name, "no/slash", "two words")
    assert done.code == 1 and done.out == f"created topic {name}\n"
    assert "2 of 3 refused" in done.complaint and "no/slash" in done.complaint and "two words" in done.complaint


def test_list_by_pattern_and_internal_topics(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, f"{name}.a")
    create_topic(admin, f"{name}.b")
    create_topic(admin, f"__moldau-{name}")
    assert moldau("topic", "list", f"{name}.?").rows == [[f"{name}.a", "1", "1"], [f"{name}.b", "1", "1"]]
    assert f"__moldau-{name}" not in moldau("topic", "list").out
    assert f"__moldau-{name}" in moldau("topic", "list", "--all").out
    found = moldau("topic", "list", f"{name}.a", "-o", "json").document
    assert found == [{"name": f"{name}.a", "partitions": 1, "replication_factor": 1, "internal": False}]


def test_offsets_are_told_and_records_counted(moldau: Moldau, admin: AdminClient, address: str, name: str) -> None:
    """The markers of two transactions and an aborted record have offsets, and are no records."""
    create_topic(admin, name)
    produce(address, name, ["a", "b", "c"])
    with open_transaction(address, name, name, ["aborted"]) as producer:
        producer.abort_transaction(SECONDS)
        producer.begin_transaction()
        producer.produce(name, "committed")
        producer.commit_transaction(SECONDS)
    heading, row = moldau("topic", "list", name, "-o", "wide").out.splitlines()
    assert heading.split()[3] == "OFFSETS" and row.split()[:4] == [name, "1", "1", "7"]
    assert moldau("topic", "list", name, "--count").rows == [[name, "1", "1", "4"]]
    (described,) = moldau("topic", "describe", name, "--count", "-o", "json").document
    assert (described["records"], described["layout"][0]["records"]) == (4, 4)
    assert "RECORDS" not in moldau("topic", "describe", name).out
    with open_transaction(address, name, name, ["undecided"]) as producer:
        assert moldau("topic", "describe", name, "--count").out.splitlines()[-1].split()[-1] == "4"
        producer.abort_transaction(SECONDS)


def test_alter_adds_partitions_and_changes_settings(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, name, configs={"retention.ms": 5})
    arguments = ("topic", "alter", name, "--partitions", 3, "--set", "flush.ms=7", "--unset", "retention.ms")
    assert "would change" in moldau(*arguments, "--dry-run").out
    (before,) = moldau("topic", "describe", name, "-o", "json").document
    assert (before["partitions"], before["config"]) == (1, {"retention.ms": "5"})
    done = moldau(*arguments)
    assert done.code == 0 and "another partition" in done.err
    wait_until(lambda: len(moldau("topic", "describe", name, "-o", "json").document[0]["layout"]) == 3, "3 partitions")
    assert moldau("topic", "describe", name, "-o", "json").document[0]["config"] == {"flush.ms": "7"}
    refused = moldau("topic", "alter", name, "--partitions", 2)
    assert refused.code == 1 and "would not be an increase" in refused.complaint


def test_truncate_by_offset_by_time_and_whole(moldau: Moldau, admin: AdminClient, address: str, name: str) -> None:
    create_topic(admin, name)
    produce(address, name, [str(number) for number in range(10)])
    planned = moldau("topic", "truncate", name, "--before", 4, "--dry-run", "-o", "json")
    assert planned.document == [{"topic": name, "partition": 0, "first_offset": 0, "new_first_offset": 4}]
    assert log_range(admin, name) == (0, 10)
    assert moldau("topic", "truncate", name, "--before", 4, "--yes").code == 0
    assert log_range(admin, name) == (4, 10)
    assert moldau("topic", "truncate", name, "--before-time", "-1d", "--yes").err == "0 offsets were deleted\n"
    assert moldau("topic", "truncate", name, "--yes").err == "6 offsets were deleted\n"
    assert log_range(admin, name) == (10, 10)


def test_a_compacted_topic_keeps_its_records(moldau: Moldau, admin: AdminClient, address: str, name: str) -> None:
    create_topic(admin, name)
    produce(address, name, ["a"])
    assert moldau("config", "set", "topic", name, "cleanup.policy=compact").code == 0
    refused = moldau("topic", "truncate", name, "--yes")
    assert refused.code == 1 and "cleanup.policy" in refused.complaint


def test_nothing_is_destroyed_unasked(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    refused = moldau("topic", "delete", name)
    assert refused.code == 2 and "--yes" in refused.complaint
    assert moldau("topic", "delete", name, "--dry-run").out == f"would delete topic {name} (1 partition)\n"
    assert name in moldau("topic", "list").out


def test_unknown_topics(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    for verb in (["describe"], ["delete", "--yes"], ["alter", "--partitions", 2], ["truncate", "--yes"]):
        refused = moldau("topic", verb[0], f"{name}x", *verb[1:])
        assert refused.code == 4
        assert refused.complaint == f"topic '{name}x' does not exist; did you mean '{name}'?"
    assert moldau("topic", "delete", f"{name}x", "--if-exists", "--yes").code == 0
    refused = moldau("topic", "truncate", name, "--partition", 7, "--yes")
    assert refused.code == 4 and "has no partition 7" in refused.complaint
