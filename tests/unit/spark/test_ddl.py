"""Schemas as text, read without a JVM. tests/spark compares with Spark's own parser."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from moldau.spark.values.ddl import SchemaError, parse_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a int", "struct<a:int>"),
        ("a: int, b: string", "struct<a:int,b:string>"),
        (" id  BIGINT NOT NULL ,`at time` TIMESTAMP COMMENT 'when, where' ", "struct<id:bigint,at time:timestamp>"),
        ("a ARRAY<STRUCT<x: INT, y: MAP<STRING, DECIMAL(10, 2)>>>",
         "struct<a:array<struct<x:int,y:map<string,decimal(10,2)>>>>"),
        ("a decimal, b dec(5), c numeric(7,3)", "struct<a:decimal(10,0),b:decimal(5,0),c:decimal(7,3)>"),
        ("a varchar(10), b char(3)", "struct<a:string,b:string>"),
        ("a byte, b short, c long, d real, e timestamp_ntz, f timestamp_ltz, g binary, h boolean, i date",
         "struct<a:tinyint,b:smallint,c:bigint,d:float,e:timestamp_ntz,f:timestamp,g:binary,h:boolean,i:date>"),
        ("struct<a:int>", "struct<a:int>"),
        ("BIGINT", "bigint"),
        ("array<int>", "array<int>"),
        ("date date", "struct<date:date>"),
    ],
)  # fmt: skip
def test_types(text: str, expected: str) -> None:
    assert parse_type(text).simpleString() == expected


def test_the_json_form() -> None:
    schema = StructType([StructField("a", LongType()), StructField("b", StringType(), False)])
    assert parse_type(schema.json()) == schema
    assert parse_type('"long"') == LongType()


def test_not_null_is_kept() -> None:
    assert parse_type("a int not null, b int").simpleString() == "struct<a:int,b:int>"
    assert [field.nullable for field in parse_type("a int not null, b int")] == [False, True]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "more is expected at the end"),
        ("a", "more is expected at the end"),
        ("a int,", "more is expected at the end"),
        ("a int b int", "',' is expected at 'b int'"),
        ("a foo", "'foo' is no type that can be read"),
        ("a array<int", "'>' is expected at the end"),
        ("a int, a bigint", "the field 'a' is there twice"),
        ("a decimal(2, 5)", "at most 38 digits"),
        ("a-b int", "cannot read '-b int'"),
        ("{", "not the JSON of a Spark schema"),
        ('{"type": "nonsense"}', "not the JSON of a Spark schema"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        parse_type(text)
