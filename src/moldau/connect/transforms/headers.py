"""Transforms of headers, and the predicates."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from moldau.config.definition import ConfigType
from moldau.connect.converters import java_text
from moldau.connect.definitions import REQUIRED, ConfigDef, ConfigRefused, Key, not_empty, one_of
from moldau.connect.java_patterns import java_pattern
from moldau.connect.transforms.base import Predicate, Records, Transform, rebuilt
from moldau.spark.schema import HEADER_TYPE


def present() -> Column:
    return F.coalesce(F.col("headers"), F.array().cast(HEADER_TYPE))


def header(name: str, text: Column) -> Column:
    return F.array(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))).cast(HEADER_TYPE)


class InsertHeader(Transform):
    """Adds a header with a constant."""

    TYPES: ClassVar = False
    CONFIG: ClassVar = ConfigDef(
        Key("header", default=REQUIRED, doc="The name of the header.", importance="HIGH"),
        Key(
            "value.literal",
            default=REQUIRED,
            doc="The literal value that is to be set as the header value.",
            importance="HIGH",
        ),
    )

    def apply(self, records: Records) -> Records:
        fresh = header(self.config["header"], F.lit(self.config["value.literal"]))
        return records.with_column("headers", F.concat(present(), fresh))


class DropHeaders(Transform):
    """Takes headers away."""

    TYPES: ClassVar = False
    CONFIG: ClassVar = ConfigDef(Key("headers", ConfigType.LIST, REQUIRED, "The names of the headers.", "HIGH"))

    def apply(self, records: Records) -> Records:
        names = list(self.config["headers"])
        return records.with_column("headers", F.filter(present(), lambda each: ~each["key"].isin(names)))


class HeaderFrom(Transform):
    """Fields as headers, copied or moved."""

    CONFIG: ClassVar = ConfigDef(
        Key(
            "fields",
            ConfigType.LIST,
            REQUIRED,
            "Field names in the record whose values are to be copied or moved to headers.",
            "HIGH",
            not_empty,
        ),
        Key(
            "headers",
            ConfigType.LIST,
            REQUIRED,
            "Header names, in the same order as the field names.",
            "HIGH",
            not_empty,
        ),
        Key("operation", default=REQUIRED, doc="copy or move.", importance="HIGH", check=one_of("copy", "move")),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        fields, headers = self.config["fields"], self.config["headers"]
        if len(fields) != len(headers):
            raise ConfigRefused(["'fields' config must have the same number of elements as 'headers' config."])
        kind = records.struct(self.side, "header from field")
        column = F.col(self.side)
        fresh = []
        for field, name in zip(fields, headers, strict=True):
            found = records.member(self.side, kind, column, field, f"Field does not exist: {field}")
            fresh.append(header(name, java_text(*found)))
        records = records.with_column("headers", F.concat(present(), *fresh))
        if self.config["operation"] == "copy":
            return records
        left = [(field.name, column[field.name]) for field in kind if field.name not in fields]
        return records.with_column(self.side, rebuilt(column, left))


# -- predicates ------------------------------------------------------------------------------------------------------


class TopicNameMatches(Predicate):
    CONFIG: ClassVar = ConfigDef(
        Key(
            "pattern",
            default=REQUIRED,
            doc="A pattern for the whole of the topic's name.",
            importance="HIGH",
            check=java_pattern,
        )
    )

    def holds(self, records: Records) -> Column:
        return F.col("topic").rlike(f"^(?:{self.config['pattern']})$")


class HasHeaderKey(Predicate):
    CONFIG: ClassVar = ConfigDef(
        Key("name", default=REQUIRED, doc="The header name.", importance="HIGH", check=not_empty)
    )

    def holds(self, records: Records) -> Column:
        return F.exists(present(), lambda each: each["key"] == self.config["name"])


class RecordIsTombstone(Predicate):
    def holds(self, records: Records) -> Column:
        return F.col("value").isNull()
