"""A record reaches a sink with its own fields and types, whichever others are in its batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.connect.sink_batches import FREE, Sent, delivered
from tests.support.connect import JSON

JAVA = "org.apache.kafka.connect.transforms."
ENVELOPED = {"value.converter": JSON}


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def enveloped(payload: Any, *fields: tuple[str, str] | dict[str, Any]) -> bytes:
    shaped = [each if isinstance(each, dict) else {"field": each[0], "type": each[1]} for each in fields]
    return text({"schema": {"type": "struct", "fields": shaped, "optional": True}, "payload": payload})


def test_json_keeps_its_own_fields_and_types(spark: SparkSession, tmp_path: Path) -> None:
    sent = [
        {"k": 1, "v": 1},
        {"k": 1},
        {"v": "x"},
        {"v": 1.5},
        {"v": 2.25, "k": None},
        {"v": {"a": 1}},
        {"v": {"b": "deep", "a": 7}},
        {},
        {"l": [1, "x", 2.5, None, {"a": 1}, {"b": [True]}]},
        {"l": []},
        {"odd name `x`": {"a b": 1}, "DECIMAL(2,1)": "y"},
        "only a text",
        17,
        [1, 2],
        {"large": 2**70, "wide": 0.1234567890123456},
        True,
        {"v": 10.0},
    ]
    found = delivered(spark, tmp_path / "out", [text(each) for each in sent])
    assert found.letters == []
    assert found.values == sent
    assert [type(each["v"]) for each in found.values if isinstance(each, dict) and "v" in each] == [
        int, str, float, float, dict, dict, float,
    ]  # fmt: skip
    assert [record.offset for record in found.records] == list(range(len(sent))), "in their order"


def test_two_topics_keep_their_fields(spark: SparkSession, tmp_path: Path) -> None:
    sent = [Sent(text({"a": 1}), topic="a"), Sent(text({"b": 2}), topic="b"), Sent(text({"a": "x"}), topic="b")]
    found = delivered(spark, tmp_path / "out", sent)
    assert [(record.topic, record.value) for record in found.records] == [
        ("a", {"a": 1}), ("b", {"b": 2}), ("b", {"a": "x"}),
    ]  # fmt: skip
    assert found.ends == {("a", 0): 1, ("b", 0): 3}


@pytest.mark.parametrize("tasks", ["1", "4"])
def test_partitions_keep_their_order_though_records_differ(spark: SparkSession, tmp_path: Path, tasks: str) -> None:
    sent = [
        Sent(text({"n": number if number % 3 else str(number)}), topic=f"t{number % 2}", partition=number % 5)
        for number in range(120)
    ]
    found = delivered(spark, tmp_path / "out", sent, {**FREE, "tasks.max": tasks})
    assert len(found.records) == 120
    places: dict[Any, list[int]] = {}
    for record in found.records:
        places.setdefault(record.source, []).append(record.offset)
        assert int(record.value["n"]) == record.offset
    assert len(places) == 10
    assert all(offsets == sorted(offsets) for offsets in places.values())


def test_schemas_that_contradict_each_other_are_both_read(spark: SparkSession, tmp_path: Path) -> None:
    number, word = ("v", "int32"), ("v", "string")
    sent = [
        enveloped({"v": 1}, number),
        enveloped({"v": "x"}, word),
        enveloped({"v": 2, "w": None}, number, {"field": "w", "type": "double", "optional": True}),
        None,
        text({"schema": None, "payload": {"free": [1, "x"]}}),
        text({"schema": None, "payload": None}),
    ]
    found = delivered(spark, tmp_path / "out", sent, ENVELOPED)
    assert found.letters == []
    assert found.values == [{"v": 1}, {"v": "x"}, {"v": 2, "w": None}, None, {"free": [1, "x"]}, None]


def test_what_is_no_envelope_is_refused_alone(spark: SparkSession, tmp_path: Path) -> None:
    sent = [
        enveloped({"v": 1}, ("v", "int32")),
        b"no JSON",
        text({"payload": 1}),
        text({"schema": None, "payload": 1, "more": 2}),
        text({"schema": {"type": "nothing"}, "payload": 1}),
        enveloped({"v": "no number"}, ("v", "int32")),
        enveloped({"v": 2}, ("v", "int32")),
    ]
    found = delivered(spark, tmp_path / "out", sent, ENVELOPED)
    assert found.values == [{"v": 1}, {"v": 2}]
    assert [offset for offset, _ in found.problems] == [1, 2, 3, 4, 5]
    assert "may not contain additional fields" in found.problems[2][1]
    assert "Unknown schema type: nothing" in found.problems[3][1]


def test_transforms_see_each_record_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Two topics, one of which calls its field differently, are made alike."""
    config = {**FREE, "transforms": "r", "transforms.r.type": f"{JAVA}ReplaceField$Value"}
    config["transforms.r.renames"] = "ident:id"
    sent = [Sent(text({"ident": 1}), topic="a"), Sent(text({"id": 2, "x": 0}), topic="b"), Sent(text({"id": 3}))]
    assert delivered(spark, tmp_path / "out", sent, config).values == [{"id": 1}, {"id": 2, "x": 0}, {"id": 3}]
    plain = [text({"ident": 1}), text({"id": 2, "x": 0}), None, text({"id": 3})]
    assert delivered(spark, tmp_path / "one", plain, config).values == [{"id": 1}, {"id": 2, "x": 0}, None, {"id": 3}]


