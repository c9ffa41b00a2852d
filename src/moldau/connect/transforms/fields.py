"""Transforms of the fields of keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    NumericType,
    StringType,
    StructType,
)

from moldau.config.definition import ConfigType
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, not_empty
from moldau.connect.schemas import SchemaRefused
from moldau.connect.transforms.base import Records, Transform, rebuilt

METADATA: Final = {
    "topic.field": "topic",
    "partition.field": "partition",
    "offset.field": "offset",
    "timestamp.field": "timestamp",
}


class InsertField(Transform):
    """Adds fields: topic, partition, offset (of sinks), timestamp, or a constant. A `!` or `?` behind a field's name
    says needed or optional, as in Kafka; all are nullable here."""

    CONFIG: ClassVar = ConfigDef(
        Key("topic.field", doc="Field name for Kafka topic."),
        Key("partition.field", doc="Field name for Kafka partition."),
        Key("offset.field", doc="Field name for Kafka offset; only for sinks."),
        Key("timestamp.field", doc="Field name for record timestamp."),
        Key("static.field", doc="Field name for static data field."),
        Key("static.value", doc="Static field value, if field name configured."),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        kind = records.struct(self.side, "field insertion")
        column = F.col(self.side)
        fields = {field.name: column[field.name] for field in kind}
        for key, source in METADATA.items():
            if name := self.config[key]:
                if not records.has(source):
                    raise SchemaRefused(f"{key}: a source's record has no {source}")
                fields[name.rstrip("!?")] = F.col(source)
        if name := self.config["static.field"]:
            fields[name.rstrip("!?")] = F.lit(self.config["static.value"])
        return records.with_column(self.side, rebuilt(column, list(fields.items())))


class ReplaceField(Transform):
    """Leaves fields out, or takes only some, and renames them."""

    CONFIG: ClassVar = ConfigDef(
        Key("exclude", ConfigType.LIST, "", "Fields to exclude. This takes precedence over the fields to include."),
        Key("include", ConfigType.LIST, "", "Fields to include. If specified, only these fields will be used."),
        Key("renames", ConfigType.LIST, "", "Field rename mappings: old:new."),
        Key("blacklist", ConfigType.LIST, "", "The older name of exclude."),
        Key("whitelist", ConfigType.LIST, "", "The older name of include."),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        kind = records.struct(self.side, "field replacement")
        column = F.col(self.side)
        exclude = self.config["exclude"] or self.config["blacklist"]
        include = self.config["include"] or self.config["whitelist"]
        renames = dict(each.split(":", 1) for each in self.config["renames"])
        kept = [each.name for each in kind if each.name not in exclude and (not include or each.name in include)]
        fields = [(renames.get(name, name), column[name]) for name in kept]
        return records.with_column(self.side, rebuilt(column, fields))


class MaskField(Transform):
    """Empties fields (0, false, an empty text), or replaces them by a constant."""

    CONFIG: ClassVar = ConfigDef(
        Key("fields", ConfigType.LIST, REQUIRED, "Names of fields to mask.", "HIGH", not_empty),
        Key("replacement", doc="Custom value replacement, for fields of numbers and texts."),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        kind = records.struct(self.side, "field masking")
        column = F.col(self.side)
        fields = [
            (field.name, self._masked(column[field.name], field.dataType))
            if field.name in self.config["fields"]
            else (field.name, column[field.name])
            for field in kind
        ]
        return records.with_column(self.side, rebuilt(column, fields))

    def _masked(self, column: Column, kind: DataType) -> Column:
        given = self.config["replacement"]
        if given is not None and isinstance(kind, NumericType | StringType):
            empty = F.lit(given).cast(kind)
        elif isinstance(kind, StringType):
            empty = F.lit("")
        elif isinstance(kind, BooleanType):
            empty = F.lit(False)
        elif isinstance(kind, BinaryType):
            empty = F.lit(b"")
        elif isinstance(kind, NumericType):
            empty = F.lit(0).cast(kind)
        else:
            empty = F.lit(None).cast(kind)
        return F.when(column.isNotNull(), empty)


class ExtractField(Transform):
    """One field in the place of the whole."""

    CONFIG: ClassVar = ConfigDef(
        Key(
            "field",
            default=REQUIRED,
            doc="Field name to extract; with field.syntax.version=V2 a path, a.b.",
            importance="MEDIUM",
        ),
        Key("field.syntax.version", default="V1", doc="V1 or V2."),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        kind: DataType = records.struct(self.side, "field extraction")
        column = F.col(self.side)
        path = (
            self.config["field"].split(".") if self.config["field.syntax.version"] == "V2" else [self.config["field"]]
        )
        for name in path:
            column, kind = records.member(self.side, kind, column, name, f"Unknown field: {self.config['field']}")
        return records.with_column(self.side, column)


class HoistField(Transform):
    """Wraps the whole into a struct of one field."""

    CONFIG: ClassVar = ConfigDef(Key("field", default=REQUIRED, doc="The field's name.", importance="MEDIUM"))

    def apply(self, records: Records) -> Records:
        return records.with_column(self.side, F.struct(F.col(self.side).alias(self.config["field"])))


class Flatten(Transform):
    """Fields of structs within structs become fields of the whole, with names like a.b."""

    CONFIG: ClassVar = ConfigDef(Key("delimiter", default=".", doc="Between the parts of a name.", importance="MEDIUM"))

    def apply(self, records: Records) -> Records:
        kind = records.struct(self.side, "flattening")
        column = F.col(self.side)
        return records.with_column(self.side, rebuilt(column, self._leaves(column, kind, "")))

    def _leaves(self, column: Column, kind: StructType, prefix: str) -> list[tuple[str, Column]]:
        found: list[tuple[str, Column]] = []
        for field in kind:
            name = f"{prefix}{field.name}"
            if isinstance(field.dataType, StructType):
                found += self._leaves(column[field.name], field.dataType, f"{name}{self.config['delimiter']}")
            else:
                found.append((name, column[field.name]))
        return found


class ValueToKey(Transform):
    """A key of some fields of the value."""

    CONFIG: ClassVar = ConfigDef(
        Key(
            "fields",
            ConfigType.LIST,
            REQUIRED,
            "Field names on the record value to extract as the record key.",
            "HIGH",
            not_empty,
        ),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        kind = records.struct("value", "copying fields from value to key")
        value = F.col("value")
        fields = [
            (name, records.member("value", kind, value, name, f"Field does not exist: {name}")[0])
            for name in self.config["fields"]
        ]
        free = records.free - {"key"} | ({"key"} if "value" in records.free else set())
        return replace(records.with_column("key", rebuilt(value, fields)), free=free)
