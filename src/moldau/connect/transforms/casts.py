"""Transforms of types: Cast, and times from one form into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.definitions import REQUIRED, ConfigDef, ConfigRefused, Key, one_of
from moldau.connect.schemas import PRIMITIVES, SchemaRefused
from moldau.connect.transforms.base import Records, Transform, rebuilt

CASTS: Final = {"float32": PRIMITIVES["float"], "float64": PRIMITIVES["double"], **PRIMITIVES}
MILLISECONDS: Final[Mapping[str, float]] = {
    "seconds": 1000,
    "milliseconds": 1,
    "microseconds": 1e-3,
    "nanoseconds": 1e-6,
}

NO_FORMAT: Final = "TimestampConverter requires format option to be specified when using string timestamps"


def check_spec(name: str, value: Any) -> None:
    for each in value or ():
        kind = each.rpartition(":")[2].strip().lower()
        if kind not in CASTS or kind in ("bytes", "float", "double"):
            raise ConfigError(name, each, f"Invalid type: {kind}")


class Cast(Transform):
    """Fields, or the whole, as another type. What does not fit is an error of the record."""

    CONFIG: ClassVar = ConfigDef(
        Key(
            "spec",
            ConfigType.LIST,
            REQUIRED,
            "field:type,…, or a type alone for the whole: int8 to int64, float32, float64, boolean, string.",
            "HIGH",
            check_spec,
        ),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        column = F.col(self.side)
        casts = {
            each.rpartition(":")[0].strip(): CASTS[each.rpartition(":")[2].strip().lower()]
            for each in self.config["spec"]
        }
        if "" in casts:
            if is_nothing(records.kind(self.side)):
                return records
            result = converted(column, records.kind(self.side), casts[""])
            problem = column.isNotNull() & result.isNull()
            return records.failing(problem, f"the {self.side} cannot be cast").with_column(self.side, result)
        kind = records.struct(self.side, "type casting")
        fields = []
        for field in kind:
            own = column[field.name]
            if field.name in casts:
                result = converted(own, field.dataType, casts[field.name])
                records = records.failing(own.isNotNull() & result.isNull(), f"field {field.name} cannot be cast")
                own = result
            fields.append((field.name, own))
        return records.with_column(self.side, rebuilt(column, fields))


def is_nothing(kind: DataType) -> bool:
    """Of records that are all tombstones."""
    return isinstance(kind, StructType) and not kind.fields


def converted(column: Column, kind: DataType, wanted: DataType) -> Column:
    if isinstance(kind, TimestampType) and isinstance(wanted, LongType):
        return F.unix_millis(column)
    if isinstance(kind, BinaryType) and isinstance(wanted, StringType):
        return F.base64(column)
    if isinstance(kind, BooleanType) or isinstance(wanted, BooleanType):
        return column.try_cast("string").try_cast(wanted) if isinstance(kind, StringType) else column.try_cast(wanted)
    return column.try_cast(wanted)


class TimestampConverter(Transform):
    """A time as text, as a number since 1970, or as Connect's Date, Time or Timestamp."""

    CONFIG: ClassVar = ConfigDef(
        Key("field", default="", doc="The field; the whole without one.", importance="HIGH"),
        Key(
            "target.type",
            default=REQUIRED,
            doc="string, unix, Date, Time or Timestamp.",
            importance="HIGH",
            check=one_of("string", "unix", "Date", "Time", "Timestamp"),
        ),
        Key("format", default="", doc="A pattern of Java's SimpleDateFormat, for string."),
        Key(
            "unix.precision",
            default="milliseconds",
            doc="seconds, milliseconds, microseconds or nanoseconds, for unix.",
            importance="LOW",
            check=one_of(*MILLISECONDS),
        ),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def __init__(self, config: Mapping[str, Any], side: str = "value") -> None:
        super().__init__(config, side)
        if config["target.type"] == "string" and not config["format"]:
            raise ConfigRefused([NO_FORMAT])

    def apply(self, records: Records) -> Records:
        column, name = F.col(self.side), self.config["field"]
        if not name:
            kind = records.kind(self.side)
            return records if is_nothing(kind) else self._one(records, column, kind)
        whole = records.struct(self.side, "converting timestamp formats")
        fields = {field.name: column[field.name] for field in whole}
        if name in fields:
            result = self._target(self._instant(column[name], whole[name].dataType))
            records = records.failing(
                column[name].isNotNull() & result.isNull(), f"Could not parse timestamp: field {name}"
            )
            fields[name] = result
        elif self.side in records.free:
            fields[name] = self._target(F.lit(None).cast("timestamp"))
        return records.with_column(self.side, rebuilt(column, list(fields.items())))

    def _one(self, records: Records, column: Column, kind: DataType) -> Records:
        result = self._target(self._instant(column, kind))
        records = records.failing(column.isNotNull() & result.isNull(), "Could not parse timestamp")
        return records.with_column(self.side, result)

    def _instant(self, column: Column, kind: DataType) -> Column:
        if isinstance(kind, StringType):
            if not self.config["format"]:
                raise SchemaRefused(NO_FORMAT)
            return F.try_to_timestamp(column, F.lit(self.config["format"]))
        if isinstance(kind, TimestampType):
            return column
        if isinstance(kind, DateType):
            return column.cast("timestamp")
        return F.timestamp_micros(
            (column.cast("decimal(38,6)") * F.lit(MILLISECONDS[self.config["unix.precision"]] * 1000)).cast("bigint")
        )

    def _target(self, instant: Column) -> Column:
        match self.config["target.type"]:
            case "string":
                return F.date_format(instant, self.config["format"])
            case "unix":
                return (F.unix_micros(instant) / F.lit(MILLISECONDS[self.config["unix.precision"]] * 1000)).cast(
                    "bigint"
                )
            case "Date":
                return instant.cast("date")
            case "Time":
                return F.pmod(F.unix_millis(instant), F.lit(86_400_000))
        return F.date_trunc("millisecond", instant)
