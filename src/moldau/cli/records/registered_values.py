"""Keys and values with a schema of a registry, as JSON for people: `moldau consume --decode`, `produce --value-schema`.

The kind of schema decides the JSON: Avro's own JSON encoding (a value of a union is {"type": value}, bytes are Latin-1
text), Protobuf's, or JSON itself, which is held against its JSON Schema. So what is printed can be written again.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from moldau.cli.output import WRONG_USAGE, CommandError
from moldau.cli.records.record_format import FormatError, Record
from moldau.cli.sides import KEY, VALUE, Sides
from moldau.clients.protobuf import message_class
from moldau.clients.registered import parsed_with_references, validate
from moldau.clients.schema_registry import Registered, RegistryFailed, SchemaRegistry
from moldau.schemas.framing import framed_by_id, read_frame, read_indexes

LATEST: Final = "latest"
FIRST_MESSAGE: Final = (0,)


class NotDecoded(Exception):
    """A record cannot be read with the schema that it names; the message says which record."""


class Values:
    """JSON to bytes and back, with the classes that schemas stand for kept."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._messages: dict[tuple[int, tuple[int, ...]], type[Any]] = {}

    def decoded(self, data: bytes) -> bytes:
        frame = read_frame(data)
        if not isinstance(frame.schema, int):
            raise ValueError("its schema is named by a GUID, which is not looked up here")
        schema = self._registry.by_id(frame.schema)
        if schema.kind == "AVRO":
            return self._from_avro(schema, data[frame.begins :])
        if schema.kind == "JSON":
            return as_line(json.loads(data[frame.begins :]))
        from google.protobuf.json_format import MessageToDict

        indexes, begins = read_indexes(data, frame.begins)
        message = self._message(schema, indexes)()
        message.ParseFromString(data[begins:])
        return as_line(MessageToDict(message, preserving_proto_field_name=True))

    def encoded(self, schema: Registered, text: bytes) -> bytes:
        content = json.loads(text)
        if schema.kind == "AVRO":
            return framed_by_id(schema.schema_id, self._to_avro(schema, content))
        if schema.kind == "JSON":
            validate(self._registry, schema, content)
            return framed_by_id(schema.schema_id, as_line(content))
        from google.protobuf.json_format import ParseDict

        message = ParseDict(content, self._message(schema, FIRST_MESSAGE)())
        return framed_by_id(schema.schema_id, message.SerializeToString(), FIRST_MESSAGE)

    def _from_avro(self, schema: Registered, data: bytes) -> bytes:
        from fastavro import json_writer, schemaless_reader

        parsed = parsed_with_references(self._registry, schema)
        stream = io.BytesIO(data)
        value = schemaless_reader(stream, parsed, None, return_named_type=True)
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow the value")
        out = io.StringIO()
        json_writer(out, parsed, [value])
        return as_line(json.loads(out.getvalue()))

    def _to_avro(self, schema: Registered, content: Any) -> bytes:
        from fastavro import json_reader, schemaless_writer

        parsed = parsed_with_references(self._registry, schema)
        (value,) = json_reader(io.StringIO(json.dumps(content)), parsed)
        out = io.BytesIO()
        schemaless_writer(out, parsed, value)
        return out.getvalue()

    def _message(self, schema: Registered, indexes: tuple[int, ...]) -> type[Any]:
        key = schema.schema_id, indexes
        if key not in self._messages:
            self._messages[key] = message_class(self._registry, schema, indexes)
        return self._messages[key]


def changed(record: Record, name: str, data: bytes) -> Record:
    return replace(record, key=data) if name == KEY else replace(record, value=data)


def as_line(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


class Decoding:
    """Of the records that are read."""

    def __init__(self, registry: SchemaRegistry, sides: Sides) -> None:
        self._values = Values(registry)
        self.names = sides.names

    def decoded(self, record: Record) -> Record:
        """Raises NotDecoded for a fault of the record, CommandError where the registry is away."""
        for name in self.names:
            data = getattr(record, name)
            if data is not None:
                record = changed(record, name, self._one(record, name, data))
        return record

    def _one(self, record: Record, name: str, data: bytes) -> bytes:
        try:
            return self._values.decoded(data)
        except RegistryFailed as error:
            if error.code // 100 != 404:
                raise CommandError(
                    str(error), "say --registry URL, or set MOLDAU_REGISTRY", error_code(error)
                ) from None
            why: object = error
        except Exception as error:  # damaged bytes make the readers fail in many ways
            why = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        place = f"{record.topic} [{record.partition}] offset {record.offset}"
        raise NotDecoded(f"{place}: the {name} is left out: {why}") from None


def error_code(error: RegistryFailed) -> int:
    from moldau.cli.output import FAILED, UNREACHABLE

    return FAILED if error.code else UNREACHABLE


class Encoding:
    """Of the records that are written: the schema of each side, settled before the first record."""

    def __init__(self, registry: SchemaRegistry, topic: str, key: str | None, value: str | None) -> None:
        self._registry = registry
        self._values = Values(self._registry)
        try:
            self._schemas = {
                name: self._schema(f"{topic}-{name}", given)
                for name, given in ((KEY, key), (VALUE, value))
                if given is not None
            }
        except RegistryFailed as error:
            raise CommandError(str(error), exit_code=error_code(error)) from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def _schema(self, subject: str, given: str) -> Registered:
        """A number is an id; a file is registered."""
        if given == LATEST:
            return self._registry.version(subject)
        if given.isdigit():
            return self._registry.by_id(int(given))
        from moldau.cli.services.registry_actions import request_of

        if not Path(given).is_file():
            raise CommandError(f"{given}: no file, no id, and not {LATEST}", exit_code=WRONG_USAGE)
        body = request_of(Path(given), None, [])
        return self._registry.by_id(self._registry.id_of(subject, body["schema"], body["schemaType"]))

    def encoded(self, record: Record) -> Record:
        """Raises FormatError for what does not fit."""
        for name, schema in self._schemas.items():
            text = getattr(record, name)
            if text is None:
                continue
            try:
                record = changed(record, name, self._values.encoded(schema, text))
            except Exception as error:  # what does not fit makes the writers fail in many ways
                told = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                raise FormatError(f"the {name} does not fit schema {schema.schema_id}: {told}") from None
        return record
