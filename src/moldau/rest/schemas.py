"""Formats with schemas: which schema a record has, and JSON to its bytes and back, as Confluent's proxy does it.

Avro is Avro's JSON encoding (a value of a union is `{"type": value}`, bytes are Latin-1 text), Protobuf is its own,
JSON Schema plain JSON, which is checked. A schema is named by its id, by subject and version, by its text (which
registers it), or by nothing: the subject's latest. Everything here asks the registry, so it belongs into a thread.
"""

from __future__ import annotations

import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from moldau.clients.errors import ClientError
from moldau.clients.protobuf import message_class
from moldau.clients.registered import parsed_with_references, record_name, title
from moldau.clients.schema_registry import Registered, RegistryFailed, SchemaRegistry, registered
from moldau.rest import errors
from moldau.rest.formats import AVRO, JSONSCHEMA, PROTOBUF, to_bytes
from moldau.schemas.framing import KEY_HEADER, VALUE_HEADER, FramingError, framed_by_id, read_frame, read_indexes
from moldau.schemas.workshop import Busy, Text, Workshop

FORMAT_OF: Final = {"AVRO": AVRO, "JSON": JSONSCHEMA, "PROTOBUF": PROTOBUF}
KIND_OF: Final = {format_: kind for kind, format_ in FORMAT_OF.items()}
TOPIC_NAME: Final = "TOPIC_NAME"
RECORD_NAME: Final = "RECORD_NAME"
TOPIC_RECORD_NAME: Final = "TOPIC_RECORD_NAME"
STRATEGIES: Final = (TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME)
REMEMBERED: Final = 1000
LATEST_SECONDS: Final = 5.0
SETTLING_SECONDS: Final = 2.0
SETTLING_PAUSE_SECONDS: Final = 0.02
UNKNOWN_SCHEMA: Final = 40403
FIRST_MESSAGE: Final = (0,)


class Wanted(NamedTuple):
    """Which schema a request names for one part of its records."""

    topic: str
    is_key: bool
    format: str | None = None
    subject: str | None = None
    strategy: str | None = None
    schema_id: int | None = None
    version: int | None = None
    text: str | None = None


class Chosen(NamedTuple):
    subject: str
    version: int
    schema: Registered

    @property
    def format(self) -> str:
        return FORMAT_OF[self.schema.kind]


