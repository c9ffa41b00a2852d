"""Protobuf's messages and Spark's types, both ways, as Spark's own Protobuf module maps them.

    Protobuf                                    Spark
    int32, sint32, sfixed32                     INT
    int64, sint64, sfixed64, uint32, fixed32    BIGINT
    uint64, fixed64                             DECIMAL(20, 0)
    float, double, bool, string, bytes          FLOAT, DOUBLE, BOOLEAN, STRING, BINARY
    enum                                        STRING: the name; the number of one that the schema does not know
    message, repeated, map                      STRUCT, ARRAY, MAP
    google.protobuf.Timestamp, Duration         TIMESTAMP, INTERVAL DAY TO SECOND

Unlike Spark's module, no number overflows: it reads uint32 as INT. Messages that contain themselves are refused.
For writing without a schema, a message is made of the column's type: fields are numbered in order, and each may be
absent, which stands for null. DECIMAL, DATE and TIMESTAMP_NTZ have no counterpart then.
"""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.spark.values.ddl import SchemaError

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
INTERVAL: Final = DayTimeIntervalType(DayTimeIntervalType.DAY, DayTimeIntervalType.SECOND)
WIDE: Final = DecimalType(20, 0)
Field = FieldDescriptor
READ: Final[dict[int, DataType]] = {
    **dict.fromkeys([Field.TYPE_INT32, Field.TYPE_SINT32, Field.TYPE_SFIXED32], IntegerType()),
    **dict.fromkeys([Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64], LongType()),
    **dict.fromkeys([Field.TYPE_UINT32, Field.TYPE_FIXED32], LongType()),
    **dict.fromkeys([Field.TYPE_UINT64, Field.TYPE_FIXED64], WIDE),
    Field.TYPE_FLOAT: FloatType(),
    Field.TYPE_DOUBLE: DoubleType(),
    Field.TYPE_BOOL: BooleanType(),
    Field.TYPE_STRING: StringType(),
    Field.TYPE_BYTES: BinaryType(),
    Field.TYPE_ENUM: StringType(),
}
Kind = FieldDescriptorProto
WRITTEN: Final[tuple[tuple[type[DataType], Any], ...]] = (
    (BooleanType, Kind.TYPE_BOOL),
    (ByteType, Kind.TYPE_INT32),
    (ShortType, Kind.TYPE_INT32),
    (IntegerType, Kind.TYPE_INT32),
    (LongType, Kind.TYPE_INT64),
    (FloatType, Kind.TYPE_FLOAT),
    (DoubleType, Kind.TYPE_DOUBLE),
    (StringType, Kind.TYPE_STRING),
    (BinaryType, Kind.TYPE_BYTES),
)
NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def spark_type(message: Any, within: tuple[str, ...] = ()) -> StructType:
    """Of a message's descriptor; every field may be null."""
    if message.full_name in within:
        raise SchemaError(f"the message {message.full_name} contains itself, which Spark cannot hold")
    inside = (*within, message.full_name)
    return StructType([StructField(field.name, field_type(field, inside)) for field in message.fields])


def field_type(field: Any, within: tuple[str, ...]) -> DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return MapType(single_type(key, within), single_type(value, within))
    single = single_type(field, within)
    return ArrayType(single) if field.is_repeated else single


def single_type(field: Any, within: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return READ[field.type]
    if field.message_type.full_name == TIMESTAMP:
        return TimestampType()
    if field.message_type.full_name == DURATION:
        return INTERVAL
    return spark_type(field.message_type, within)


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# -- for writing -------------------------------------------------------------------------------------------------------


def file_for(kind: StructType, name: str) -> FileDescriptorProto:
    """A file with one message, made of a column's type."""
    file = FileDescriptorProto(name="default.proto", syntax="proto3")
    fill_message(file.message_type.add(name=name), kind, f".{name}")
    imported = {field.type_name.lstrip(".") for field in all_fields(file.message_type[0])} & {TIMESTAMP, DURATION}
    file.dependency.extend(sorted(f"google/protobuf/{each.rpartition('.')[2].lower()}.proto" for each in imported))
    return file


def all_fields(message: DescriptorProto) -> list[FieldDescriptorProto]:
    return [*message.field, *(field for nested in message.nested_type for field in all_fields(nested))]


def fill_message(message: DescriptorProto, kind: StructType, path: str) -> None:
    for number, field in enumerate(kind, 1):
        if not NAME.fullmatch(field.name):
            raise SchemaError(f"{field.name!r} cannot be the name of a Protobuf field")
        add_field(message, field.name, number, field.dataType, path)
    present = [field for field in message.field if field.proto3_optional]
    for field in present:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def add_field(message: DescriptorProto, name: str, number: int, kind: DataType, path: str) -> None:
    if isinstance(kind, ArrayType):
        field = message.field.add(name=name, number=number, label=Kind.LABEL_REPEATED)
        set_type(message, field, kind.elementType, path, name)
        return
    if isinstance(kind, MapType):
        entry = DescriptorProto(name=f"{camel_case(name)}Entry")
        entry.options.map_entry = True
        for place, (inner, part) in enumerate((("key", kind.keyType), ("value", kind.valueType)), 1):
            set_type(message, entry.field.add(name=inner, number=place, label=Kind.LABEL_OPTIONAL), part, path, name)
        message.nested_type.add().CopyFrom(entry)
        message.field.add(
            name=name,
            number=number,
            label=Kind.LABEL_REPEATED,
            type=Kind.TYPE_MESSAGE,
            type_name=f"{path}.{entry.name}",
        )
        return
    field = message.field.add(name=name, number=number, label=Kind.LABEL_OPTIONAL)
    set_type(message, field, kind, path, name)
    if field.type != Kind.TYPE_MESSAGE:
        field.proto3_optional = True


def set_type(message: DescriptorProto, field: FieldDescriptorProto, kind: DataType, path: str, name: str) -> None:
    """`message`, at `path`, holds what the field, a part of its field `name`, needs."""
    if isinstance(kind, StructType):
        nested = f"{camel_case(name)}Message"
        fill_message(message.nested_type.add(name=nested), kind, f"{path}.{nested}")
        field.type, field.type_name = Kind.TYPE_MESSAGE, f"{path}.{nested}"
        return
    if isinstance(kind, TimestampType | DayTimeIntervalType):
        named = TIMESTAMP if isinstance(kind, TimestampType) else DURATION
        field.type, field.type_name = Kind.TYPE_MESSAGE, f".{named}"
        return
    for spark, protobuf in WRITTEN:
        if isinstance(kind, spark):
            field.type = protobuf
            return
    raise SchemaError(
        f"{name}: {kind.simpleString()} has no counterpart in Protobuf; cast it, to STRING for example, or give "
        "a schema"
    )


def camel_case(name: str) -> str:
    """As protoc names the entries of maps."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
