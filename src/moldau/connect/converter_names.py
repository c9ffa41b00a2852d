"""Converters by the names that configurations call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.connect import converters as ours
from moldau.connect.converters import Converter
from moldau.connect.json_converter import JsonConverter
from moldau.connect.plugins import PluginMissing, loaded, names_of
from moldau.connect.registered import AvroConverter, JsonSchemaConverter, ProtobufConverter

JAVA: Final = "org.apache.kafka.connect."
CONFLUENT: Final = "io.confluent.connect."
CONVERTERS: Final[Mapping[str, type[Converter]]] = {
    f"{JAVA}storage.StringConverter": ours.StringConverter,
    f"{JAVA}json.JsonConverter": JsonConverter,
    f"{JAVA}converters.ByteArrayConverter": ours.ByteArrayConverter,
    f"{JAVA}converters.BooleanConverter": ours.BooleanConverter,
    f"{JAVA}converters.ShortConverter": ours.ShortConverter,
    f"{JAVA}converters.IntegerConverter": ours.IntegerConverter,
    f"{JAVA}converters.LongConverter": ours.LongConverter,
    f"{JAVA}converters.FloatConverter": ours.FloatConverter,
    f"{JAVA}converters.DoubleConverter": ours.DoubleConverter,
    f"{CONFLUENT}avro.AvroConverter": AvroConverter,
    f"{CONFLUENT}json.JsonSchemaConverter": JsonSchemaConverter,
    f"{CONFLUENT}protobuf.ProtobufConverter": ProtobufConverter,
}


def find_converter(name: str) -> type[Converter]:
    for java, found in CONVERTERS.items():
        if name in names_of(java) or name == java.rsplit(".", 1)[-1].removesuffix("Converter"):
            return found
    try:
        other = loaded(name)
    except (ImportError, AttributeError):
        other = None
    if isinstance(other, type) and issubclass(other, Converter):
        return other
    raise PluginMissing(f"Class {name} could not be found. There are {', '.join(CONVERTERS)}")


def java_name(converter: Converter) -> str:
    """The class that it takes the place of; its own where there is none."""
    kind = type(converter)
    return next((java for java, found in CONVERTERS.items() if found is kind), f"{kind.__module__}.{kind.__qualname__}")
