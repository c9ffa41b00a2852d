"""Transforms and predicates: what they make of records, as Spark runs them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from moldau.connect.configuration import make_stages
from moldau.connect.converters import ERROR, ERROR_TYPE
from moldau.connect.definitions import ConfigRefused
from moldau.connect.schemas import SchemaRefused
from moldau.connect.transforms import Records

JAVA = "org.apache.kafka.connect.transforms."
TYPE = (
    "key string, value struct<id: int, name: string, at: struct<x: int, y: int>>, headers array<struct<key string, "
    "value binary>>, topic string, partition int, offset bigint, timestamp timestamp"
)
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 250_000)  # noqa: DTZ001 (as Spark gives it)
RECORDS: Sequence[tuple[Any, ...]] = [
    ("k1", (1, "one", (10, 11)), [("h", b"1")], "orders", 0, 5, NOON),
    ("k2", None, None, "orders", 0, 6, NOON),
    ("k3", (3, "not a number", None), [], "other", 1, 7, NOON),
]


def transformed(
    spark: SparkSession, config: Mapping[str, str], rows: Sequence[tuple[Any, ...]] = RECORDS, kind: str = TYPE
) -> list[Row]:
    """`t.…` and `p.…` are the settings of one transform and one predicate."""
    given = {"transforms": "t", **{f"transforms.{name}": text for name, text in config.items() if name[0] == "t"}}
    given |= {"predicates": "p", **{f"predicates.{name}": text for name, text in config.items() if name[0] == "p"}}
    frame = spark.createDataFrame(rows, kind.replace(": ", ":")).withColumn(ERROR, F.lit(None).cast(ERROR_TYPE))
    records = Records(frame, F.lit(True))
    for stage in make_stages(given):
        records = stage.apply(records)
    return records.frame.orderBy("offset").collect()


def values(rows: Sequence[Row], side: str = "value") -> list[Any]:
    found = [row[side] for row in rows]
    return [each.asDict(recursive=True) if isinstance(each, Row) else each for each in found]


CASES: Mapping[str, tuple[Mapping[str, str], Any]] = {
    "InsertField": (
        {
            "t.type": f"{JAVA}InsertField$Value",
            "t.topic.field": "topic",
            "t.offset.field": "n!",
            "t.static.field": "s",
            "t.static.value": "x",
        },
        {"id": 1, "name": "one", "at": {"x": 10, "y": 11}, "topic": "orders", "n": 5, "s": "x"},
    ),
    "ReplaceField": (
        {"t.type": f"{JAVA}ReplaceField$Value", "t.exclude": "at", "t.renames": "id:number,name:word"},
        {"number": 1, "word": "one"},
    ),
    "MaskField": (
        {"t.type": f"{JAVA}MaskField$Value", "t.fields": "id,name"},
        {"id": 0, "name": "", "at": {"x": 10, "y": 11}},
    ),
    "MaskField with a replacement": (
        {"t.type": f"{JAVA}MaskField$Value", "t.fields": "name", "t.replacement": "***"},
        {"id": 1, "name": "***", "at": {"x": 10, "y": 11}},
    ),
    "ExtractField": ({"t.type": f"{JAVA}ExtractField$Value", "t.field": "name"}, "one"),
    "ExtractField by path": (
        {"t.type": f"{JAVA}ExtractField$Value", "t.field": "at.y", "t.field.syntax.version": "V2"},
        11,
    ),
    "HoistField": (
        {"t.type": f"{JAVA}HoistField$Value", "t.field": "v"},
        {"v": {"id": 1, "name": "one", "at": {"x": 10, "y": 11}}},
    ),
    "Flatten": (
        {"t.type": f"{JAVA}Flatten$Value", "t.delimiter": "_"},
        {"id": 1, "name": "one", "at_x": 10, "at_y": 11},
    ),
    "Cast": (
        {"t.type": f"{JAVA}Cast$Value", "t.spec": "id:string"},
        {"id": "1", "name": "one", "at": {"x": 10, "y": 11}},
    ),
    "HeaderFrom moves": (
        {"t.type": f"{JAVA}HeaderFrom$Value", "t.fields": "name", "t.headers": "n", "t.operation": "move"},
        {"id": 1, "at": {"x": 10, "y": 11}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_transform_makes_of_a_value(spark: SparkSession, name: str) -> None:
    config, expected = CASES[name]
    rows = transformed(spark, config)
    assert values(rows)[0] == expected
    assert name == "HoistField" or rows[1].value is None, "a tombstone stays one"
    assert all(row[ERROR] is None for row in rows)


def test_keys_headers_and_topics(spark: SparkSession) -> None:
    assert values(transformed(spark, {"t.type": f"{JAVA}ValueToKey", "t.fields": "id"}), "key") == [
        {"id": 1},
        None,
        {"id": 3},
    ]
    inserted = transformed(spark, {"t.type": f"{JAVA}InsertHeader", "t.header": "a", "t.value.literal": "b"})
    assert [(each.key, bytes(each.value)) for each in inserted[0].headers] == [("h", b"1"), ("a", b"b")]
    assert transformed(spark, {"t.type": f"{JAVA}DropHeaders", "t.headers": "h"})[0].headers == []
    routed = transformed(spark, {"t.type": f"{JAVA}RegexRouter", "t.regex": "ord(.*)", "t.replacement": "new-$1"})
    assert [row.topic for row in routed] == ["new-ers", "new-ers", "other"]
    dated = transformed(spark, {"t.type": f"{JAVA}TimestampRouter"})
    assert dated[0].topic == "orders-20240229"


def test_predicates_choose_the_records(spark: SparkSession) -> None:
    drop = {"t.type": f"{JAVA}Filter", "t.predicate": "p"}
    tombstones = {**drop, "p.type": f"{JAVA}predicates.RecordIsTombstone"}
    assert [row.key for row in transformed(spark, tombstones)] == ["k1", "k3"]
    assert [row.key for row in transformed(spark, {**tombstones, "t.negate": "true"})] == ["k2"]
    by_header = {**drop, "p.type": f"{JAVA}predicates.HasHeaderKey", "p.name": "h"}
    assert [row.key for row in transformed(spark, by_header)] == ["k2", "k3"]
    by_topic = {
        "t.type": f"{JAVA}InsertField$Value", "t.static.field": "s", "t.static.value": "x", "t.predicate": "p",
        "p.type": f"{JAVA}predicates.TopicNameMatches", "p.pattern": "oth.*",
    }  # fmt: skip
    found = values(transformed(spark, by_topic))
    assert [each and each["s"] for each in found] == [None, None, "x"]


def test_times_change_their_form(spark: SparkSession) -> None:
    converter = {"t.type": f"{JAVA}TimestampConverter$Value"}
    kind = TYPE.replace("struct<id: int, name: string, at: struct<x: int, y: int>>", "bigint")
    rows = [(*RECORDS[0][:1], 1709208000250, *RECORDS[0][2:])]
    assert transformed(spark, {**converter, "t.target.type": "Timestamp"}, rows, kind)[0].value == NOON
    text = {**converter, "t.target.type": "string", "t.format": "yyyy-MM-dd HH:mm"}
    assert transformed(spark, text, rows, kind)[0].value == "2024-02-29 12:00"
    unix = {**converter, "t.target.type": "unix", "t.unix.precision": "milliseconds"}
    assert transformed(spark, unix, rows, kind)[0].value == 1709208000250


def test_what_does_not_fit_is_an_error_of_the_record(spark: SparkSession) -> None:
    rows = transformed(spark, {"t.type": f"{JAVA}Cast$Value", "t.spec": "name:int32"}, RECORDS[:1])
    assert (rows[0][ERROR].stage, rows[0][ERROR].message) == ("TRANSFORMATION", "field name cannot be cast")


def test_a_predicate_that_would_leave_two_types_is_refused(spark: SparkSession) -> None:
    config = {
        "t.type": f"{JAVA}ExtractField$Value", "t.field": "name", "t.predicate": "p",
        "p.type": f"{JAVA}predicates.TopicNameMatches", "p.pattern": "other",
    }  # fmt: skip
    with pytest.raises(SchemaRefused, match="need one type"):
        transformed(spark, config)


def keyed(rows: Sequence[tuple[Any, ...]] = RECORDS) -> list[tuple[Any, ...]]:
    """With the values as keys."""
    return [(value, key, *rest) for key, value, *rest in rows]


@pytest.mark.parametrize("name", CASES)
def test_what_a_transform_makes_of_a_key(spark: SparkSession, name: str) -> None:
    config, expected = CASES[name]
    config = {**config, "t.type": config["t.type"].replace("$Value", "$Key")}
    kind = TYPE.replace("key string, value struct<id: int, name: string, at: struct<x: int, y: int>>",
                        "key struct<id: int, name: string, at: struct<x: int, y: int>>, value string")  # fmt: skip
    rows = transformed(spark, config, keyed(), kind)
    assert values(rows, "key")[0] == expected
    assert [row.value for row in rows] == ["k1", "k2", "k3"], "the values stay"
    assert all(row[ERROR] is None for row in rows)


@pytest.mark.parametrize("side", ["key", "value"])
def test_schemas_get_names(spark: SparkSession, side: str) -> None:
    given = {"transforms": "t", "transforms.t.type": f"{JAVA}SetSchemaMetadata${side.capitalize()}"}
    given["transforms.t.schema.name"] = "com.example.Order"
    frame = spark.createDataFrame(RECORDS, TYPE.replace(": ", ":"))
    records = Records(frame, F.lit(True), "old key", "old value")
    for stage in make_stages(given):
        records = stage.apply(records)
    names = (records.key_name, records.value_name)
    assert names == (("com.example.Order", "old value") if side == "key" else ("old key", "com.example.Order"))
    assert records.frame is frame


@pytest.mark.parametrize("side", ["key", "value"])
def test_times_as_days_and_times_of_the_day(spark: SparkSession, side: str) -> None:
    """From each form, and back."""
    config = {"t.type": f"{JAVA}TimestampConverter${side.capitalize()}"}
    kind = "key KIND, value KIND, headers array<struct<key string, value binary>>, topic string, offset bigint"

    def converted(of: str, given: Any, target: str, **more: str) -> Any:
        rows = [(given, given, [], "t", 0), (None, None, [], "t", 1)]
        settings = {
            **config,
            "t.target.type": target,
            **{f"t.{key.replace('_', '.')}": each for key, each in more.items()},
        }
        first, second = transformed(spark, settings, rows, kind.replace("KIND", of))
        other = "value" if side == "key" else "key"
        assert (first[other], second[side], first[ERROR], second[ERROR]) == (given, None, None, None)
        return first[side]

    millis = 1709208000250
    assert converted("bigint", millis, "Date") == dt.date(2024, 2, 29)
    assert converted("timestamp", NOON, "Date") == dt.date(2024, 2, 29)
    assert converted("string", "29.02.2024 12:00", "Date", format="dd.MM.yyyy HH:mm") == dt.date(2024, 2, 29)
    assert converted("bigint", millis, "Time") == 12 * 3_600_000 + 250
    assert converted("bigint", -1, "Time") == 86_399_999
    assert converted("timestamp", NOON, "Time") == 12 * 3_600_000 + 250
    assert converted("date", dt.date(2024, 2, 29), "unix") == 1709164800000
    assert converted("date", dt.date(2024, 2, 29), "Time") == 0
    assert converted("bigint", 1709208000, "Date", unix_precision="seconds") == dt.date(2024, 2, 29)


def test_a_time_as_text_needs_a_format() -> None:
    given = {"transforms": "t", "transforms.t.type": "TimestampConverter$Value", "transforms.t.target.type": "string"}
    with pytest.raises(ConfigRefused, match="requires format option"):
        make_stages(given)


def test_patterns_are_those_of_java(spark: SparkSession) -> None:
    drop = {"t.type": "Filter", "t.predicate": "p", "p.type": "TopicNameMatches", "p.pattern": "(?!oth)[a-z&&[^x]]++"}
    assert [row.key for row in transformed(spark, drop)] == ["k3"]
    route = {"t.type": "RegexRouter", "t.regex": "(?<begin>ord)(?=ers).*", "t.replacement": "${begin}-$1"}
    assert transformed(spark, route)[0].topic == "ord-ord"
    for wrong in ("(", "[a", "a{2", "*", "(?<n>a)(?<n>b)"):
        with pytest.raises(ConfigRefused, match="must be a regular expression"):
            make_stages({"transforms": "t", **{f"transforms.{k}": v for k, v in {**route, "t.regex": wrong}.items()}})
