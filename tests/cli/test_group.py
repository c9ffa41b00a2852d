"""`moldau group` against a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.conftest import Moldau
from tests.cli.traffic import commit, member, produce
from tests.support.admin import create_topic
from tests.support.waiting import wait_until


@pytest.fixture
def topic(admin: AdminClient, address: str, name: str) -> str:
    """Two partitions with ten and with five records."""
    create_topic(admin, name, 2)
    produce(address, name, [str(number) for number in range(10)], 0)
    produce(address, name, [str(number) for number in range(5)], 1)
    return name


@pytest.fixture
def group(address: str, topic: str) -> str:
    """Has read four of the ten and all of the five."""
    commit(address, f"g-{topic}", {(topic, 0): 4, (topic, 1): 5})
    return f"g-{topic}"


def offsets(moldau: Moldau, group: str) -> list[int]:
    (found,) = moldau("group", "describe", group, "-o", "json").document
    return [row["offset"] for row in found["offsets"]]


def test_a_watch_shows_the_lag_again_and_again(moldau: Moldau, group: str) -> None:
    shown = moldau("group", "watch", group, "--every", "10ms", "--count", 2)
    assert [row[1:5] for row in shown.rows] == [[group, "Empty", "0", "6"]] * 2
    assert [row[5:] for row in shown.rows] == [["-", "-"], ["0.0", "0.0"]]
    assert f'"group": "{group}"' in moldau("group", "watch", "--count", 1, "-o", "json").out
    refused = moldau("group", "watch", f"no-{group}")
    assert refused.code == 4 and "does not exist" in refused.complaint


def test_list_describe_and_state(moldau: Moldau, group: str, topic: str) -> None:
    assert [group, "Empty", "classic"] in moldau("group", "list").rows
    assert [group, "Empty", "classic"] in moldau("group", "list", "--state", "empty", "--type", "classic").rows
    assert group not in moldau("group", "list", "--state", "Stable").out
    (found,) = [row for row in moldau("group", "list", "-o", "json").document if row["group"] == group]
    assert (found["state"], found["type"]) == ("Empty", "classic")
    shown = moldau("group", "describe", group)
    assert "lag 6" in shown.out.splitlines()[0]
    assert [topic, "0", "4", "10", "6", "-"] in shown.rows
    assert [topic, "1", "5", "5", "0", "-"] in shown.rows
    (summary,) = moldau("group", "state", group, "-o", "json").document
    assert (summary["state"], summary["members"]) == ("Empty", 0)


def test_a_group_with_a_member(moldau: Moldau, address: str, topic: str) -> None:
    group = f"live-{topic}"
    with member(address, group, topic):
        wait_until(lambda: moldau("group", "state", group, "-o", "json").document[0]["state"] == "Stable", "stable")
        (found,) = moldau("group", "describe", group, "-o", "json").document
        assert {row["client_id"] for row in found["offsets"]} == {"reader"}
        assert sorted(found["members"][0]["partitions"]) == [[topic, 0], [topic, 1]]
        assert "reader" in moldau("group", "describe", group, "--members").out
        refused = moldau("group", "reset", group, "--to-earliest", "--topic", topic, "--execute")
        assert refused.code == 1 and "is Stable" in refused.complaint and "stop its members" in refused.complaint
        refused = moldau("group", "delete", group, "--yes")
        assert refused.code == 1 and "not empty" in refused.complaint.lower()


def test_groups_of_the_platform_are_hidden(moldau: Moldau, address: str, topic: str) -> None:
    commit(address, f"__moldau-sink-{topic}", {(topic, 0): 1})
    assert f"__moldau-sink-{topic}" not in moldau("group", "list").out
    assert f"__moldau-sink-{topic}" in moldau("group", "list", "--all").out


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 5]),
        (["--to-current"], [4, 5]),
        (["--to-offset", 3], [3, 3]),
        (["--shift-by", "-2"], [2, 3]),
        (["--to-datetime", "2001-01-01"], [0, 0]),
        (["--to-datetime", "2200-01-01T00:00:00Z"], [10, 5]),
        (["--by-duration", "2d"], [0, 0]),
        (["--by-duration", "PT0S"], [10, 5]),
    ],
)
def test_reset(moldau: Moldau, group: str, where: list[object], wanted: list[int]) -> None:
    planned = moldau("group", "reset", group, *where, "-o", "json")
    assert [row["offset"] for row in planned.document[0]["offsets"]] == wanted
    assert "--execute" in planned.err
    assert offsets(moldau, group) == [4, 5]
    done = moldau("group", "reset", group, *where, "--execute")
    assert done.code == 0 and f"moved group {group}" in done.err
    assert offsets(moldau, group) == wanted


def test_an_offset_outside_of_the_partition_becomes_its_edge(moldau: Moldau, group: str, topic: str) -> None:
    done = moldau("group", "reset", group, "--to-offset", 7, "--execute")
    assert f"{topic}-1: 7 is not within 0 to 5; 5 is taken" in done.err
    assert offsets(moldau, group) == [7, 5]


def test_reset_of_some_partitions(moldau: Moldau, group: str, topic: str) -> None:
    assert moldau("group", "reset", group, "--to-earliest", "--topic", f"{topic}:1", "--execute").code == 0
    assert offsets(moldau, group) == [4, 0]
    refused = moldau("group", "reset", group, "--to-earliest", "--topic", f"{topic}:5")
    assert refused.code == 4 and "has no partition 5" in refused.complaint


def test_what_describe_prints_brings_a_group_back(moldau: Moldau, group: str, tmp_path: Path) -> None:
    kept = tmp_path / "group.json"
    kept.write_text(moldau("group", "describe", group, "-o", "json").out)
    moldau("group", "reset", group, "--to-latest", "--execute")
    assert offsets(moldau, group) == [10, 5]
    assert moldau("group", "reset", group, "--from-file", kept, "--execute").code == 0
    assert offsets(moldau, group) == [4, 5]


def test_a_plan_can_be_kept_and_carried_out_later(moldau: Moldau, group: str) -> None:
    plan = moldau("group", "reset", group, "--to-earliest", "-o", "json").out
    assert moldau("group", "reset", group, "--from-file", "-", "--execute", stdin=plan).code == 0
    assert offsets(moldau, group) == [0, 0]


def test_csv_of_kafkas_own_tool(moldau: Moldau, group: str, topic: str) -> None:
    export = f"{topic},0,1\n{topic},1,2\n"
    assert moldau("group", "reset", group, "--from-file", "-", "--execute", stdin=export).code == 0
    assert offsets(moldau, group) == [1, 2]
    of_many = f'"{group}","{topic}",0,3\n"another","{topic}",0,9\n'
    assert moldau("group", "reset", group, "--from-file", "-", "--execute", stdin=of_many).code == 0
    assert offsets(moldau, group) == [3, 2]


def test_one_group_follows_another(moldau: Moldau, group: str) -> None:
    assert moldau("group", "reset", f"{group}-copy", "--to-group", group, "--execute").code == 0
    assert offsets(moldau, f"{group}-copy") == [4, 5]


def test_a_new_group_needs_a_topic(moldau: Moldau, topic: str) -> None:
    refused = moldau("group", "reset", f"new-{topic}", "--to-latest")
    assert refused.code == 4 and "--topic" in refused.complaint
    assert moldau("group", "reset", f"new-{topic}", "--to-latest", "-t", topic, "--execute").code == 0
    assert offsets(moldau, f"new-{topic}") == [10, 5]


def test_delete_offsets_and_groups(moldau: Moldau, group: str, topic: str) -> None:
    assert "would delete" in moldau("group", "delete", group, "--topic", f"{topic}:0", "--dry-run").out
    assert moldau("group", "delete", group, "--topic", f"{topic}:0", "--yes").code == 0
    assert offsets(moldau, group) == [5]
    assert moldau("group", "delete", group, "--dry-run").out == f"would delete group {group}\n"
    assert moldau("group", "delete", group, "--yes").out == f"deleted group {group}\n"
    assert group not in moldau("group", "list").out


@pytest.mark.parametrize("verb", [["describe"], ["state"], ["delete", "--yes"]])
def test_unknown_groups(moldau: Moldau, group: str, verb: list[str]) -> None:
    refused = moldau("group", verb[0], f"{group}x", *verb[1:])
    assert refused.code == 4
    assert refused.complaint == f"group '{group}x' does not exist; did you mean '{group}'?"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ([], "say where to"),
        (["--to-earliest", "--to-latest"], "exclude each other"),
        (["--to-datetime", "yesterday"], "is no time"),
        (["--by-duration", "an hour"], "is no duration"),
        (["--to-earliest", "--execute", "--dry-run"], "exclude each other"),
        (["--to-earliest", "--topic", "a:b"], "TOPIC:0,1,2"),
    ],
)
def test_a_reset_that_cannot_be_understood(moldau: Moldau, group: str, where: list[str], said: str) -> None:
    refused = moldau("group", "reset", group, *where)
    assert refused.code == 2 and said in refused.complaint
