"""Rows of Protobuf messages to an Arrow array of Spark's types, and rows to messages.

bare         the message of the schema that was given
registered   0x00, int32 id of the writer's schema, the path to its message, the message

A registered message is read with the schema that was settled when the query was planned, since fields are known by
their numbers; what the writer's schema decides is only which message it is. Fields without presence that a message
does not carry have their default (0, "", false), as Protobuf means them; others are null.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql.types import StructType

from moldau.schemas.descriptors import class_of, files_of, message_of, name_at
from moldau.schemas.framing import read_frame, read_indexes
from moldau.schemas.model import PROTOBUF, SchemaError
from moldau.spark.values.json_values import Errors
from moldau.spark.values.protobuf_types import DURATION, TIMESTAMP, Field, is_map
from moldau.spark.values.raw_types import arrow_type
from moldau.spark.values.registry import Known, Registry, RegistryError, SchemaRefused

MICROSECONDS: Final = 1_000_000
UNSIGNED: Final = (Field.TYPE_UINT64, Field.TYPE_FIXED64)
Get = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]


def packed(files: list[Any]) -> str:
    """Descriptors as a text that travels to the executors."""
    return base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()


def unpacked(text: str) -> list[Any]:
    return list(FileDescriptorSet.FromString(base64.b64decode(text)).file)


class ProtobufDecoder:
    def __init__(
        self,
        schema: str,
        name: str,
        kind: StructType,
        registry: Registry | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._message = class_of(message_of(unpacked(schema), name))
        self._name = name
        self._kind = kind
        self._registry = registry
        self._get = message_getter(self._message.DESCRIPTOR)
        self._files = Known(self._asked, monotonic)

    def decode(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        rows: list[Any] = []
        errors: Errors = {}
        for row, data in enumerate(column.to_pylist()):
            try:
                rows.append(None if data is None else self._read(data))
            except (SchemaRefused, ValueError) as error:
                errors[row] = str(error)
                rows.append(None)
            except RegistryError:
                raise
            except Exception as error:  # damaged bytes make protobuf fail in many ways
                errors[row] = f"it is no {self._name}: {error}"
                rows.append(None)
        return self._built(rows, errors), errors

    def _read(self, data: bytes) -> Any:
        begins = 0
        if self._registry is not None:
            frame = read_frame(data)
            indexes, begins = read_indexes(data, frame.begins)
            written = self._files.get((frame.schema, indexes))
            if written != self._name:
                raise ValueError(f"it is a {written}, not a {self._name}")
        return self._get(self._message.FromString(data[begins:]))

    def _asked(self, place: tuple[int | UUID, tuple[int, ...]]) -> str:
        """The name of the message that values with this schema and these indexes hold."""
        assert self._registry is not None
        schema, indexes = place
        found = self._registry.by_id(schema, PROTOBUF)
        try:
            return name_at(files_of(found.text, found.referred)[-1], indexes)
        except SchemaError as error:
            raise SchemaRefused(f"schema {schema} cannot be read: {error}") from None

    def _built(self, rows: list[Any], errors: Errors) -> pa.Array:
        target = arrow_type(self._kind)
        try:
            return pa.array(rows, target)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            parts = []
        for row, value in enumerate(rows):
            try:
                parts.append(pa.array([value], target))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                errors[row] = str(error)
                parts.append(pa.array([None], target))
        return pa.concat_arrays(parts)


def message_getter(descriptor: Any) -> Get:
    getters = [(field.name, field_getter(field)) for field in descriptor.fields]
    return lambda message: {name: get(message) for name, get in getters}


def field_getter(field: Any) -> Get:
    name, convert = field.name, None if is_map(field) else value_getter(field)
    if is_map(field):
        parts = field.message_type.fields_by_name
        key, value = value_getter(parts["key"]), value_getter(parts["value"])
        return lambda message: [(each(key, k), each(value, v)) for k, v in getattr(message, name).items()]
    if field.is_repeated:
        return lambda message: [each(convert, value) for value in getattr(message, name)]
    if field.has_presence:
        return lambda message: each(convert, getattr(message, name)) if message.HasField(name) else None
    return lambda message: each(convert, getattr(message, name))


def each(convert: Get | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def value_getter(field: Any) -> Get | None:
    """None where the value is what it should be already."""
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.type in UNSIGNED:
        return Decimal
    if field.message_type is None:
        return None
    if field.message_type.full_name in (TIMESTAMP, DURATION):
        return lambda value: value.seconds * MICROSECONDS + value.nanos // 1000
    return message_getter(field.message_type)


# -- writing -----------------------------------------------------------------------------------------------------------


def message_writer(descriptor: Any) -> Callable[[Any], bytes]:
    """Of rows as dicts; a null field is left out."""
    make = class_of(descriptor)
    fill = message_filler(descriptor)

    def write(row: Any) -> bytes:
        message = make()
        fill(message, row)
        return bytes(message.SerializeToString())

    return write


def message_filler(descriptor: Any) -> Fill:
    known = {field.name: field_filler(field) for field in descriptor.fields}

    def fill(message: Any, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name not in known:
                raise ValueError(f"the message {descriptor.full_name} has no field {name!r}")
            if value is not None:
                known[name](message, value)

    return fill


def field_filler(field: Any) -> Fill:
    name = field.name
    if is_map(field):
        return map_filler(name, field.message_type.fields_by_name["value"])
    if field.message_type is None:
        convert = plain_value(field)
        if field.is_repeated:
            return lambda message, items: getattr(message, name).extend([convert(item) for item in items])
        return lambda message, item: setattr(message, name, convert(item))
    put = single_filler(field)
    if not field.is_repeated:
        return lambda message, item: put(set_present(getattr(message, name)), item)

    def fill(message: Any, items: Any) -> None:
        target = getattr(message, name)
        for item in items:
            put(target.add(), item)

    return fill


def map_filler(name: str, value: Any) -> Fill:
    if value.message_type is None:
        convert = plain_value(value)
        return lambda message, items: getattr(message, name).update({k: convert(v) for k, v in items.items()})
    put = single_filler(value)

    def fill(message: Any, items: Any) -> None:
        target = getattr(message, name)
        for key, item in items.items():
            put(target[key], item)

    return fill


def set_present(message: Any) -> Any:
    """A message that stays empty is there nevertheless."""
    message.SetInParent()
    return message


def single_filler(field: Any) -> Fill:
    kind = field.message_type
    if kind.full_name == TIMESTAMP:
        return lambda message, value: message.FromDatetime(value)
    if kind.full_name == DURATION:
        return lambda message, value: message.FromTimedelta(value)
    return message_filler(kind)


def plain_value(field: Any) -> Get:
    if field.enum_type is not None:
        numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}

        def number(value: Any) -> int:
            if isinstance(value, str) and value in numbers:
                return int(numbers[value])
            raise ValueError(f"the enum {field.enum_type.full_name} has no {value!r}")

        return number
    return int if field.type in UNSIGNED else lambda value: value


def settled(text: str, referred: dict[str, str], name: str | None) -> tuple[list[Any], str]:
    """The files of a schema, and the message of them that is meant: the first, if it is not named."""
    files = files_of(text, referred)
    if name is None:
        if not files[-1].message_type:
            raise SchemaError("the schema has no message")
        name = name_at(files[-1], (0,))
    descriptor = message_of(files, name)
    if descriptor.file.name != files[-1].name:
        raise SchemaError(f"the message {name} is in {descriptor.file.name}, which the schema only imports")
    return files, name
