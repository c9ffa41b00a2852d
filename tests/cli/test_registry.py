"""`moldau registry …` against a real registry: what people type, what they read, how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.command import Ran, run
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")

USER = {"type": "record", "name": "User", "fields": [{"name": "x", "type": "int"}]}


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Registry]]:
    """Two that know nothing of each other."""
    folder = tmp_path_factory.mktemp("registries")
    with Broker(folder / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker:
        other = {"kafkastore.topic": "other", "schema.registry.group.id": "other", **QUICK}
        with Registry(folder / "a", broker.address, QUICK) as one, Registry(folder / "b", broker.address, other) as two:
            yield [one, two]


def test_schemas_by_hand(registries: list[Registry], tmp_path: Path) -> None:
    one, two = registries

    def moldau(*arguments: object, registry: Registry = one) -> Ran:
        return run("registry", *arguments, environment={"MOLDAU_REGISTRY": registry.url})

    good, bad, proto = tmp_path / "user.avsc", tmp_path / "bad.avsc", tmp_path / "place.proto"
    good.write_text(json.dumps(USER))
    bad.write_text(json.dumps({**USER, "fields": [*USER["fields"], {"name": "y", "type": "int"}]}))
    proto.write_text('syntax = "proto3"; message Place { string name = 1; }')
    assert moldau("register", "users-value", good).out == "1\n"
    assert moldau("register", "places-value", proto).out == "2\n"
    assert moldau("check", "users-value", good).code == 0
    refused = moldau("check", "users-value", bad)
    assert refused.code == 1 and "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.out and "/fields/1" in refused.out
    assert "40901" in moldau("register", "users-value", bad).complaint
    assert moldau("level").out == "BACKWARD\n"
    assert moldau("level", "users-value", "--set", "none").out == "none\n"
    assert moldau("register", "users-value", bad).out == "3\n"
    assert moldau("list").rows == [["places-value", "PROTOBUF", "1", "2"], ["users-value", "AVRO", "1,", "2", "3"]]
    assert "message Place {" in moldau("show", "places-value").out
    assert moldau("show", "users-value", "--version", 1, "-o", "json").document["id"] == 1
    exported = tmp_path / "all.jsonl"
    exported.write_text(moldau("export").out)
    assert moldau("import", exported, registry=two).code == 0
    for registry in registries:
        assert registry.ask("GET", "/schemas/ids/3")[0] == 200
    assert one.ask("GET", "/subjects/users-value/versions")[1] == two.ask("GET", "/subjects/users-value/versions")[1]
    assert moldau("import", exported, registry=two).code == 0
    assert moldau("delete", "users-value").code == 0
    assert moldau("show", "users-value").code == 4


def test_an_import_leaves_modes_and_configs_as_they_were_or_as_they_were_exported(
    registries: list[Registry], tmp_path: Path
) -> None:
    one, two = registries
    schema = {"schema": json.dumps({**USER, "name": "Modes"})}
    for subject in ("m-free", "m-fixed", "m-importing", ":.m:s"):
        assert one.ask("POST", f"/subjects/{subject}/versions", schema)[0] == 200
    one.ask("PUT", "/mode/m-importing?force=true", {"mode": "IMPORT"})
    one.ask("PUT", "/config/:.m:", {"compatibility": "FULL"})
    one.ask("PUT", "/mode/:.m:", {"mode": "READONLY"})
    two.ask("PUT", "/mode/m-fixed", {"mode": "READONLY"})
    (tmp_path / "all.jsonl").write_text(run("registry", "export", "--url", one.url).out)
    for _ in range(2):
        assert run("registry", "import", tmp_path / "all.jsonl", "--url", two.url).code == 0
        modes = {subject: two.ask("GET", f"/mode/{subject}") for subject in ("m-fixed", "m-importing", ":.m:")}
        assert modes == {
            "m-fixed": (200, {"mode": "READONLY"}),
            "m-importing": (200, {"mode": "IMPORT"}),
            ":.m:": (200, {"mode": "READONLY"}),
        }
        assert two.ask("GET", "/mode/m-free")[0] == 404
        assert two.ask("GET", "/config/:.m:")[1]["compatibilityLevel"] == "FULL"
    two.ask("PUT", "/mode", {"mode": "READONLY"})
    assert run("registry", "import", tmp_path / "all.jsonl", "--url", two.url).code == 0
    assert two.ask("GET", "/mode") == (200, {"mode": "READONLY"})
    two.ask("DELETE", "/mode")
    one.ask("DELETE", "/mode/:.m:")


def test_associations_are_exported_with_their_subjects(registries: list[Registry], tmp_path: Path) -> None:
    one, two = registries
    schema = {"schema": json.dumps({**USER, "name": "Bound"})}
    for subject in ("b-value", ":.b:b-key", "b-other"):
        assert one.ask("POST", f"/subjects/{subject}/versions", schema)[0] == 200
    wanted = [{"subject": "b-value", "lifecycle": "STRONG", "frozen": True},
              {"subject": ":.b:b-key", "associationType": "key"}]  # fmt: skip
    body = {"resourceName": "b", "resourceNamespace": "lkc-1", "resourceId": "id-b", "associations": wanted}
    assert one.ask("POST", "/associations", body)[0] == 200
    (tmp_path / "all.jsonl").write_text(run("registry", "export", "--url", one.url).out)
    for _ in range(2):
        assert run("registry", "import", tmp_path / "all.jsonl", "--url", two.url).code == 0
        found = two.ask("GET", "/associations/resources/id-b")[1]
        assert found == one.ask("GET", "/associations/resources/id-b")[1] and len(found) == 2
        assert two.ask("GET", "/associations/subjects/b-other") == (200, [])


def test_an_import_that_fails_leaves_modes_as_they_were(registries: list[Registry], tmp_path: Path) -> None:
    two = registries[1]
    for subject in ("f-a", "f-b"):
        assert two.ask("POST", f"/subjects/{subject}/versions", {"schema": '"int"'})[0] == 200
    two.ask("PUT", "/mode/f-a", {"mode": "READONLY"})
    bad = {"version": {"subject": "f-a", "version": 7, "id": 1, "schema": '"bytes"'}}
    (tmp_path / "bad.jsonl").write_text(json.dumps(bad))
    assert "42207" in run("registry", "import", tmp_path / "bad.jsonl", "--url", two.url).complaint
    assert two.ask("GET", "/mode/f-a") == (200, {"mode": "READONLY"})


def test_mistakes_are_told(registries: list[Registry], tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("{}")
    url = registries[0].url
    assert "--type" in run("registry", "register", "s", tmp_path / "x.txt", "--url", url).complaint
    assert "http://host:port" in run("registry", "list", "--url", "nowhere").complaint
    assert run("registry", "list", "--url", "http://127.0.0.1:1").code == 3
    assert "kafkastore.bootstrap.servers" in run("registry", "start").complaint
    assert "listeners" in run("registry", "start", "--bootstrap-server", "x:1", "--listen", "ftp://x").complaint


PLACE = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
message Place { string long_name = 1; int64 n = 2; google.protobuf.Timestamp at = 3; }"""


