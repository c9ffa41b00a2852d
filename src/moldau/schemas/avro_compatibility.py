"""Whether data written with one Avro schema can be read with another, by the rules of Avro's schema resolution.

Paths, types of differences and their texts are those of Java's library and Confluent's registry.
"""

from __future__ import annotations

from typing import Final

from moldau.schemas.avro import PRIMITIVES, AvroSchema, Field, Node
from moldau.schemas.model import READER, WRITER, Difference

PROMOTED: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}


def avro_differences(reader: AvroSchema, writer: AvroSchema) -> list[Difference]:
    return Comparison().compare(reader.root, writer.root, "")


class Comparison:
    def __init__(self) -> None:
        self._agreed: dict[tuple[int, int], None] = {}
        """Pairs that are compatible, or under way and taken to be: a recursive type meets itself."""

    def compare(self, reader: Node, writer: Node, at: str) -> list[Difference]:
        reader, writer = reader.target, writer.target
        pair = (id(reader), id(writer))
        if pair in self._agreed:
            return []
        before = len(self._agreed)
        self._agreed[pair] = None
        found = self._same(reader, writer, at) if reader.kind == writer.kind else self._other(reader, writer, at)
        if found:
            while len(self._agreed) > before:  # what was agreed on the way may have relied on this pair
                self._agreed.popitem()
        return found

    def _same(self, reader: Node, writer: Node, at: str) -> list[Difference]:
        kind = reader.kind
        if kind in PRIMITIVES:
            return []
        if kind in ("array", "map"):
            return self.compare(reader.parts[0], writer.parts[0], f"{at}/{'items' if kind == 'array' else 'values'}")
        if kind == "union":
            return [each for i, branch in enumerate(writer.parts) for each in self._branch(reader, branch, f"{at}/{i}")]
        found = name_difference(reader, writer, at)
        if kind == "fixed" and reader.size != writer.size:
            found.append(fixed_size(reader, writer, f"{at}/size"))
        if kind == "enum":
            found += symbol_difference(reader, writer, f"{at}/symbols")
        if kind in ("record", "error"):
            for i, field in enumerate(reader.fields):
                found += self._field(field, writer, f"{at}/fields/{i}")
        return found

    def _branch(self, reader: Node, branch: Node, at: str) -> list[Difference]:
        if self.compare(reader, branch, at):
            return [missing_branch(branch, at)]
        return []

    def _field(self, field: Field, writer: Node, at: str) -> list[Difference]:
        names = (field.name, *field.aliases)
        match = next((each for name in names for each in writer.fields if each.name == name), None)
        if match is not None:
            return self.compare(field.type, match.type, f"{at}/type")
        target = field.type.target
        if field.has_default or (target.kind == "enum" and target.default is not None):
            return []
        text = (
            f"The field '{field.name}' at path '{at}' in the {READER} schema has no default value "
            f"and is missing in the {WRITER} schema"
        )
        return [Difference("READER_FIELD_MISSING_DEFAULT_VALUE", at, text, field.name)]

    def _other(self, reader: Node, writer: Node, at: str) -> list[Difference]:
        if writer.kind == "union":
            return [each for branch in writer.parts for each in self.compare(reader, branch, at)]
        if reader.kind == "union":
            if any(not self.compare(branch, writer, at) for branch in reader.parts):
                return []
            return [missing_branch(writer, at or "/")]
        if writer.kind in PROMOTED.get(reader.kind, ()):
            return []
        info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        text = (
            f"The type (path '{at or '/'}') of a field in the {READER} schema does not match with the {WRITER} schema"
        )
        return [Difference("TYPE_MISMATCH", at or "/", text, info)]


def name_difference(reader: Node, writer: Node, at: str) -> list[Difference]:
    if reader.short == writer.short or writer.name in reader.aliases:
        return []
    path = f"{at}/name"
    text = f"The name of the schema has changed (path '{path}')"
    return [Difference("NAME_MISMATCH", path, text, f"expected: {writer.name}")]


def fixed_size(reader: Node, writer: Node, path: str) -> Difference:
    text = (
        f"The size of FIXED type field at path '{path}' in the {READER} schema does not match with the {WRITER} schema"
    )
    return Difference("FIXED_SIZE_MISMATCH", path, text, f"expected: {writer.size}, found: {reader.size}")


def symbol_difference(reader: Node, writer: Node, path: str) -> list[Difference]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if not missing or reader.default is not None:
        return []
    told = f"[{', '.join(missing)}]"
    text = f"The {READER} schema is missing enum symbols '{told}' at path '{path}' in the {WRITER} schema"
    return [Difference("MISSING_ENUM_SYMBOLS", path, text, told)]


def missing_branch(branch: Node, path: str) -> Difference:
    text = f"The {READER} schema is missing a type inside a union field at path '{path}' in the {WRITER} schema"
    info = f"reader union lacking writer type: {branch.target.kind.upper()}"
    return Difference("MISSING_UNION_BRANCH", path, text, info)