class Schemas:
    def __init__(self, registry: SchemaRegistry | None, workshop: Workshop, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._workshop = workshop
        self._monotonic = monotonic
        self._chosen: OrderedDict[Wanted, tuple[Chosen, float]] = OrderedDict()
        self._messages: dict[tuple[int | str, tuple[int, ...]], type[Any]] = {}
        self._lock = threading.Lock()

    @property
    def known(self) -> bool:
        """Whether there is a registry."""
        return self._registry is not None

    def close(self) -> None:
        self._workshop.close()

    # -- which schema ------------------------------------------------------------------------------------------------

    def choose(self, wanted: Wanted) -> Chosen:
        if self._registry is None:
            raise errors.not_serialized("Schema Registry must be configured when using schemas.")
        known = self._chosen.get(wanted)
        if known is not None and self._monotonic() < known[1]:
            return known[0]
        found = self._found(self._registry, wanted)
        if wanted.format is not None and found.format != wanted.format:
            raise errors.invalid_schema(f"schema {found.schema.schema_id} is {found.schema.kind}, not {wanted.format}")
        lasting = wanted.schema_id is not None or wanted.version is not None or wanted.text is not None
        with self._lock:
            self._chosen[wanted] = found, float("inf") if lasting else self._monotonic() + LATEST_SECONDS
            while len(self._chosen) > REMEMBERED:
                self._chosen.popitem(last=False)
        return found

    def _found(self, registry: SchemaRegistry, wanted: Wanted) -> Chosen:
        if wanted.schema_id is not None:
            schema_id = wanted.schema_id
            what = f"Error when fetching schema by id. schemaId = {schema_id}"
            schema = asked(what, lambda: registry.by_id(schema_id))
            return self._placed(registry, wanted, schema)
        if wanted.text is not None:
            return self._registered(registry, wanted, wanted.text)
        subject = wanted.subject or named_without_schema(wanted)
        version: int | str = "latest" if wanted.version is None else wanted.version
        what = f"Error when fetching schema by version. subject = {subject}, version = {version}"
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        answer = asked(what, lambda: registry.ask(path))
        return Chosen(subject, int(answer.get("version", 0)), registered(answer, int(answer.get("id", 0))))

    def _placed(self, registry: SchemaRegistry, wanted: Wanted, schema: Registered) -> Chosen:
        """Under which version of its subject a schema is."""
        if wanted.subject is None and schema.kind == "PROTOBUF" and wanted.strategy in (RECORD_NAME, TOPIC_RECORD_NAME):
            name = self._message(schema, FIRST_MESSAGE).DESCRIPTOR.full_name
        else:
            name = name_of(schema)
        subject = wanted.subject or subject_of(wanted, name)
        what = f"Error when fetching schema version. subject = {subject}, schema = {schema.text}"
        body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.kind, "references": schema.references}
        answer = asked(what, lambda: registry.ask(f"/subjects/{quote(subject, safe='')}", body))
        return Chosen(subject, int(answer.get("version", 0)), schema)

    def _registered(self, registry: SchemaRegistry, wanted: Wanted, text: str) -> Chosen:
        kind = KIND_OF[wanted.format or AVRO]
        draft = Registered(0, kind, text)
        if wanted.subject is None and kind == "PROTOBUF" and wanted.strategy in (RECORD_NAME, TOPIC_RECORD_NAME):
            raise errors.bad_request("a Protobuf schema given as text needs `subject` where its messages name it")
        subject = wanted.subject or subject_of(wanted, name_of(draft))
        what = f"Error when registering schema. format = {wanted.format}, subject = {subject}, schema = {text}"
        schema_id = asked(what, lambda: registry.id_of(subject, text, kind))
        schema = asked(what, lambda: self._just_registered(registry, schema_id))
        path = f"/subjects/{quote(subject, safe='')}"
        answer = asked(what, lambda: registry.ask(path, {"schema": text, "schemaType": kind}))
        return Chosen(subject, int(answer.get("version", 0)), schema)

    def _just_registered(self, registry: SchemaRegistry, schema_id: int) -> Registered:
        """Another instance of the registry than the one that took it may not have read it yet."""
        deadline = self._monotonic() + SETTLING_SECONDS
        while True:
            try:
                return registry.by_id(schema_id)
            except RegistryFailed as error:
                if error.code != UNKNOWN_SCHEMA or self._monotonic() > deadline:
                    raise
            threading.Event().wait(SETTLING_PAUSE_SECONDS)

    # -- to bytes and back -------------------------------------------------------------------------------------------

    def encode(self, chosen: Chosen, data: Any) -> bytes:
        try:
            match chosen.format:
                case "AVRO":
                    payload = self._to_avro(chosen.schema, data)
                case "JSONSCHEMA":
                    payload = self._to_json(chosen.schema, data)
                case _:
                    payload = self._to_protobuf(chosen.schema, data)
        except RegistryFailed as error:
            raise failed("Error when reading the schema.", error) from None
        except errors.RestError:
            raise
        except Busy as error:
            raise errors.too_many(f"Too many values are checked: {error} (schema.workers)") from None
        except Exception as error:
            raise errors.bad_request(f"Bad Request: {told(error)}") from None
        indexes = FIRST_MESSAGE if chosen.format == PROTOBUF else None
        return framed_by_id(chosen.schema.schema_id, payload, indexes)

    def decode(self, data: bytes, format_: str | None, where: str) -> tuple[Registered, Any]:
        """A registered value as JSON. `format_` is what it has to be. What names its schema stands before it."""
        if self._registry is None:
            raise errors.unreadable(where, "no schema registry is named (schema.registry.url)")
        try:
            frame = read_frame(data)
            found = frame.schema
            schema = self._registry.by_id(found) if isinstance(found, int) else self._registry.by_guid(str(found))
            if format_ is not None and FORMAT_OF[schema.kind] != format_:
                raise errors.unreadable(where, f"schema {frame.schema} is {schema.kind}, not {format_}")
            return schema, self._decoded(schema, data, frame.begins)
        except RegistryFailed as error:
            if error.code in (0, *range(500, 600), *range(50000, 60000)):
                raise errors.RestError(50003, f"{where}: {error}", 500) from None
            raise errors.unreadable(where, error) from None
        except errors.RestError:
            raise
        except (FramingError, ClientError, ValueError) as error:
            raise errors.unreadable(where, error) from None
        except Exception as error:
            raise errors.unreadable(where, told(error)) from None

    def _decoded(self, schema: Registered, data: bytes, begins: int) -> Any:
        assert self._registry is not None
        if schema.kind == "AVRO":
            return self._from_avro(schema, data[begins:])
        if schema.kind == "JSON":
            return json.loads(data[begins:])
        from google.protobuf.json_format import MessageToDict

        indexes, begins = read_indexes(data, begins)
        message = self._message(schema, indexes)()
        message.ParseFromString(data[begins:])
        return MessageToDict(message, always_print_fields_with_no_presence=True)

    def _to_avro(self, schema: Registered, data: Any) -> bytes:
        from fastavro import json_reader, schemaless_writer

        assert self._registry is not None
        parsed = parsed_with_references(self._registry, schema)
        (value,) = json_reader(io.StringIO(json.dumps(data)), parsed)
        out = io.BytesIO()
        schemaless_writer(out, parsed, value)
        return out.getvalue()

    def _from_avro(self, schema: Registered, data: bytes) -> Any:
        from fastavro import json_writer, schemaless_reader

        assert self._registry is not None
        parsed = parsed_with_references(self._registry, schema)
        value = schemaless_reader(io.BytesIO(data), parsed, None, return_named_type=True)
        out = io.StringIO()
        json_writer(out, parsed, [value])
        return json.loads(out.getvalue())

    def _to_json(self, schema: Registered, data: Any) -> bytes:
        """The patterns of strangers' schemas may run for ever, so they do not run here."""
        assert self._registry is not None
        found = self._workshop.check(Text(schema.kind, schema.text, self._registry.referred(schema)), data)
        if found is not None:
            raise ValueError(f"it breaks schema {schema.schema_id} at #/{found[0]}: {found[1]}")
        return to_bytes(data)

    def _to_protobuf(self, schema: Registered, data: Any) -> bytes:
        from google.protobuf.json_format import ParseDict

        if data is None:
            raise ValueError("null is no message")
        message = self._message(schema, FIRST_MESSAGE)()
        ParseDict(data, message)
        return bytes(message.SerializeToString())

    def _message(self, schema: Registered, indexes: tuple[int, ...]) -> type[Any]:
        assert self._registry is not None
        place = schema.schema_id or schema.guid, indexes
        known = self._messages.get(place)
        if known is None:
            if len(self._messages) > REMEMBERED:
                self._messages.clear()
            known = self._messages[place] = message_class(self._registry, schema, indexes)
        return known