def decode(registry: Registry, topic: str, *options: object, keys: str = "value") -> Ran:
    url = {"MOLDAU_REGISTRY": registry.url}
    return run("consume", topic, "-b", registry.broker, "--decode", keys, *options, environment=url)


@pytest.mark.parametrize(
    ("name", "schema", "lines"),
    [
        (
            "user.avsc",
            json.dumps(
                {**USER, "fields": [*USER["fields"], {"name": "n", "type": ["null", "string"], "default": None}]}
            ),
            ['{"x":1,"n":null}', '{"x":-2,"n":{"string":"ü"}}'],
        ),
        ("text.avsc", '"string"', ['"tea"', '"cof\\tfee"']),
        ("place.json", '{"type":"object","required":["x"]}', ['{"x":1}', '{"x":[1,null]}']),
        (
            "place.proto",
            PLACE,
            ['{"long_name":"Praha","n":"5"}', '{"at":"2026-02-03T04:05:06Z"}'],
        ),
    ],
)
def test_records_with_schemas_are_written_and_read(
    registries: list[Registry], tmp_path: Path, name: str, schema: str, lines: list[str]
) -> None:
    registry, topic = registries[0], f"values-{name.replace('.', '-')}"
    (tmp_path / name).write_text(schema)
    url = {"MOLDAU_REGISTRY": registry.url}

    def produce(*options: object, text: str) -> Ran:
        return run("produce", topic, "-b", registry.broker, *options, stdin=text, environment=url)

    assert produce("--value-schema", tmp_path / name, text="\n".join(lines)).code == 0
    assert decode(registry, topic).out.splitlines() == lines
    printed = decode(registry, topic, "-o", "json").out
    assert [json.loads(line)["value"] for line in printed.splitlines()] == [json.loads(line) for line in lines]
    assert produce("-i", "json", "--value-schema", "latest", text=printed).code == 0
    assert decode(registry, topic).out.splitlines() == lines * 2
    refused = produce("--value-schema", "latest", text="[1]\n")
    assert refused.code == 2 and "line 1: the value does not fit schema" in refused.complaint
    assert "no file, no id, and not latest" in produce("--value-schema", "gone.avsc", text="").complaint


def test_records_that_cannot_be_decoded_are_told_with_their_offsets(registries: list[Registry], tmp_path: Path) -> None:
    registry, topic = registries[0], "undecoded"
    (tmp_path / "n.avsc").write_text('"long"')
    run("produce", topic, "-b", registry.broker, "plain")
    written = run(
        "produce", topic, "-b", registry.broker, "--registry", registry.url, "--value-schema", tmp_path / "n.avsc",
        "--key-schema", tmp_path / "n.avsc", "-K", ":", stdin="1:2\n3:4\n",
    )  # fmt: skip
    assert written.code == 0
    (tmp_path / "bad").write_text(json.dumps({"value_base64": "AAAAA+cC"}))
    run("produce", topic, "-b", registry.broker, "-i", "json", "-f", tmp_path / "bad")
    found = decode(registry, topic)
    assert found.code == 1
    assert found.out == "2\n4\n"
    assert "undecoded [0] offset 0: the value is left out: no schema id before it" in found.err
    assert "undecoded [0] offset 3: the value is left out" in found.err and "Schema 999 not found" in found.err
    assert "4 records read, 2 of them shown, 2 could not be decoded" in found.err
    both = decode(registry, topic, "-k", "-n", 2, keys="both")
    assert both.out == "1\t2\n3\t4\n"
    away = run("consume", topic, "-b", registry.broker, "--decode", "value", "--registry", "http://127.0.0.1:1")
    assert away.code == 3 and "does one run there" in away.err
