"""What JSON without a schema amounts to, record by record, in Spark's terms.

Whole numbers are `bigint`, or decimals beyond its range; fractions are doubles, as in Kafka Connect. A list stays
`variant`: what is in it keeps its own types, and no transform looks into it.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from moldau.connect.schemas import SchemaRefused

LONG_DIGITS: Final = 18
LARGE: Final = DecimalType(38, 0)
KINDS: Final[dict[str, DataType]] = {
    "VOID": NullType(),
    "BIGINT": LongType(),
    "DOUBLE": DoubleType(),
    "FLOAT": DoubleType(),
    "BOOLEAN": BooleanType(),
    "STRING": StringType(),
    "VARIANT": VariantType(),
}
FRACTION: Final = r"DECIMAL\(\d+,[1-9]\d*\)|DECIMAL\(1?\d,0\)"
PLAIN_LIST: Final = r"ARRAY<[^<>]*>"
TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|[A-Za-z0-9_]+(?:\(\d+,\d+\))?|[<>:,]|\s+")


def shape_text(variant: Column) -> Column:
    """As Spark describes it. Numbers of many lengths and lists make many shapes of one: those are put together here,
    unless a field's name (in backticks, if it is no plain one) could be taken for them."""
    described = F.schema_of_variant(variant)
    alike = F.regexp_replace(F.regexp_replace(described, FRACTION, "DOUBLE"), PLAIN_LIST, "VARIANT")
    return F.when(F.contains(described, F.lit("`")), described).otherwise(alike)


def variant_kind(described: str) -> DataType:
    tokens = [token for token in TOKEN.findall(described) if not token.isspace()]
    if "".join(tokens) != re.sub(r"(`(?:[^`]|``)*`)|\s+", lambda found: found.group(1) or "", described):
        raise SchemaRefused(f"{described} is no description of a value")
    kind, end = kind_at(tokens, 0)
    if end != len(tokens):
        raise SchemaRefused(f"{described} is no description of a value")
    return kind


def kind_at(tokens: list[str], at: int) -> tuple[DataType, int]:
    """And the place behind it."""
    token = tokens[at]
    if token == "ARRAY":
        return VariantType(), kind_at(tokens, at + 2)[1] + 1
    if token == "OBJECT":
        fields, at = [], at + 2
        while tokens[at] != ">":
            at += tokens[at] == ","
            name = tokens[at]
            plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
            kind, at = kind_at(tokens, at + 2)
            fields.append(StructField(plain, kind))
        return StructType(fields), at + 1
    if token.startswith("DECIMAL("):
        digits, scale = map(int, token[len("DECIMAL(") : -1].split(","))
        return (LARGE if scale == 0 and digits > LONG_DIGITS else DoubleType()), at + 1
    return KINDS[token], at + 1


def ddl(kind: DataType) -> str:
    """In Spark's notation, whatever the names of the fields."""
    if isinstance(kind, StructType):
        fields = ", ".join(f"`{field.name.replace('`', '``')}`: {ddl(field.dataType)}" for field in kind)
        return f"struct<{fields}>"
    return kind.simpleString()
