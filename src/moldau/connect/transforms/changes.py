"""Transforms of change events: rows out of Debezium's envelopes, and messages out of outbox tables."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType, TimestampType

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.definitions import ConfigDef, Key, one_of
from moldau.connect.java_patterns import java_pattern
from moldau.connect.schemas import SchemaRefused
from moldau.connect.transforms.base import CHOSEN, Records, Transform, rebuilt
from moldau.spark.schema import HEADER_TYPE

ENVELOPE: Final = {"before", "after", "source", "op"}
DROP, TOMBSTONE, REWRITE, BOTH, TO_TOMBSTONE = (
    "drop",
    "tombstone",
    "rewrite",
    "rewrite-with-tombstone",
    "delete-to-tombstone",
)
PARTS: Final = ("source", "transaction")


def is_envelope(records: Records) -> bool:
    kind = records.kind("value")
    return isinstance(kind, StructType) and set(kind.names) >= ENVELOPE


def without(records: Records, gone: Column) -> Records:
    """Leaves records out; not those that the stage's predicate spares."""
    chosen = F.col(CHOSEN) if records.has(CHOSEN) else F.lit(True)
    kept = ~(records.is_record & chosen & F.coalesce(gone, F.lit(False)))
    return replace(records, frame=records.frame.filter(kept))


def with_headers(records: Records, headers: dict[str, Column]) -> Records:
    if not headers:
        return records
    fresh = F.array(
        *(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in headers.items())
    )
    there = F.coalesce(F.col("headers"), F.array().cast(HEADER_TYPE))
    return records.with_column("headers", F.concat(there, fresh.cast(HEADER_TYPE)))


class ExtractNewRecordState(Transform):
    """The row as it is after the change, in the place of the envelope. Of a delete its tombstone stays
    (`delete.tombstone.handling.mode`); truncations are left out. What is no envelope passes."""

    CONFIG: ClassVar = ConfigDef(
        Key(
            "delete.tombstone.handling.mode",
            default=TOMBSTONE,
            doc="drop: neither the delete nor its tombstone; tombstone: the tombstone; rewrite: the row as it was, "
            "with __deleted; rewrite-with-tombstone: both; delete-to-tombstone: the delete becomes one.",
            check=one_of(DROP, TOMBSTONE, REWRITE, BOTH, TO_TOMBSTONE),
        ),
        Key("drop.tombstones", doc="The older setting: whether tombstones are left out.", importance="LOW"),
        Key("delete.handling.mode", doc="The older setting: drop, rewrite or none.", importance="LOW"),
        Key("add.fields", ConfigType.LIST, "", "Fields of the envelope to add, such as op, source.ts_ms, lsn:place."),
        Key("add.fields.prefix", default="__", doc="Before their names."),
        Key("add.headers", ConfigType.LIST, "", "The same as headers."),
        Key("add.headers.prefix", default="__", doc="Before their names."),
        Key("route.by.field", doc="The column of the row that has the name of the topic.", importance="LOW"),
    )

    def apply(self, records: Records) -> Records:
        if self.side != "value" or not is_envelope(records):
            return records
        mode, kind = self._mode(), records.struct("value", "record state extraction")
        value = F.col("value")
        deleted, is_tombstone = value["op"] == "d", value.isNull()
        gone = value["op"].isin("t", "m")
        if mode in (DROP, TOMBSTONE):
            gone = gone | deleted
        if mode in (DROP, REWRITE, TO_TOMBSTONE):
            gone = F.when(is_tombstone, F.lit(True)).otherwise(gone)
        records = without(records, gone)
        headers = {
            name: self._found(kind, path) for name, path in self._named("add.headers", self.config["add.headers"])
        }
        added = {name: self._found(kind, path) for name, path in self._named("add.fields", self.config["add.fields"])}
        if mode in (REWRITE, BOTH):
            added["__deleted"] = F.when(deleted, "true").otherwise("false")
        records = with_headers(records, headers)
        if route := self.config["route.by.field"]:
            row = F.coalesce(value["after"], value["before"])
            records = records.with_column("topic", F.coalesce(row[route].cast("string"), F.col("topic")))
        state = F.coalesce(value["after"], value["before"]) if mode in (REWRITE, BOTH) else value["after"]
        row_kind = kind["after"].dataType
        assert isinstance(row_kind, StructType)
        fields = [(name, state[name]) for name in row_kind.names] + list(added.items())
        records = records.with_column("value", F.when(state.isNotNull(), rebuilt(state, fields)))
        name = records.value_name
        return replace(records, value_name=None if name is None else name.removesuffix(".Envelope") + ".Value")

    def _mode(self) -> str:
        """Under the older settings, where one of them is given."""
        older, tombstones = self.config["delete.handling.mode"], self.config["drop.tombstones"]
        if older is None and tombstones is None:
            return str(self.config["delete.tombstone.handling.mode"])
        dropped = (tombstones or "true").lower() == "true"
        if older == "rewrite":
            return REWRITE if dropped else BOTH
        if older == "none":
            raise ConfigError("delete.handling.mode", older, "drop or rewrite; none would send an empty value twice")
        return DROP if dropped else TOMBSTONE

    def _named(self, setting: str, wanted: list[str]) -> list[tuple[str, list[str]]]:
        prefix = self.config[f"{setting}.prefix"]
        found = []
        for each in wanted:
            path, _, name = each.partition(":")
            found.append((prefix + (name or path.replace(".", "_")), path.split(".")))
        return found

    @staticmethod
    def _found(kind: StructType, path: list[str]) -> Column:
        """Of the envelope, or of one of its parts, whose names may be left out."""
        for start in ([], *([part] for part in PARTS)):
            place: StructType | object = kind
            for name in (*start, *path):
                place = place[name].dataType if isinstance(place, StructType) and name in place.names else None
            if place is not None:
                column = F.col("value")
                for name in (*start, *path):
                    column = column[name]
                return column
        raise SchemaRefused(f"the envelope has no field {'.'.join(path)}")


