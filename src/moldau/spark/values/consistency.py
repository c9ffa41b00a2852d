"""Options of keys and values that would have no effect beside the others are refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql.types import DataType, StructType

from moldau.clients.registry_keys import NAMES, URL
from moldau.spark.option_table import OptionError
from moldau.spark.values.options import JSON_SCHEMA, PROTOBUF, RAW, REGISTERED

REGISTRY: Final = URL
REGISTER: Final = "auto.register.schemas"

# In all of these `options` have their names in lower case, and `formats` says what key and value are.


def check_registry_options(options: Mapping[str, str], formats: Mapping[str, str]) -> None:
    if REGISTRY in options and not set(REGISTERED) & set(formats.values()):
        told = f"has no meaning: neither key.format nor value.format is one of {', '.join(REGISTERED)}"
        raise OptionError(REGISTRY, told)
    for side, form in formats.items():
        subject = f"{side}.subject"
        if form == JSON_SCHEMA and REGISTRY not in options:
            raise OptionError(
                REGISTRY, f"is missing: {side}.format=jsonschema needs it; JSON without a registry is json"
            )
        if f"{side}.message" in options and form != PROTOBUF:
            raise OptionError(f"{side}.message", f"has no meaning with {side}.format={form}")
        if subject in options and form not in REGISTERED:
            raise OptionError(subject, f"has no meaning with {side}.format={form}")
        if subject in options and not options[subject].strip():
            raise OptionError(subject, "is empty")
    for name in (*NAMES, REGISTER, *(f"{side}.subject" for side in formats)):
        if name in options and REGISTRY not in options:
            raise OptionError(name, f"has no meaning without {REGISTRY}")


def check_read_schemas(options: Mapping[str, str], formats: Mapping[str, str]) -> None:
    for side, form in formats.items():
        schema, subject = f"{side}.schema", f"{side}.subject"
        if schema in options and form in (RAW, "string"):
            raise OptionError(schema, f"has no meaning with {side}.format={form}")
        if schema in options and subject in options:
            raise OptionError(subject, f"contradicts {schema}, which says what to read; give one of them")


def check_written_schemas(options: Mapping[str, str], formats: Mapping[str, str]) -> None:
    for side, form in formats.items():
        if f"{side}.message" in options and f"{side}.schema" not in options:
            raise OptionError(f"{side}.message", f"has no meaning when writing without {side}.schema")
        if f"{side}.schema" in options and form not in REGISTERED:
            raise OptionError(
                f"{side}.schema",
                f"has no meaning when writing with {side}.format={form}: the type of the column {side!r} decides",
            )


def check_decoding(options: Mapping[str, str], kinds: Collection[DataType]) -> None:
    """`kinds` are the types of the sides that are decoded."""
    if "mode" in options and not kinds:
        raise OptionError("mode", "has no meaning while key.format and value.format are raw: nothing is decoded")
    if "flatten" in options and not any(isinstance(kind, StructType) for kind in kinds):
        raise OptionError("flatten", "has no meaning: neither the key nor the value is a struct with fields")
