"""Frames and headers around Kafka messages.

A frame is int32 size + that many bytes. A request starts with api key int16, version int16, correlation id int32,
client id (nullable legacy string, also in flexible versions), then, in flexible versions, tagged fields. A response
starts with the correlation id, then tagged fields in flexible versions, except ApiVersions, whose answer must be
readable before the client knows the broker's versions.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from moldau.wire.apis import ApiKey
from moldau.wire.primitives import DecodeError, read_string, skip_tagged
from moldau.wire.schema import Buffer

FIXED_HEADER = Struct(">hhi")
SIZE = Struct(">i")
SIZE_AND_CORRELATION = Struct(">ii")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int
    """Where the body starts in the frame, before the header's tagged fields if it has any."""


def read_request_header(frame: Buffer) -> RequestHeader:
    try:
        key, version, correlation_id = FIXED_HEADER.unpack_from(frame, 0)
        client_id, position = read_string(frame, FIXED_HEADER.size, "client_id")
    except StructError as error:
        raise DecodeError("request header: the data ends too early") from error
    return RequestHeader(key, version, correlation_id, client_id, position)


def skip_header_tags(frame: Buffer, position: int) -> int:
    try:
        return skip_tagged(frame, position)
    except IndexError as error:
        raise DecodeError("request header: the data ends too early") from error


def response_has_tags(api_key: int, flexible: bool) -> bool:
    return flexible and api_key != ApiKey.API_VERSIONS


def frame_response(correlation_id: int, header_tags: bool, body: bytes) -> bytes:
    if header_tags:
        return SIZE_AND_CORRELATION.pack(len(body) + 5, correlation_id) + b"\x00" + body
    return SIZE_AND_CORRELATION.pack(len(body) + 4, correlation_id) + body
