"""What the paths of v2 and v1 have in common: content types, and how their bodies are read."""

from __future__ import annotations

from typing import Any, Final

from moldau.rest import errors, formats
from moldau.rest.v3 import list_of, number_of, text_of
from moldau.web import ApiError, Call
from moldau.web.application import accepted

V2: Final = "application/vnd.kafka.v2+json"
V1: Final = "application/vnd.kafka.v1+json"
JSON: Final = "application/json"
CONTROL: Final = (V2, V1, JSON)
EMBEDDED: Final = {
    f"application/vnd.kafka.{name.lower()}.{version}+json": name
    for version in ("v2", "v1")
    for name in (formats.BINARY, formats.JSON, formats.AVRO, formats.JSONSCHEMA, formats.PROTOBUF)
    if version == "v2" or name in (formats.BINARY, formats.JSON, formats.AVRO)
}
FORMATS: Final = (formats.BINARY, formats.JSON, formats.AVRO, formats.JSONSCHEMA, formats.PROTOBUF)
PLACE: Final = {
    "type": "object",
    "required": ["topic", "partition"],
    "properties": {"topic": {"type": "string"}, "partition": {"type": "integer"}},
}
ERRORS: Final = (40101, 40301, 40401, 40402, 40002, 50002, 50003, 429)


def is_v1(call: Call) -> bool:
    """Whether the request speaks v1: by what it sends, else by what it wants."""
    return any(".v1+json" in call.request.headers.get(name, "") or "kafka.v1+json" in call.request.headers.get(name, "")
        for name in ("content-type", "accept"))  # fmt: skip


def answer_type(call: Call) -> str:
    return accepted(call.request.headers.get("accept"), call.endpoint.produces or CONTROL) or V2


async def body_of(call: Call, *, needed: bool = True) -> dict[str, Any]:
    if not await call.body():
        if needed:
            raise ApiError(422, "The request body is missing: a JSON object is expected")
        return {}
    found = await call.json()
    if found is None and not needed:
        return {}
    if not isinstance(found, dict):
        raise ApiError(422, "The request body is not a JSON object")
    return found


def places_of(body: dict[str, Any], name: str = "partitions") -> list[dict[str, Any]]:
    """Objects with `topic` and `partition`."""
    found = list_of(body, name)
    for each in found:
        if not isinstance(each, dict) or not text_of(each, "topic"):
            raise ApiError(422, f"{name}: each needs `topic` and `partition`")
        partition = number_of(each, "partition", needed=True)
        if partition is None or partition < 0:
            raise ApiError(422, f"{name}: partition {partition} must be greater than or equal to 0")
    return found


def partition_number(given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > 10 or int(given) >= 1 << 31:
        raise errors.partition_not_found()
    return int(given)
