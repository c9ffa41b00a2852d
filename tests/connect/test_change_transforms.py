"""Transforms of change events, as Spark runs them: rows out of envelopes, messages out of outbox tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from moldau.config.definition import ConfigError
from moldau.connect.converters import ERROR
from moldau.connect.schemas import SchemaRefused
from tests.connect.test_transforms import NOON, transformed, values

ROW = "struct<id: int, title: string>"
SOURCE = "struct<db: string, ts_ms: bigint>"
PLACE = (
    "headers array<struct<key string, value binary>>, topic string, partition int, offset bigint, timestamp timestamp"
)
ENVELOPES = f"key int, value struct<before: {ROW}, after: {ROW}, source: {SOURCE}, op: string>, {PLACE}"
FROM = ("shop", 5)
CHANGES: Sequence[tuple[Any, ...]] = [
    (1, (None, (1, "Amerika"), FROM, "r"), None, "book", 0, 0, NOON),
    (1, ((1, "Amerika"), (1, "Der Verschollene"), FROM, "u"), None, "book", 0, 1, NOON),
    (1, ((1, "Der Verschollene"), None, FROM, "d"), None, "book", 0, 2, NOON),
    (1, None, None, "book", 0, 3, NOON),
    (None, (None, None, FROM, "t"), None, "book", 0, 4, NOON),
]
UNWRAP = {"t.type": "io.debezium.transforms.ExtractNewRecordState"}
OUTBOX = {"t.type": "io.debezium.transforms.outbox.EventRouter"}
OUT = "struct<id: string, aggregatetype: string, aggregateid: string, type: string, payload: string, at: bigint>"
EVENTS = f"key string, value struct<before: {OUT}, after: {OUT}, source: {SOURCE}, op: string>, {PLACE}"
PLACED = ("e-1", "order", "o-1", "Placed", '{"n": 1}', 1000)
MESSAGES: Sequence[tuple[Any, ...]] = [
    ("e-1", (None, PLACED, FROM, "c"), None, "outbox", 0, 0, NOON),
    ("e-1", (PLACED, None, FROM, "d"), None, "outbox", 0, 1, NOON),
    ("e-1", None, None, "outbox", 0, 2, NOON),
    ("e-2", (None, ("e-2", "invoice", "i-2", "Sent", "", 2000), FROM, "r"), None, "outbox", 0, 3, NOON),
]


def shown(spark: SparkSession, **config: str) -> list[tuple[int, Any]]:
    rows = transformed(
        spark, {**UNWRAP, **{f"t.{k.replace('_', '.')}": v for k, v in config.items()}}, CHANGES, ENVELOPES
    )
    return list(zip([row.offset for row in rows], values(rows), strict=True))


FIRST, LAST = {"id": 1, "title": "Amerika"}, {"id": 1, "title": "Der Verschollene"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [(0, FIRST), (1, LAST), (3, None)]),
        ({"delete_tombstone_handling_mode": "drop"}, [(0, FIRST), (1, LAST)]),
        ({"delete_tombstone_handling_mode": "delete-to-tombstone"}, [(0, FIRST), (1, LAST), (2, None)]),
        ({"drop_tombstones": "false"}, [(0, FIRST), (1, LAST), (3, None)]),
        ({"drop_tombstones": "true"}, [(0, FIRST), (1, LAST)]),
    ],
)
def test_the_row_takes_the_place_of_its_envelope(
    spark: SparkSession, settings: dict[str, str], expected: list[Any]
) -> None:
    assert shown(spark, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "tombstones"),
    [
        ({"delete_tombstone_handling_mode": "rewrite"}, False),
        ({"delete_tombstone_handling_mode": "rewrite-with-tombstone"}, True),
        ({"delete_handling_mode": "rewrite"}, False),
        ({"delete_handling_mode": "rewrite", "drop_tombstones": "false"}, True),
    ],
)
def test_a_delete_becomes_the_row_that_was(spark: SparkSession, settings: dict[str, str], tombstones: bool) -> None:
    live, gone = {"__deleted": "false"}, {"__deleted": "true"}
    expected = [(0, FIRST | live), (1, LAST | live), (2, LAST | gone)]
    assert shown(spark, **settings) == expected + ([(3, None)] if tombstones else [])


def test_fields_and_headers_of_the_envelope_are_added(spark: SparkSession) -> None:
    config = {"t.add.fields": "op,source.ts_ms:at,db", "t.add.headers": "op", "t.add.headers.prefix": "x-"}
    rows = transformed(spark, {**UNWRAP, **config}, CHANGES, ENVELOPES)
    assert values(rows)[0] == {**FIRST, "__op": "r", "__at": 5, "__db": "shop"}
    assert [(each.key, bytes(each.value)) for each in rows[1].headers] == [("x-op", b"u")]
    with pytest.raises(SchemaRefused, match=r"no field source\.nothing"):
        transformed(spark, {**UNWRAP, "t.add.fields": "source.nothing"}, CHANGES, ENVELOPES)


def test_a_column_names_the_topic_and_what_is_no_envelope_passes(spark: SparkSession) -> None:
    rows = transformed(spark, {**UNWRAP, "t.route.by.field": "title"}, CHANGES, ENVELOPES)
    assert [row.topic for row in rows] == ["Amerika", "Der Verschollene", "book"]
    plain = [("k", (1, "x"), None, "book", 0, 0, NOON)]
    assert values(transformed(spark, UNWRAP, plain, f"key string, value {ROW}, {PLACE}")) == [{"id": 1, "title": "x"}]
    with pytest.raises(ConfigError, match="drop or rewrite"):
        shown(spark, delete_handling_mode="none")


def messages(spark: SparkSession, **config: str) -> list[Row]:
    return transformed(
        spark, {**OUTBOX, **{f"t.{k.replace('_', '.')}": v for k, v in config.items()}}, MESSAGES, EVENTS
    )


def test_inserts_into_an_outbox_become_messages(spark: SparkSession) -> None:
    placed, sent = messages(
        spark, table_fields_additional_placement="type:header:eventType", table_field_event_timestamp="at"
    )
    assert (placed.topic, placed.key, placed.value) == ("outbox.event.order", "o-1", '{"n": 1}')
    assert (sent.topic, sent.key, sent.value) == ("outbox.event.invoice", "i-2", "")
    assert [(each.key, bytes(each.value)) for each in placed.headers] == [("id", b"e-1"), ("eventType", b"Placed")]
    assert placed.timestamp == dt.datetime.fromtimestamp(1, dt.UTC).astimezone().replace(tzinfo=None)


def test_an_outbox_is_routed_and_shaped_as_it_is_told(spark: SparkSession) -> None:
    placed, sent = messages(
        spark,
        table_fields_additional_placement="type:envelope:kind",
        route_topic_regex="(?<routedByValue>.)(.*)",
        route_topic_replacement="${routedByValue}-$2",
        route_tombstone_on_empty_payload="true",
    )
    assert (placed.topic, sent.topic) == ("o-rder", "i-nvoice")
    assert placed.value.asDict() == {"payload": '{"n": 1}', "kind": "Placed"}
    assert sent.value is None
    with pytest.raises(SchemaRefused, match=r"no column nothing; it has id, aggregatetype"):
        messages(spark, route_by_field="nothing")


def test_an_update_of_an_outbox_is_left_out_or_refused(spark: SparkSession) -> None:
    update = [("e-1", (PLACED, PLACED, FROM, "u"), None, "outbox", 0, 0, NOON)]
    assert transformed(spark, OUTBOX, update, EVENTS) == []
    (refused,) = transformed(spark, {**OUTBOX, "t.table.op.invalid.behavior": "fatal"}, update, EVENTS)
    assert "must not be updated" in str(refused[ERROR])
