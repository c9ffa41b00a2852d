"""Records as documents, for targets that keep such: what a value has to be, and where a record's name comes from."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

from moldau.connect.interface import RecordRefused, SinkRecord


def place_of(record: SinkRecord) -> str:
    return f"{record.source.topic}-{record.partition} at offset {record.offset}"


def document_of(record: SinkRecord) -> dict[str, Any]:
    """A struct is a document as it is; text and bytes have to be a JSON object."""
    if isinstance(record.value, dict):
        return record.value
    if isinstance(record.value, str | bytes):
        try:
            found = json.loads(record.value)
        except ValueError as error:
            raise RecordRefused(f"{place_of(record)}: the value is no document: {error}") from None
        if isinstance(found, dict):
            return found
    kind = type(record.value).__name__
    raise RecordRefused(f"{place_of(record)}: the value is no document but {kind}: use a converter that gives structs")


def json_text(record: SinkRecord, value: Any) -> str:
    """Without what JSON does not have."""
    try:
        return json.dumps(
            json_ready(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
        )
    except ValueError as error:
        raise RecordRefused(f"{place_of(record)}: {error}") from None


def json_ready(value: Any) -> Any:
    """Times in ISO 8601, bytes in base 64, decimals as numbers where a double holds them, else as text."""
    match value:
        case dict():
            return {str(name): json_ready(each) for name, each in value.items()}
        case list() | tuple():
            return [json_ready(each) for each in value]
        case dt.datetime():
            moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            near = float(value)
            return near if math.isfinite(near) and Decimal(repr(near)) == value else str(value)
    return value


def key_text(record: SinkRecord) -> str:
    """The key as a name."""
    key = record.key
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            raise RecordRefused(f"{place_of(record)}: the key is no text, and cannot be a document's id") from None
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int):
        return str(key)
    found = "null" if key is None else type(key).__name__
    raise RecordRefused(
        f"{place_of(record)}: the key is {found}, and a document's id is text or a number: take a field of a struct "
        "with the transform ExtractField$Key, or ignore keys"
    )
