"""Embedded formats that need no schema: JSON in requests to bytes in records, and back."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final

from moldau.rest import errors

BINARY: Final = "BINARY"
JSON: Final = "JSON"
STRING: Final = "STRING"
AVRO: Final = "AVRO"
JSONSCHEMA: Final = "JSONSCHEMA"
PROTOBUF: Final = "PROTOBUF"
PLAIN: Final = (BINARY, JSON, STRING)
WITH_SCHEMA: Final = (AVRO, JSONSCHEMA, PROTOBUF)
FORMATS: Final = (*PLAIN, *WITH_SCHEMA)
SHOWN: Final = 200


def encode(kind: str, data: Any) -> bytes | None:
    """null is no value at all."""
    if data is None:
        return None
    if kind == JSON:
        return to_bytes(data)
    if not isinstance(data, str):
        what = "a base64 string" if kind == BINARY else "a string"
        raise errors.bad_request(f"Bad Request: data={shown(data)} is not {what}.")
    if kind == STRING:
        return data.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise errors.bad_request(f"Bad Request: data={shown(data)} is not a valid base64 string.") from None


def decode(kind: str, data: bytes | None, where: str) -> Any:
    if data is None:
        return None
    if kind == BINARY:
        return base64.b64encode(data).decode()
    try:
        return data.decode() if kind == STRING else json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise errors.unreadable(where, f"it is not {'UTF-8' if kind == STRING else 'JSON'}: {error}") from None


def guess(data: bytes | None) -> tuple[str, Any]:
    """JSON where it is, else text, else base64."""
    if data is None:
        return BINARY, None
    for kind in (JSON, STRING):
        try:
            return kind, decode(kind, data, "")
        except errors.RestError:
            continue
    return BINARY, decode(BINARY, data, "")


def to_bytes(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def shown(data: Any) -> str:
    text = json.dumps(data)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
