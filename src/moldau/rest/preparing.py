"""A record as v3 takes it, read and turned into bytes: `{"partition_id", "headers", "key", "value", "timestamp"}`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from moldau.rest import errors, formats
from moldau.rest.producing import Outgoing
from moldau.rest.schemas import STRATEGIES, Chosen, Schemas, Wanted
from moldau.rest.v3 import number_of, objects_of, text_of

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA_FIELDS: Final = ("subject_name_strategy", "subject", "schema_id", "schema_version", "schema")
ALONE: Final = "Only one of 'schema_id', 'schema_version' or 'schema' can be used."


class Part(NamedTuple):
    """Key or value: which format, which schema, what."""

    format: str | None
    wanted: Wanted | None
    data: Any

    @property
    def needs_registry(self) -> bool:
        return self.wanted is not None


class Draft(NamedTuple):
    partition: int | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    key: Part | None
    value: Part | None

    @property
    def needs_registry(self) -> bool:
        return any(part is not None and part.needs_registry for part in (self.key, self.value))


class Prepared(NamedTuple):
    outgoing: Outgoing
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    """What the answer says of them."""


def read(topic: str, body: dict[str, Any]) -> Draft:
    partition = number_of(body, "partition_id")
    if partition is not None and partition < 0:
        raise errors.partition_not_found()
    headers = tuple(read_header(each) for each in objects_of(body, "headers"))
    key, value = (read_part(topic, body, name) for name in ("key", "value"))
    return Draft(partition, read_time(body.get("timestamp")), headers, key, value)


def read_header(body: dict[str, Any]) -> tuple[str, bytes | None]:
    return str(text_of(body, "name", needed=True)), formats.encode(formats.BINARY, body.get("value"))


def read_time(given: Any) -> int | None:
    """ISO 8601, or milliseconds since 1970."""
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 62:
        return given
    try:
        at = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise errors.bad_request(f"Bad Request: timestamp {given!r} is not like 2026-01-31T12:00:00.000Z") from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    since = at - EARLIEST
    milliseconds = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    if milliseconds < 0:
        raise errors.bad_request(f"Bad Request: timestamp {given!r} is before 1970")
    return milliseconds


def read_part(topic: str, body: dict[str, Any], name: str) -> Part | None:
    given = body.get(name)
    if given is None:
        return None
    if not isinstance(given, dict):
        raise errors.bad_request(f"Bad Request: {name} is not an object with `data`")
    kind = text_of(given, "type")
    if kind is not None and kind.upper() not in formats.FORMATS:
        raise errors.bad_request(f"Bad Request: type {kind!r} is none of {', '.join(formats.FORMATS)}")
    kind = kind.upper() if kind is not None else None
    data = given.get("data")
    if kind in formats.PLAIN:
        for field in SCHEMA_FIELDS:
            if given.get(field) is not None:
                raise errors.bad_request(f"Bad Request: 'type={kind}' cannot be used with '{field}'.")
        return Part(kind, None, data)
    return Part(kind, read_wanted(topic, given, kind, is_key=name == "key"), data)


def read_wanted(topic: str, given: dict[str, Any], kind: str | None, *, is_key: bool) -> Wanted:
    strategy, subject = text_of(given, "subject_name_strategy"), text_of(given, "subject")
    schema_id, version = number_of(given, "schema_id"), number_of(given, "schema_version")
    text = text_of(given, "schema")
    if strategy is not None and subject is not None:
        raise errors.bad_request("Bad Request: Only one of 'subject_name_strategy' or 'subject' can be used.")
    if strategy is not None and strategy.upper() not in STRATEGIES:
        raise errors.bad_request(f"Bad Request: subject_name_strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
    if sum(each is not None for each in (schema_id, version, text)) > 1:
        raise errors.bad_request(f"Bad Request: {ALONE}")
    if kind is not None and text is None:
        raise errors.bad_request(
            f"Bad Request: 'type={kind}' needs 'schema'; without a type the registry knows the schema"
        )
    if kind is None and text is not None:
        raise errors.bad_request("Bad Request: 'schema' needs 'type': AVRO, JSONSCHEMA or PROTOBUF")
    chosen = strategy.upper() if strategy is not None else None
    return Wanted(topic, is_key, kind, subject, chosen, schema_id, version, text)


def encode(draft: Draft, schemas: Schemas, *, null_is_nothing: bool) -> Prepared:
    """In a thread where a schema is asked for."""
    key, about_key = encode_part(draft.key, schemas, null_is_nothing=null_is_nothing)
    value, about_value = encode_part(draft.value, schemas, null_is_nothing=null_is_nothing)
    return Prepared(Outgoing(key, value, draft.partition, draft.timestamp, draft.headers), about_key, about_value)


def encode_part(
    part: Part | None, schemas: Schemas, *, null_is_nothing: bool
) -> tuple[bytes | None, dict[str, Any] | None]:
    if part is None:
        return None, None
    if part.wanted is None:
        data = formats.encode(str(part.format), part.data)
        return data, {"type": part.format, "size": len(data or b"")}
    chosen = schemas.choose(part.wanted)
    data = None if part.data is None and null_is_nothing else schemas.encode(chosen, part.data)
    return data, about(chosen, data)


def about(chosen: Chosen, data: bytes | None) -> dict[str, Any]:
    return {
        "type": chosen.format,
        "subject": chosen.subject,
        "schema_id": chosen.schema.schema_id,
        "schema_version": chosen.version,
        "size": len(data or b""),
    }


def iso(milliseconds: int) -> str:
    at = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