class EventRouter(Transform):
    """Messages that a program has put into an outbox table, in the transaction of its data: the payload becomes the
    value, the aggregate's id the key, its type part of the topic's name. Only inserts count; deletes are left out, an
    update is one of `table.op.invalid.behavior`."""

    CONFIG: ClassVar = ConfigDef(
        Key("table.field.event.id", default="id", doc="The column with the event's id, which becomes the header id."),
        Key("table.field.event.key", default="aggregateid", doc="The column that becomes the key."),
        Key("table.field.event.type", default="type", doc="The column with the event's type; for placement."),
        Key("table.field.event.payload", default="payload", doc="The column that becomes the value."),
        Key("table.field.event.timestamp", doc="The column with the record's time; milliseconds, or a timestamp."),
        Key(
            "table.fields.additional.placement",
            ConfigType.LIST,
            "",
            "Other columns: column:header, column:envelope or column:partition, and :alias.",
        ),
        Key("route.by.field", default="aggregatetype", doc="The column that names the topic."),
        Key("route.topic.regex", default="(?<routedByValue>.*)", doc="What is taken of it.", check=java_pattern),
        Key("route.topic.replacement", default="outbox.event.${routedByValue}", doc="The topic."),
        Key("route.tombstone.on.empty.payload", ConfigType.BOOLEAN, "false", "Whether an empty payload is a null."),
        Key(
            "table.op.invalid.behavior",
            default="warn",
            doc="warn (the update is left out) or error, fatal (it is refused).",
            check=one_of("warn", "error", "fatal"),
        ),
        Key("table.expand.json.payload", default="false", doc="Only false.", check=one_of("false")),
    )

    def apply(self, records: Records) -> Records:
        if not is_envelope(records):
            return records
        value, kind = F.col("value"), records.kind("value")
        assert isinstance(kind, StructType)
        row_kind = kind["after"].dataType
        assert isinstance(row_kind, StructType)
        row = value["after"]
        if self.config["table.op.invalid.behavior"] != "warn":
            records = records.failing(value["op"] == "u", "an outbox table's rows must not be updated")
            records = without(records, value.isNull() | value["op"].isin("d", "t"))
        else:
            records = without(records, value.isNull() | ~value["op"].isin("c", "r"))
        placed = [self._placed(row_kind, each) for each in self.config["table.fields.additional.placement"]]
        payload = self._column(row_kind, row, "table.field.event.payload")
        headers = {"id": self._column(row_kind, row, "table.field.event.id").cast("string")}
        headers |= {alias: row[name].cast("string") for name, where, alias in placed if where == "header"}
        envelope = [(alias, row[name]) for name, where, alias in placed if where == "envelope"]
        content = F.struct(payload.alias("payload"), *(each.alias(name) for name, each in envelope))
        if self.config["route.tombstone.on.empty.payload"]:
            empty = payload.isNull() | (payload.cast("string") == "")
            payload, content = F.when(~empty, payload), F.when(~empty, content)
        by = self._column(row_kind, row, "route.by.field").cast("string")
        topic = F.regexp_replace(
            by, f"^(?:{self.config['route.topic.regex']})$", self.config["route.topic.replacement"]
        )
        records = with_headers(records, headers)
        records = records.with_column("topic", F.coalesce(topic, F.col("topic")))
        for name, where, _ in placed:
            if where == "partition":
                records = records.with_column("partition", row[name].cast("int"))
        records = self._timed(records, row_kind, row)
        records = records.with_column("key", self._column(row_kind, row, "table.field.event.key"))
        records = records.with_column("value", content if envelope else payload)
        return replace(records, key_name=None, value_name=None)

    def _column(self, kind: StructType, row: Column, setting: str) -> Column:
        name = self.config[setting]
        if name not in kind.names:
            raise SchemaRefused(f"{setting}: the outbox table has no column {name}; it has {', '.join(kind.names)}")
        return row[name]

    def _placed(self, kind: StructType, given: str) -> tuple[str, str, str]:
        name, _, rest = given.partition(":")
        where, _, alias = rest.partition(":")
        if name not in kind.names or where not in ("header", "envelope", "partition"):
            raise SchemaRefused(f"table.fields.additional.placement: {given} is no column:place of this table")
        return name, where, alias or name

    def _timed(self, records: Records, kind: StructType, row: Column) -> Records:
        name = self.config["table.field.event.timestamp"]
        if not name:
            return records
        time = self._column(kind, row, "table.field.event.timestamp")
        if isinstance(kind[name].dataType, LongType):
            time = F.timestamp_millis(time)
        elif not isinstance(kind[name].dataType, TimestampType):
            raise SchemaRefused(f"table.field.event.timestamp: {name} is no timestamp and no number of milliseconds")
        return records.with_column("timestamp", time)