def head_of(headers: Iterable[tuple[str, Any]], *, is_key: bool) -> bytes:
    """What names the schema of a key or value in the headers of its record; nothing if there is no such header."""
    name = KEY_HEADER if is_key else VALUE_HEADER
    found = [value for each, value in headers if each == name and isinstance(value, bytes)]
    return found[-1] if found else b""


def asked(what: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except RegistryFailed as error:
        raise failed(what, error) from None


def failed(what: str, error: RegistryFailed) -> errors.RestError:
    if error.code in (40301, 403):
        return errors.RestError(40301, what)
    if error.code in (0, *range(500, 600), *range(50000, 60000)):
        return errors.RestError(50003, f"Kafka error: {what}\n{error}", 500)
    return errors.not_serialized(f"{what}\n{error}")


def told(error: Exception) -> str:
    text = str(error)
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def name_of(schema: Registered) -> str | None:
    try:
        if schema.kind == "AVRO":
            return record_name(schema.text)
        return title(schema.text) if schema.kind == "JSON" else None
    except ValueError as error:
        raise errors.invalid_schema(error) from None


def named_without_schema(wanted: Wanted) -> str:
    if wanted.strategy in (None, TOPIC_NAME):
        return subject_of(wanted, None)
    text = f"Cannot use schema_subject_strategy={wanted.strategy} without schema_id or schema."
    raise errors.bad_request(f"Bad Request: {text}")


def subject_of(wanted: Wanted, name: str | None) -> str:
    if wanted.strategy in (None, TOPIC_NAME):
        return f"{wanted.topic}-{'key' if wanted.is_key else 'value'}"
    if name is None:
        raise errors.bad_request("Bad Request: the schema has no name, which its subject should be")
    return name if wanted.strategy == RECORD_NAME else f"{wanted.topic}-{name}"
