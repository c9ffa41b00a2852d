"""Kafka Connect's JSON converter, with schemas in the records and without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from moldau.config.definition import ConfigType
from moldau.connect.converters import ERROR, ShapedConverter, Side, failed
from moldau.connect.definitions import ConfigDef, Key, one_of
from moldau.connect.json_columns import PlainReading, has_decimals, json_text
from moldau.connect.json_shapes import ddl, shape_text, variant_kind
from moldau.connect.schemas import SchemaRefused, Shape, connect_schema, spark_type, without_nulls

DECIMAL_FORMATS: Final = one_of("BASE64", "NUMERIC", "base64", "numeric")
NO_JSON: Final = "Converting byte[] to Kafka Connect data failed due to serialization error"
ENVELOPE_PROBLEM: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
MISFIT: Final = "the payload does not fit its schema"
SCHEMA, FREE = "S", "F"
"""What a shape's text begins with: the schema of the record follows, or what its content amounts to."""


class JsonConverter(ShapedConverter):
    CONFIG = ConfigDef(
        Key("schemas.enable", ConfigType.BOOLEAN, "true", "Whether every key and value carries its schema.", "HIGH"),
        Key("schemas.cache.size", ConfigType.INT, "1000", "Accepted.", "HIGH"),
        Key("decimal.format", default="BASE64", doc="BASE64 or NUMERIC.", importance="LOW", check=DECIMAL_FORMATS),
        Key(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            "true",
            "Whether a field that is null gets the default of its schema.",
            "LOW",
        ),
        Key("schema.content", doc="A schema, as JSON, of all records, which then carry none.", importance="LOW"),
    )

    @property
    def problem(self) -> str:  # type: ignore[override]
        return ENVELOPE_PROBLEM if self._is_enveloped else NO_JSON

    @property
    def _is_enveloped(self) -> bool:
        return self.config["schemas.enable"] and not self.config["schema.content"]

    @property
    def _numeric(self) -> bool:
        return str(self.config["decimal.format"]).upper() == "NUMERIC"

    def encode(self, side: Side) -> Column:
        column = F.col(side.column)
        text = json_text(column, side.kind, numeric=self._numeric)
        if self._is_enveloped:
            schema = json.dumps(
                connect_schema(side.kind, optional=side.optional, name=side.name), separators=(",", ":")
            )
            text = F.concat(F.lit(f'{{"schema":{schema},"payload":'), text, F.lit("}"))
        return F.when(column.isNotNull(), text.cast("binary"))

    # -- what a record is --------------------------------------------------------------------------------------------

    def shape(self, column: str) -> Column:
        text = F.col(column).cast("string")
        if given := self.config["schema.content"]:
            return F.when(text.isNotNull(), F.lit(f"{SCHEMA}{given}"))
        if not self.config["schemas.enable"]:
            return F.concat(F.lit(FREE), shape_text(F.try_parse_json(text)))
        payload = F.try_variant_get(F.try_parse_json(text), "$.payload", "variant")
        with_schema = F.concat(F.lit(SCHEMA), F.get_json_object(text, "$.schema"))
        free = F.concat(F.lit(FREE), shape_text(payload))
        names = F.array_sort(F.json_object_keys(text))
        return F.when(names == F.array(F.lit("payload"), F.lit("schema")), F.coalesce(with_schema, free))

    def shape_of(self, text: str, column: str) -> Shape:
        if text.startswith(FREE):
            return Shape(variant_kind(text[len(FREE) :]), free=True)
        try:
            return Shape(spark_type(json.loads(text[len(SCHEMA) :])))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise SchemaRefused(f"the schema cannot be read: {problem}") from None

    # -- reading -----------------------------------------------------------------------------------------------------

    def decode_as(self, frame: DataFrame, column: str, shape: Shape, texts: Sequence[str]) -> DataFrame:
        text, kind = F.col(column).cast("string"), without_nulls(shape.kind)
        if shape.free:
            place = "$.payload" if self._is_enveloped else "$"
            return frame.withColumn(column, F.try_variant_get(F.try_parse_json(text), place, ddl(kind)))
        reading = PlainReading(self._numeric and has_decimals(kind), self.config["replace.null.with.default"])
        payload = StructType([StructField("payload", reading.plain(kind)), StructField("_corrupt", StringType())])
        whole = text if self._is_enveloped else F.concat(F.lit('{"payload":'), text, F.lit("}"))
        frame = frame.withColumn(
            "_read",
            F.from_json(
                reading.document(whole), payload, {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"}
            ),
        )
        plain = F.col("_read.payload")
        lost = reading.lost(plain, kind)
        unread = F.col("_read").isNull() | F.col("_read._corrupt").isNotNull()
        wrong = F.col(column).isNotNull() & (unread if lost is None else unread | F.coalesce(lost, F.lit(False)))
        frame = frame.withColumn(ERROR, failed(column, wrong, MISFIT if self._is_enveloped else NO_JSON))
        value = F.when(F.col(column).isNotNull() & ~wrong, reading.value(plain, kind))
        return frame.withColumn(column, value).drop("_read")
