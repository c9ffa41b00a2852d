"""Converters without a registry: what they make of values, and of bytes."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from moldau.connect.converter_names import find_converter
from moldau.connect.converters import Side
from tests.connect.sink_batches import delivered
from tests.support.connect import JSON

LOGICAL = "org.apache.kafka.connect.data."


def encoded(name: str, frame: DataFrame, **config: str) -> list[Any]:
    made = find_converter(name)
    converter = made(made.CONFIG.checked({key.replace("_", "."): value for key, value in config.items()}))
    column = converter.encode(Side("value", frame.schema["value"].dataType)).alias("value")
    return [row.value for row in frame.select("offset", column).orderBy("offset").collect()]


def frame_of(spark: SparkSession, kind: str, values: Sequence[Any]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(values)), f"offset int, value {kind}")


NUMBERS: Mapping[str, tuple[str, str, Sequence[Any]]] = {
    "BooleanConverter": (">?", "boolean", [True, False]),
    "ShortConverter": (">h", "smallint", [0, 1, -1, 32767, -32768]),
    "IntegerConverter": (">i", "int", [0, 1, -1, 2**31 - 1, -(2**31), 256]),
    "LongConverter": (">q", "bigint", [0, 1, -1, 2**63 - 1, -(2**63), 2**32]),
    "FloatConverter": (">f", "float", [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), 1e-40, 3.0e38]),
    "DoubleConverter": (">d", "double", [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), 1e-40, 3.0e38]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_java(spark: SparkSession, tmp_path: Path, name: str) -> None:
    form, kind, numbers = NUMBERS[name]
    contents = [struct.pack(form, number) for number in numbers]
    found = delivered(spark, tmp_path / "out", [*contents, None, b"12345"], {"value.converter": name})
    assert [struct.pack(form, value) for value in found.values[:-1]] == contents
    assert found.values[-1] is None
    assert len(found.letters) == 1
    assert f"Size of data received by {name} is not" in found.letters[0].message
    assert encoded(name, frame_of(spark, kind, [*found.values])) == [*contents, None]


# -- JSON ------------------------------------------------------------------------------------------------------------


def decimal_schema(scale: int, **parameters: str) -> dict[str, Any]:
    return {
        "type": "bytes", "name": f"{LOGICAL}Decimal", "version": 1, "field": "d", "optional": True,
        "parameters": {"scale": str(scale), **parameters},
    }  # fmt: skip


def enveloped(field: Mapping[str, Any], payload: str) -> bytes:
    schema = json.dumps({"type": "struct", "fields": [field]})
    return f'{{"schema":{schema},"payload":{{"{field["field"]}":{payload}}}}}'.encode()


def in_base_64(unscaled: int, size: int | None = None) -> str:
    length = size or (unscaled.bit_length() // 8 + 1)
    return json.dumps(base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode())


DECIMALS = ["0", "1", "-1", "127", "128", "-128", "-129", str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1),
            str(2**64), str(-(2**64)), "12345678901234567890", "-12345678901234567890", "9" * 38, "-" + "9" * 38,
            "1" + "0" * 37]  # fmt: skip


@pytest.mark.parametrize("scale", [0, 2, 7, 18, 38])
def test_decimals_arrive_exactly(spark: SparkSession, tmp_path: Path, scale: int) -> None:
    expected = [exact(text, scale) for text in DECIMALS]
    sent = [enveloped(decimal_schema(scale), in_base_64(int(text))) for text in DECIMALS]
    sent += [enveloped(decimal_schema(scale), in_base_64(-5, 16)), enveloped(decimal_schema(scale), "null")]
    found = delivered(spark, tmp_path / "out", sent, {"value.converter": JSON})
    assert found.letters == []
    assert [value["d"] for value in found.values] == [*expected, exact("-5", scale), None]


def exact(unscaled: str, scale: int) -> Decimal:
    return Decimal(f"{unscaled}E-{scale}")


def test_decimals_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    sent = [
        enveloped(decimal_schema(2), in_base_64(10**38)),
        enveloped(decimal_schema(2), in_base_64(10**40)),
        enveloped(decimal_schema(2), in_base_64(1, 17)),
        enveloped(decimal_schema(2), '""'),
        enveloped(decimal_schema(2), '"not base 64!"'),
        enveloped(decimal_schema(2, **{"connect.decimal.precision": "4"}), in_base_64(12345)),
        enveloped(decimal_schema(39), in_base_64(1)),
        enveloped(decimal_schema(-1), in_base_64(1)),
        enveloped(decimal_schema(2), in_base_64(12345)),
    ]
    found = delivered(spark, tmp_path / "out", sent, {"value.converter": JSON})
    assert found.values == [{"d": Decimal("123.45")}]
    assert [offset for offset, _ in found.problems] == list(range(8))


def test_decimals_may_be_numbers(spark: SparkSession, tmp_path: Path) -> None:
    config = {"value.converter": JSON, "value.converter.decimal.format": "NUMERIC"}
    fits = ["0", "-0.5", "12345678901234567890.1234567", "1E-7", "-1.5e3", "120e-1", "1.50000000000", "0E-20"]
    rounds = ["1.23456789", "1E-8", "1e40"]
    sent = [enveloped(decimal_schema(7), text) for text in [*fits, *rounds, '"x"']]
    found = delivered(spark, tmp_path / "out", sent, config)
    assert [value["d"] for value in found.values] == [Decimal(text) for text in fits]
    assert [offset for offset, _ in found.problems] == [8, 9, 10, 11]


@pytest.mark.parametrize("kind", ["decimal(38,7)", "decimal(18,18)", "decimal(10,2)", "decimal(38,0)"])
def test_decimals_are_written_as_they_are_read(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    digits, scale = map(int, kind[len("decimal(") : -1].split(","))
    texts = [text for text in DECIMALS if len(text.lstrip("-")) <= digits]
    given = [exact(text, scale) for text in texts]
    for form in ("BASE64", "NUMERIC"):
        frame = frame_of(spark, f"struct<d: {kind}, l: array<{kind}>>", [(each, [each, None]) for each in given])
        contents = encoded(JSON, frame, decimal_format=form)
        found = delivered(
            spark, tmp_path / form, contents, {"value.converter": JSON, "value.converter.decimal.format": form}
        )
        assert found.values == [{"d": each, "l": [each, None]} for each in given]
        payload = json.loads(contents[0], parse_float=str, parse_int=str)["payload"]["d"]
        assert isinstance(payload, str)
    if texts[-1] == DECIMALS[-1]:
        content = base64.b64decode(json.loads(encoded(JSON, frame)[-1])["payload"]["d"])
        assert int.from_bytes(content, "big", signed=True) == int(texts[-1])


def test_what_lies_beyond_a_type_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    time = {"type": "int64", "name": f"{LOGICAL}Timestamp", "version": 1, "field": "t"}
    day = {"type": "int32", "name": f"{LOGICAL}Date", "version": 1, "field": "t"}
    raw = {"type": "bytes", "field": "t"}
    sent = [
        enveloped(time, "1500"),
        enveloped(time, str(2**62)),
        enveloped(day, "1"),
        enveloped(day, str(2**40)),
        enveloped(day, "999999999"),
        enveloped(raw, '"AAE="'),
        enveloped(raw, '"no base 64!"'),
    ]
    found = delivered(spark, tmp_path / "out", sent, {"value.converter": JSON})
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)
    assert found.values == [{"t": moment}, {"t": dt.date(1970, 1, 2)}, {"t": b"\0\1"}]
    assert [offset for offset, _ in found.problems] == [1, 3, 4, 6]


def test_a_schema_may_be_given_once(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"type": "struct", "fields": [{"field": "n", "type": "int64"}, {"field": "s", "type": "string"}]}
    config = {"value.converter": JSON, "value.converter.schema.content": json.dumps(schema)}
    sent = [b'{"n":1,"s":"x","more":2}', b'{"n":2}', b"no JSON", None]
    found = delivered(spark, tmp_path / "out", sent, config)
    assert found.values == [{"n": 1, "s": "x"}, {"n": 2, "s": None}, None]
    assert [offset for offset, _ in found.problems] == [2]
    frame = spark.range(1).select(F.lit(0).alias("offset"), F.struct(F.lit(1).alias("n")).alias("value"))
    assert encoded(JSON, frame, schema_content=json.dumps(schema)) == [b'{"n":1}']


def test_defaults_stand_for_nulls(spark: SparkSession, tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [{"field": "x", "type": "int32", "default": 5}], "field": "at"}
    fields = [
        {"field": "n", "type": "int32", "optional": True, "default": 7},
        {"field": "l", "type": "array", "items": {"type": "string"}, "default": ["a"]},
        {**decimal_schema(1), "default": "ZA=="},
        {**inner, "default": {"x": 1}},
        {"field": "plain", "type": "string", "optional": True},
    ]

    def sent(payload: Mapping[str, Any], fields: Sequence[Mapping[str, Any]] = fields) -> bytes:
        return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode()

    other = [{"field": "n", "type": "int32", "default": 8}]
    contents = [sent({"n": None}), sent({"n": 1, "l": [], "d": "AQ==", "at": {}, "plain": "p"}), sent({}, other)]
    found = delivered(spark, tmp_path / "out", contents, {"value.converter": JSON})
    assert found.values == [
        {"n": 7, "l": ["a"], "d": Decimal("10.0"), "at": {"x": 1}, "plain": None},
        {"n": 1, "l": [], "d": Decimal("0.1"), "at": {"x": 5}, "plain": "p"},
        {"n": 8},
    ]
    kept = {"value.converter": JSON, "value.converter.replace.null.with.default": "false"}
    assert delivered(spark, tmp_path / "out", contents[2:], kept).values == [{"n": None}]
