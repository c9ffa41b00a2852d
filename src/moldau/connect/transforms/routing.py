"""Transforms of where a record goes, and of what its schema is called; Filter."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pyspark.sql import functions as F

from moldau.config.definition import ConfigType
from moldau.connect.definitions import REQUIRED, ConfigDef, Key
from moldau.connect.java_patterns import java_pattern
from moldau.connect.transforms.base import Records, Transform


class RegexRouter(Transform):
    """Another topic, made of the name of this one, where the whole of it matches."""

    TYPES: ClassVar = False
    CONFIG: ClassVar = ConfigDef(
        Key("regex", ConfigType.STRING, REQUIRED, "Regular expression to use for matching.", "HIGH", java_pattern),
        Key("replacement", default=REQUIRED, doc="Replacement string; $1 is the first group.", importance="HIGH"),
    )

    def apply(self, records: Records) -> Records:
        whole = f"^(?:{self.config['regex']})$"
        topic = F.col("topic")
        changed = F.regexp_replace(topic, whole, self.config["replacement"])
        return records.with_column("topic", F.when(topic.rlike(whole), changed).otherwise(topic))


class TimestampRouter(Transform):
    """Another topic, made of the name of this one and the record's time."""

    TYPES: ClassVar = False
    CONFIG: ClassVar = ConfigDef(
        Key("topic.format", default="${topic}-${timestamp}", doc="With ${topic} and ${timestamp}.", importance="HIGH"),
        Key("timestamp.format", default="yyyyMMdd", doc="A pattern of Java's SimpleDateFormat.", importance="HIGH"),
    )

    def apply(self, records: Records) -> Records:
        time = F.date_format(F.col("timestamp"), self.config["timestamp.format"])
        topic = F.replace(F.lit(self.config["topic.format"]), F.lit("${topic}"), F.col("topic"))
        named = F.replace(topic, F.lit("${timestamp}"), time)
        records = records.failing(F.col("timestamp").isNull(), "Timestamp missing on record")
        return records.with_column("topic", F.coalesce(named, F.col("topic")))


class SetSchemaMetadata(Transform):
    """The name of the schema, for converters that keep one."""

    TYPES: ClassVar = False
    CONFIG: ClassVar = ConfigDef(
        Key("schema.name", doc="Schema name to set.", importance="HIGH"),
        Key("schema.version", ConfigType.INT, doc="Accepted: converters here write no version.", importance="HIGH"),
        Key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Accepted: the converter has filled in defaults."),
    )

    def apply(self, records: Records) -> Records:
        name = self.config["schema.name"]
        if not name:
            return records
        return replace(records, key_name=name) if self.side == "key" else replace(records, value_name=name)


class Filter(Transform):
    """Leaves records out: all, so it is used with a predicate."""

    DROPS: ClassVar = True

    def apply(self, records: Records) -> Records:
        return records
