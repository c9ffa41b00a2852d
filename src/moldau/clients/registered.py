"""Serializers and deserializers (each class is both) whose schemas are kept in a schema registry: Avro and JSON Schema.

Their settings stand in `registry_serde`. What stands before a value, or in its headers, is in `schemas.framing`."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from moldau.clients.registry_serde import References, RegistrySerde
from moldau.clients.schema_registry import Registered, SchemaRegistry
from moldau.schemas.json_validation import problem, validator_of

PRIMITIVES: Final[dict[type, str]] = {
    str: '"string"', bytes: '"bytes"', bool: '"boolean"', int: '"long"', float: '"double"',
}  # fmt: skip
AVRO_NAMED: Final = ("record", "error", "enum", "fixed")


class Avro(RegistrySerde):
    """Avro by fastavro. Writes with `schema`, with the subject's latest (use.latest.version), or, for plain values
    such as
    strings and numbers, with their own. Reads into `schema` if there is one, by Avro's rules of resolution; else as
    written."""

    kind = "AVRO"

    def __init__(self, schema: str | Mapping[str, Any] | list[Any] | None = None, references: References = ()) -> None:
        super().__init__(schema, references)
        self._writers: dict[tuple[str, str | None], tuple[bytes, Any]] = {}
        self._reader: Any = None

    def encoded(self, topic: str, value: Any) -> tuple[bytes, bytes]:
        from fastavro import schemaless_writer

        text = self.schema if self.schema is not None or self._choice.is_made else PRIMITIVES.get(type(value))
        known = self._writers.get((topic, text))
        if known is None:
            known = self._writers[topic, text] = self._writer(topic, text, value)
        out = io.BytesIO()
        try:
            schemaless_writer(out, known[1], value)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"{value!r} does not fit its schema: {error!r}") from error
        return known[0], out.getvalue()

    def _writer(self, topic: str, text: str | None, value: Any) -> tuple[bytes, Any]:
        if text is None and not self._choice.is_made:
            raise ValueError(f"a {type(value).__name__} needs a schema: value.serializer=Avro(schema)")
        subject = self.subject(topic, None if text is None else record_name(text))
        written = self.writing_schema(subject, text, self.references)
        return self.head(written), parsed_with_references(self.registry, written)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        from fastavro import schemaless_reader

        if data is None:
            return None
        written, begins = self.opened(data)
        writer = parsed_with_references(self.registry, written)
        if self._reader is None and self.schema is not None:
            own = Registered(0, self.kind, self.schema, self.references)
            self._reader = parsed_with_references(self.registry, own)
        try:
            return schemaless_reader(io.BytesIO(memoryview(data)[begins:]), writer, self._reader)
        except Exception as error:
            raise ValueError(f"it cannot be read with schema {written.schema_id}: {error!r}") from error


def record_name(text: str) -> str | None:
    """The full name of an Avro schema; of one without a name of its own that of its type, as in Java."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no Avro schema: {error}") from None
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        return None
    if schema.get("type") not in AVRO_NAMED:
        inner = schema.get("type")
        return inner if isinstance(inner, str) else record_name(json.dumps(inner))
    name, space = str(schema.get("name", "")), schema.get("namespace")
    return f"{space}.{name}" if space and "." not in name else name


@lru_cache(maxsize=10_000)
def parsed_with_references(registry: SchemaRegistry, written: Registered) -> Any:
    """With the schemas that it refers to, each before those that need it."""
    from fastavro import parse_schema

    named: dict[str, Any] = {}

    def add(schema: Registered, depth: int = 0) -> Any:
        if depth > 100:
            raise ValueError(f"the references of schema {written.schema_id} go on without end")
        for reference in schema.references:
            add(registry.version(str(reference["subject"]), reference["version"]), depth + 1)
        try:
            return parse_schema(json.loads(schema.text), named_schemas=named)
        except Exception as error:
            raise ValueError(f"no Avro schema: {error!r}") from error

    return add(written)


class JsonSchema(RegistrySerde):
    """JSON that is checked against a JSON Schema, when it is written and when it is read."""

    kind = "JSON"

    def encoded(self, topic: str, value: Any) -> tuple[bytes, bytes]:
        if self.schema is None and not self._choice.is_made:
            raise ValueError("JSON needs a schema: value.serializer=JsonSchema(schema)")
        subject = self.subject(topic, None if self.schema is None else title(self.schema))
        written = self.writing_schema(subject, self.schema, self.references)
        validate(self.registry, written, value)
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return self.head(written), text.encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        written, begins = self.opened(data)
        value = json.loads(data[begins:])
        validate(self.registry, written, value)
        return value


def title(text: str) -> str | None:
    schema = json.loads(text)
    return str(schema["title"]) if isinstance(schema, dict) and "title" in schema else None


def validate(registry: SchemaRegistry, written: Registered, value: Any) -> None:
    found = problem(validator(registry, written), value)
    if found is not None:
        where = f" at {found.where}" if found.where else ""
        raise ValueError(f"it breaks schema {written.schema_id}{where}: {found.message}")


@lru_cache(maxsize=1000)
def validator(registry: SchemaRegistry, written: Registered) -> Any:
    return validator_of(written.text, tuple(registry.referred(written).items()))
