"""What a record has of its own, out of the wider type that it was read and transformed in with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType, VariantVal

Reader = Callable[[Any], Any]


def reader_of(kind: DataType) -> Reader | None:
    """Takes the fields of this type out of a value, and variants for what they are. None: it is the value."""
    match kind:
        case VariantType():
            return from_variant
        case StructType():
            return struct_reader([(field.name, reader_of(field.dataType)) for field in kind])
        case ArrayType():
            element = reader_of(kind.elementType)
            return element and (lambda value: value and [element(each) for each in value])
        case MapType():
            inner = reader_of(kind.valueType)
            return inner and (lambda value: value and [(key, inner(each)) for key, each in value])
    return None


def struct_reader(fields: Sequence[tuple[str, Reader | None]]) -> Reader:
    def read(value: Any) -> Any:
        if value is None:
            return None
        return {name: value[name] if own is None else own(value[name]) for name, own in fields}

    return read


def from_variant(value: Any) -> Any:
    return None if value is None else plain(VariantVal(value["value"], value["metadata"]).toPython())


def plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case Decimal():
            return value if value.as_tuple().exponent == 0 else float(value)
    return value