def test_records_that_a_predicate_leaves_out_stay_what_they_are(spark: SparkSession, tmp_path: Path) -> None:
    config = {
        **FREE, "transforms": "e", "transforms.e.type": f"{JAVA}ExtractField$Value", "transforms.e.field": "v",
        "transforms.e.predicate": "p", "predicates": "p", "predicates.p.type": f"{JAVA}predicates.TopicNameMatches",
        "predicates.p.pattern": "other",
    }  # fmt: skip
    sent = [Sent(text({"v": 1})), Sent(text({"v": 2}), topic="other"), Sent(text({"w": 3})), Sent(None, topic="other")]
    found = delivered(spark, tmp_path / "out", sent, config)
    assert sorted(((each.offset, each.value) for each in found.records), key=lambda each: each[0]) == [
        (0, {"v": 1}), (1, 2), (2, {"w": 3}), (3, None),
    ]  # fmt: skip


def test_a_record_without_the_field_of_a_transform_is_refused_only_with_a_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    extract = {"transforms": "e", "transforms.e.type": f"{JAVA}ExtractField$Value", "transforms.e.field": "v"}
    free = delivered(spark, tmp_path / "out", [text({"v": 1}), text({"w": 2})], {**FREE, **extract})
    assert free.values == [1, None]
    sent = [enveloped({"v": 1}, ("v", "int32")), enveloped({"w": 2}, ("w", "int32"))]
    found = delivered(spark, tmp_path / "out", sent, {**ENVELOPED, **extract})
    assert (found.values, found.problems) == ([1], [(1, "Unknown field: v")])
    assert found.letters[0].stage == "TRANSFORMATION"


TRANSFORMS = {
    "ReplaceField": {"exclude": "a,b"},
    "InsertField": {"static.field": "s", "static.value": "x"},
    "MaskField": {"fields": "a"},
    "ExtractField": {"field": "a"},
    "Flatten": {},
    "Cast": {"spec": "int32"},
    "TimestampConverter": {"target.type": "Date"},
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_tombstones_alone_pass(spark: SparkSession, tmp_path: Path, name: str) -> None:
    config = {f"transforms.t.{key}": value for key, value in TRANSFORMS[name].items()}
    config |= {"transforms": "t", "transforms.t.type": f"{JAVA}{name}$Value"}
    for converter in (FREE, ENVELOPED):
        found = delivered(spark, tmp_path / "out", [Sent(None, b"k"), Sent(None, b"l")], {**converter, **config})
        assert ([(each.key, each.value) for each in found.records], found.letters) == ([("k", None), ("l", None)], [])


def test_a_struct_may_lose_all_its_fields(spark: SparkSession, tmp_path: Path) -> None:
    config = {**FREE, "transforms": "t", "transforms.t.type": f"{JAVA}ReplaceField$Value", "transforms.t.exclude": "a"}
    found = delivered(spark, tmp_path / "out", [text({"a": 1}), text({"a": 2, "b": 3})], config)
    assert found.values == [{}, {"b": 3}]


def test_fields_whose_names_differ_in_case_are_two(spark: SparkSession, tmp_path: Path) -> None:
    sent = [{"id": 1}, {"ID": 2}, {"id": 3, "ID": "x"}]
    assert delivered(spark, tmp_path / "out", [text(each) for each in sent]).values == sent


def test_a_batch_without_records_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    assert delivered(spark, tmp_path / "out", []).ends == {}
