"""How Spark asks a schema registry: who asks, and what values may name of it."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from moldau.schemas.framing import KEY_HEADER, VALUE_HEADER, header_of
from moldau.schemas.model import guid_of
from moldau.spark.option_table import OptionError
from moldau.spark.values.decoding import decode_batches
from moldau.spark.values.plan import ValuePlan, read_plan
from tests.support.schema_registry import SchemaRegistry

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'
JSON = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
PROTOBUF = 'syntax = "proto3"; message R { int32 id = 1; }'
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def plan_of(registry: SchemaRegistry, form: str = "avro", **more: str) -> ValuePlan:
    return read_plan({"subscribe": "t", "value.format": form, "schema.registry.url": registry.url, **more})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, ""),
        ({"schema.registry.basic.auth.user.info": "a:b"}, " Basic YTpi"),
        ({"basic.auth.user.info": "a:b"}, " Basic YTpi"),
        ({"schema.registry.bearer.auth.token": "t0k"}, " Bearer t0k"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "t0k"}, " Bearer t0k"),
    ],
)
def test_who_asks_is_told_as_other_clients_tell_it(
    registry: SchemaRegistry, options: dict[str, str], told: str
) -> None:
    registry.add("t-value", AVRO)
    plan = plan_of(registry, **options)
    assert registry.requests == [f"GET /subjects/t-value/versions/latest{told}"]
    assert "t0k" not in repr(plan) and "a:b" not in repr(plan)
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_the_login_may_stand_in_the_address(registry: SchemaRegistry) -> None:
    registry.add("t-value", AVRO)
    plan = plan_of(registry, **{"schema.registry.url": registry.url.replace("://", "://a:s%3Acret@")})
    assert registry.requests == ["GET /subjects/t-value/versions/latest Basic YTpzOmNyZXQ="]
    assert "cret" not in repr(plan.registry)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schema.registry.ssl.truststore.location": "/gone.p12"}, "ssl.truststore.location: /gone.p12: No such file"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "is not supported"),
    ],
)
def test_what_is_wrong_with_the_settings_is_told(
    registry: SchemaRegistry, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        plan_of(registry, **options)


def payload(form: str) -> bytes:
    if form != "avro":
        return b'{"id":7}' if form == "jsonschema" else b"\x08\x07"
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(AVRO)), {"id": 7})
    return stream.getvalue()


def rows(plan: ValuePlan, *records: tuple[bytes | None, list[tuple[str, bytes]]]) -> list[dict[str, Any]]:
    headers = [[{"key": key, "value": value} for key, value in each] for _, each in records]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([value for value, _ in records], pa.binary()), pa.array(range(len(records))),
         pa.array(headers, HEADERS)], names=["value", "offset", "headers"],
    )  # fmt: skip
    columns = ["value", "_corrupt_value", "_error"]
    assert set(plan.needed(columns)) == {"value", "offset", "headers"}
    return [row for found in decode_batches(iter([batch]), plan, columns, "t-0") for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("form", "kind", "schema"),
    [("avro", "AVRO", AVRO), ("jsonschema", "JSON", JSON), ("protobuf", "PROTOBUF", PROTOBUF)],
)
def test_a_schema_may_be_named_by_its_guid_before_the_value_or_in_a_header(
    registry: SchemaRegistry, form: str, kind: str, schema: str
) -> None:
    number = registry.add("t-value", schema, **({} if kind == "AVRO" else {"schemaType": kind}))
    indexes = (0,) if form == "protobuf" else None
    known, unknown = header_of(UUID(guid_of(schema)), indexes), header_of(UUID(int=5), indexes)
    by_id = b"\0" + number.to_bytes(4, "big") + (b"\0" if indexes else b"")
    value = payload(form)
    found = rows(
        plan_of(registry, form),
        (value, [("trace", b"x"), (VALUE_HEADER, known)]),
        (known + value, []),
        (by_id + value, [("trace", b"x")]),
        (None, [(VALUE_HEADER, known)]),
        (value, [(VALUE_HEADER, unknown)]),
        (value, [(KEY_HEADER, known)]),
        (value, [(VALUE_HEADER, unknown), (VALUE_HEADER, known)]),
        (value, [(VALUE_HEADER, by_id)]),
    )
    good = {"id": 7}
    assert [row["value"] for row in found] == [good, good, good, None, None, None, good, good]
    assert [row["_corrupt_value"] for row in found] == [None] * 4 + [value, value, None, None]
    assert "40403 Schema not found" in found[4]["_error"] and found[3]["_error"] is None


def test_headers_are_read_for_registered_values_only() -> None:
    plan = read_plan({"value.format": "avro", "value.schema": AVRO, "subscribe": "t"})
    assert plan.needed(["value"]) == ("value", "offset")
