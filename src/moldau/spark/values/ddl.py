"""A schema as text, without a JVM: Spark's DDL (`id BIGINT, tags ARRAY<STRING>`) and its JSON form.

    schema   field {"," field} | type | JSON
    field    name [":"] type ["NOT NULL"] ["COMMENT" 'text']        in a struct and at the top alike
    name     letters, digits, underscores, or anything between backticks (`` stands for one)
    type     a word, perhaps with numbers: DECIMAL(10, 2), VARCHAR(20); ARRAY<type>; MAP<type, type>; STRUCT<fields>

PySpark's own `fromDDL` asks a running session; planners and executors have none.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
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
    TimestampNTZType,
    TimestampType,
    _parse_datatype_json_string,
)

PLAIN: Final[dict[str, type[DataType]]] = {
    "boolean": BooleanType,
    "tinyint": ByteType, "byte": ByteType,
    "smallint": ShortType, "short": ShortType,
    "int": IntegerType, "integer": IntegerType,
    "bigint": LongType, "long": LongType,
    "float": FloatType, "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType, "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}  # fmt: skip
DECIMALS: Final = ("decimal", "dec", "numeric")
TEXTS: Final = ("varchar", "char", "character")
TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|(\w+)|([<>(),:]))")


class SchemaError(ValueError):
    """A schema that cannot be read; the message says where."""


def parse_type(text: str) -> DataType:
    """Fields, which make a struct, or one type alone."""
    stripped = text.strip()
    if stripped.startswith(("{", '"')):
        return parse_json(stripped)
    if is_one_type(stripped):
        return Parser(stripped).type()
    parser = Parser(stripped)
    found = parser.fields("")
    parser.end()
    return found


def is_one_type(text: str) -> bool:
    try:
        parser = Parser(text)
        parser.type()
        parser.end()
    except SchemaError:
        return False
    return True


def parse_json(text: str) -> DataType:
    try:
        return _parse_datatype_json_string(text)
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise SchemaError(f"this is not the JSON of a Spark schema: {error}") from None


class Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        self._next = 0
        place = 0
        while place < len(text.rstrip()):
            found = TOKEN.match(text, place)
            if found is None:
                raise SchemaError(f"cannot read {text[place : place + 20]!r}")
            self._tokens.append((found.group().strip(), found.start()))
            place = found.end()

    def peek(self, ahead: int = 0) -> str:
        place = self._next + ahead
        return self._tokens[place][0] if place < len(self._tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token.lower() != expected):
            wanted = repr(expected) if expected else "more"
            raise SchemaError(f"{wanted} is expected {self._place()}")
        self._next += 1
        return token

    def end(self) -> None:
        if self.peek():
            raise SchemaError(f"nothing more is expected {self._place()}")

    def _place(self) -> str:
        if self._next < len(self._tokens):
            return f"at {self._text[self._tokens[self._next][1] :].strip()[:20]!r}"
        return f"at the end of {self._text[-20:]!r}"

    def fields(self, closing: str) -> StructType:
        found = StructType([])
        while self.peek() != closing or not found.fields:
            if found.fields:
                self.take(",")
            found.add(self.field())
            if not closing and not self.peek():
                break
        names = [field.name for field in found]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise SchemaError(f"the field {doubled[0]!r} is there twice")
        return found

    def field(self) -> StructField:
        name = self.take()
        if name[0] == "`":
            name = name[1:-1].replace("``", "`")
        elif not re.fullmatch(r"\w+", name):
            raise SchemaError(f"{name!r} is no name of a field; write it between backticks")
        if self.peek() == ":":
            self.take()
        kind = self.type()
        nullable = True
        if self.peek().lower() == "not":
            self.take()
            self.take("null")
            nullable = False
        if self.peek().lower() == "comment":
            self.take()
            self.take()
        return StructField(name, kind, nullable)

    def type(self) -> DataType:
        name = self.take().lower()
        if name in PLAIN:
            return PLAIN[name]()
        if name in DECIMALS:
            return DecimalType(*self._decimal()) if self.peek() == "(" else DecimalType(10, 0)
        if name in TEXTS:
            self.numbers()
            return StringType()
        if name in ("array", "map", "struct"):
            return self.nested(name)
        raise SchemaError(f"{name!r} is no type that can be read; there are {', '.join(sorted(PLAIN))}, decimal, …")

    def nested(self, name: str) -> DataType:
        self.take("<")
        found: DataType
        if name == "array":
            found = ArrayType(self.type())
        elif name == "map":
            key = self.type()
            self.take(",")
            found = MapType(key, self.type())
        else:
            found = self.fields(">")
        self.take(">")
        return found

    def _decimal(self) -> tuple[int, int]:
        numbers = self.numbers()
        if not 1 <= len(numbers) <= 2 or not 1 <= numbers[0] <= 38 or (len(numbers) == 2 and numbers[1] > numbers[0]):
            raise SchemaError("a decimal has at most 38 digits, of which not more than all follow the point")
        return numbers[0], numbers[1] if len(numbers) == 2 else 0

    def numbers(self) -> list[int]:
        found: list[int] = []
        if self.peek() != "(":
            return found
        self.take()
        while self.peek() != ")":
            if found:
                self.take(",")
            token = self.take()
            if not token.isdigit():
                raise SchemaError(f"{token!r} is no number")
            found.append(int(token))
        self.take()
        return found
