"""Requests from plain data and answers to plain data, through kio's schemas of every version.

A scenario writes the union of all versions' fields under kio's names (`max_wait`, not `max_wait_ms`); what a version
does not have is left out, what is not given takes the schema's default or zero. Times are milliseconds, enums are
names, bytes stay bytes.
"""

import csv
import datetime
import functools
import io
import types
import typing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from tests.conformance.hand_decoded import HAND_DECODED

Plain = Any
_VERSION_TABLE: Final = Path(__file__).parent / "data" / "api_versions.tsv"
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


class Api(NamedTuple):
    key: int
    name: str
    lowest: int
    highest: int

    @property
    def versions(self) -> range:
        return range(self.lowest, self.highest + 1)


@functools.cache
def announced_apis() -> Mapping[str, Api]:
    """What Apache Kafka 4.3 announces on its broker listener."""
    with _VERSION_TABLE.open() as table:
        rows = csv.DictReader(table, delimiter="\t")
        return {row["name"]: Api(int(row["key"]), row["name"], int(row["min"]), int(row["max"])) for row in rows}


def api(name: str) -> Api:
    return announced_apis()[name]


def is_flexible(name: str, version: int) -> bool:
    """Whether header and body carry tagged fields; a version without a schema is taken as its nearest neighbour."""
    known = schema_name_map[name]
    nearest = min(max(version, min(known)), max(known))
    return bool(load_request_schema(api(name).key, nearest).__flexible__)


def encode_request(name: str, version: int, content: Mapping[str, Plain]) -> bytes:
    key = api(name).key
    unknown = set(_paths_of_content(content)) - _paths_of_any_version(name)
    if unknown:
        raise ValueError(f"no version of {name} has {sorted(unknown)}")
    schema = load_request_schema(key, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, _build(schema, content))
    return buffer.getvalue()


def decode_response(name: str, version: int, body: bytes) -> Plain:
    if name in HAND_DECODED:
        return HAND_DECODED[name](body, version)
    schema = load_response_schema(api(name).key, version)
    entity, size = entity_reader(schema)(body, 0)
    plain = _plain(entity)
    if size != len(body):
        plain["bytes after the answer"] = len(body) - size
    return plain


@functools.cache
def _paths_of_any_version(name: str) -> frozenset[str]:
    schemas = (load_request_schema(api(name).key, version) for version in schema_name_map[name])
    return frozenset(path for schema in schemas for path in _paths_of_schema(schema))


def _paths_of_schema(schema: Any, prefix: str = "") -> Iterator[str]:
    for field in fields(schema):
        yield prefix + field.name
        inner = _without_none(field.type)
        item = typing.get_args(inner)[0] if typing.get_origin(inner) is tuple else inner
        if is_dataclass(item):
            yield from _paths_of_schema(item, f"{prefix}{field.name}.")


def _paths_of_content(content: Mapping[str, Plain], prefix: str = "") -> Iterator[str]:
    for key, value in content.items():
        yield prefix + key
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Mapping):
                yield from _paths_of_content(item, f"{prefix}{key}.")


def _build(schema: type, content: Mapping[str, Plain]) -> Any:
    return schema(**{field.name: _value(field, content) for field in fields(schema)})


def _value(field: "Field[Any]", content: Mapping[str, Plain]) -> Any:
    if field.name in content:
        return _converted(field.type, content[field.name])
    if field.default is not MISSING:
        return field.default
    return _zero(field.type)


def _converted(kind: Any, value: Plain) -> Any:
    if value is None:
        return None
    inner = _without_none(kind)
    if typing.get_origin(inner) is tuple:
        item = typing.get_args(inner)[0]
        return tuple(_converted(item, element) for element in value)
    if is_dataclass(inner):
        return _build(typing.cast(type, inner), value)
    if isinstance(inner, type) and issubclass(inner, datetime.timedelta):
        return value * _MILLISECOND
    return value


def _zero(kind: Any) -> Any:
    inner = _without_none(kind)
    if typing.get_origin(inner) is tuple:
        return ()
    if inner is not kind:
        return None
    for base, zero in ((bool, False), (int, 0), (str, ""), (bytes, b""), (datetime.timedelta, 0 * _MILLISECOND)):
        if issubclass(inner, base):
            return zero
    if is_dataclass(inner):
        return _build(typing.cast(type, inner), {})
    raise TypeError(f"no zero for {kind}")


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        return next(option for option in typing.get_args(kind) if option is not types.NoneType)
    return kind


def _plain(value: Any) -> Plain:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.name.upper()
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, uuid.UUID):
        return str(value)
    return value


def walk(plain: Plain) -> Iterator[dict[str, Plain]]:
    """Every mapping inside an answer, outer ones first."""
    if isinstance(plain, dict):
        yield plain
        for value in plain.values():
            yield from walk(value)
    elif isinstance(plain, Sequence) and not isinstance(plain, str | bytes):
        for item in plain:
            yield from walk(item)
