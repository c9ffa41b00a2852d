"""Converters whose schemas a registry keeps, under the names and settings of Confluent's: Avro, JSON Schema, Protobuf.

A source registers the schema of its records' type under `<topic>-key` and `<topic>-value`. Avro has Connect's names
and forms: optional fields are unions with null, times have milliseconds. In JSON times are texts (ISO 8601), and bytes
base 64. Protobuf needs structs. A sink reads each record with the schema that its id names.

Left out: subject strategies other than the topic's name, schemas that are named by a GUID in a header, and Connect's
own types in what other converters have registered (`connect.type`, `connect.parameters`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from moldau.clients.registry_keys import ACCESS_KEYS, NAMES, of_access
from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.converters import ERROR, ShapedConverter, Side, failed
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, one_of
from moldau.connect.schemas import LOGICAL, Shape
from moldau.spark.values.options import AVRO, JSON_SCHEMA, PROTOBUF
from moldau.spark.values.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

URL, USER_INFO = "URL", "USER_INFO"
UNFRAMED: Final = "Unknown magic byte!"
"""Confluent's words."""
TOPIC_STRATEGY: Final = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
NAMESPACE: Final = "io.confluent.connect.avro"
UNNAMED: Final = "ConnectDefault"
MILLIS: Final = {
    "type": "long",
    "connect.version": 1,
    "connect.name": f"{LOGICAL}Timestamp",
    "logicalType": "timestamp-millis",
}


def urls(name: str, value: Any) -> None:
    found = urls_of(value or "")
    if not found or not all(url.startswith(("http://", "https://")) for url in found):
        raise ConfigError(name, value, "addresses such as http://registry:8081 are expected")


def topic_strategy(name: str, value: Any) -> None:
    if str(value).rsplit(".", 1)[-1] != "TopicNameStrategy":
        raise ConfigError(name, value, "only TopicNameStrategy is known here: the subject is <topic>-key or -value")


def sentence(doc: str) -> str:
    return f"{doc[0].upper()}{doc[1:]}."


class RegisteredConverter(ShapedConverter):
    problem = UNFRAMED
    FORMAT: ClassVar = AVRO
    CONFIG = ConfigDef(
        Key("schema.registry.url", default=REQUIRED, doc="The registry, or several.", importance="HIGH", check=urls),
        Key("basic.auth.credentials.source", default=URL, doc="Where the login is.", check=one_of(URL, USER_INFO)),
        *(Key(each.name, ConfigType.PASSWORD if each.secret else ConfigType.STRING, doc=sentence(each.doc))
          for each in ACCESS_KEYS),
        Key("auto.register.schemas", ConfigType.BOOLEAN, "true", "Whether a source adds its schemas to subjects."),
        Key("key.subject.name.strategy", default=TOPIC_STRATEGY, doc="TopicNameStrategy.", check=topic_strategy),
        Key("value.subject.name.strategy", default=TOPIC_STRATEGY, doc="TopicNameStrategy.", check=topic_strategy),
    )  # fmt: skip

    @property
    def registry(self) -> Registry:
        """A login of the settings counts where basic.auth.credentials.source says so; one in an address always does."""
        given = {name: str(self.config[name]) for name in NAMES if self.config.get(name) is not None}
        if self.config["basic.auth.credentials.source"] != USER_INFO:
            given = {name: text for name, text in given.items() if not name.endswith("basic.auth.user.info")}
        return Registry(tuple(urls_of(self.config["schema.registry.url"])), of_access(given))

    def encode(self, side: Side) -> Column:
        found: Column = self.checked(side)["bytes"]
        return found

    def checked(self, side: Side) -> Column:
        from moldau.connect.registered_values import Encoding, encoder

        part = "key" if side.column.endswith("key") else "value"
        encoding = Encoding(
            self.FORMAT, part, plain_name(side.name), self.written_schema(side), self.registry,
            self.config["auto.register.schemas"],
        )  # fmt: skip
        topic = F.col("topic") if side.topic is None else F.lit(side.topic)
        made: Column = encoder(encoding)(F.col(side.column), topic)
        return made

    def written_schema(self, side: Side) -> str | None:
        """None: made from the type of the column."""
        return None

    def shape(self, column: str) -> Column:
        from moldau.connect.registered_values import heads

        head: Column = heads(self.FORMAT)(F.col(column))
        return head

    def shape_of(self, text: str, column: str) -> Shape:
        from moldau.connect.registered_values import known_side

        return Shape(known_side(self.FORMAT, column, self.registry, text).kind or NullType())

    def decode_as(self, frame: DataFrame, column: str, shape: Shape, texts: Sequence[str]) -> DataFrame:
        from moldau.connect.registered_values import decoder, settled

        plan = settled(self.FORMAT, column, self.registry, texts, shape.kind)
        frame = frame.withColumn("_read", decoder(plan)(F.col(column)))
        problem = F.col("_read.problem")
        frame = frame.withColumn(ERROR, failed(column, problem.isNotNull(), problem))
        return frame.withColumn(column, F.col("_read.value")).drop("_read")


class AvroConverter(RegisteredConverter):
    FORMAT: ClassVar = AVRO

    def written_schema(self, side: Side) -> str:
        import json

        from moldau.spark.values.avro_types import avro_schema

        schema = connect_form(avro_schema(side.kind, plain_name(side.name), may_be_null=False), side.kind)
        if isinstance(schema, dict) and schema["type"] == "record" and side.name is None:
            schema = {**schema, "namespace": NAMESPACE}
        return json.dumps(schema)


class JsonSchemaConverter(RegisteredConverter):
    FORMAT: ClassVar = JSON_SCHEMA


class ProtobufConverter(RegisteredConverter):
    FORMAT: ClassVar = PROTOBUF


def urls_of(text: str) -> list[str]:
    return [part.strip().rstrip("/") for part in text.split(",") if part.strip()]


def plain_name(name: str | None) -> str:
    """A name that Avro and Protobuf take."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name or UNNAMED)
    return f"_{plain}" if plain[0].isdigit() else plain


def connect_form(schema: Any, kind: DataType) -> Any:
    """The schema of a type as Connect's Avro has it: what is not null is no union, times have milliseconds."""
    if isinstance(schema, list):
        return [schema[0], connect_form(schema[1], kind)]
    if isinstance(kind, StructType):
        fields = []
        for field, its in zip(schema["fields"], kind, strict=True):
            form = connect_form(field["type"], its.dataType)
            if its.nullable:
                fields.append({**field, "type": form})
            else:
                fields.append({"name": field["name"], "type": form[1] if isinstance(form, list) else form})
        return {**schema, "fields": fields}
    if isinstance(kind, ArrayType):
        return {**schema, "items": connect_form(schema["items"], kind.elementType)}
    if isinstance(kind, MapType):
        return {**schema, "values": connect_form(schema["values"], kind.valueType)}
    if isinstance(schema, dict) and schema.get("logicalType") == "timestamp-micros":
        return MILLIS
    return schema
