"""Whether every document that one JSON Schema allows is allowed by another, keyword by keyword.

The rules, the names of differences and how open and closed content models count are those of Confluent's registry.
Where it cannot be known it is refused: a changed pattern, a combination that finds no partner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from moldau.schemas import json_content
from moldau.schemas.json_pieces import (
    ARRAY,
    COMBINED,
    CONST,
    EMPTY,
    ENUM,
    FALSE,
    NOT,
    NUMBER,
    OBJECT,
    STRING,
    Piece,
    Scope,
)
from moldau.schemas.json_schema import JsonSchema
from moldau.schemas.json_texts import COMPATIBLE, LENIENT, told
from moldau.schemas.model import Difference

BOUNDS: Final = {
    STRING: (("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH")),
    NUMBER: (
        ("maximum", "MAXIMUM"),
        ("minimum", "MINIMUM"),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ),
    OBJECT: (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")),
    ARRAY: (
        ("maxItems", "MAX_ITEMS"),
        ("minItems", "MIN_ITEMS"),
        ("maxContains", "MAX_CONTAINS"),
        ("minContains", "MIN_CONTAINS"),
    ),
}


def json_differences(reader: JsonSchema, writer: JsonSchema, *, lenient: bool = False) -> list[Difference]:
    """What makes the reader refuse documents of the writer."""
    walk = Walk(LENIENT if lenient else COMPATIBLE)
    original = Scope.of(writer).piece(writer.content)
    update = Scope.of(reader).piece(reader.content)
    walk.compare(original, update)
    return [told(kind, path) for kind, path in walk.found if kind not in walk.allowed]


class Walk:
    """Differences from the original (the writer's) to the update (the reader's)."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.found: list[tuple[str, str]] = []
        self._path: list[str] = []
        self._agreed: dict[tuple[Any, Any], None] = {}

    # -- places ------------------------------------------------------------------------------------------------------

    @contextmanager
    def at(self, *names: str) -> Iterator[None]:
        self._path += names
        try:
            yield
        finally:
            del self._path[-len(names) :]

    def add(self, kind: str, *names: str) -> None:
        self.found.append((kind, "#/" + "/".join([*self._path, *names])))

    def tried(self, original: Piece, update: Piece) -> tuple[bool, list[tuple[str, str]]]:
        """Whether the update takes the original, and what was found on the way, which is not kept."""
        before = len(self.found)
        self.compare(original, update)
        fresh = self.found[before:]
        del self.found[before:]
        return all(kind in self.allowed for kind, _ in fresh), fresh

    # -- pieces ------------------------------------------------------------------------------------------------------

    def compare(self, original: Piece, update: Piece) -> None:
        pair = (original.key, update.key)
        if pair in self._agreed:
            return
        known, begun = len(self._agreed), len(self.found)
        self._agreed[pair] = None
        self._compare(original, update)
        if any(kind not in self.allowed for kind, _ in self.found[begun:]):
            while len(self._agreed) > known:
                self._agreed.popitem()

    def _compare(self, original: Piece, update: Piece) -> None:
        if original.kind != COMBINED and update.kind == COMBINED and self._taken_by_one(original, update):
            return
        if original.kind == COMBINED and update.kind != COMBINED and self._one_is_taken(original, update):
            return
        if original.kind != update.kind:
            if original.kind != FALSE and update.kind != EMPTY:
                self.add("TYPE_CHANGED")
            return
        self._bounds(original, update)
        match original.kind:
            case "string":
                self._pattern(original, update)
            case "number":
                self._number(original, update)
            case "enum":
                self._enum(original.get(ENUM), update.get(ENUM))
            case "const":
                if original.get(CONST) != update.get(CONST):
                    self.add("CONST_CHANGED", CONST)
            case "not":
                self._not(original, update)
            case "combined":
                self._combined(original, update)
            case "object":
                json_content.compare_objects(self, original, update)
            case "array":
                json_content.compare_arrays(self, original, update)

    def _taken_by_one(self, original: Piece, update: Piece) -> bool:
        if len(update.parts) > 1 and update.criterion == "allOf":
            return False
        for part in update.parts:
            good, found = self.tried(original, part)
            if good:
                self.found += found
                if len(update.parts) > 1:
                    self.add("SUM_TYPE_EXTENDED")
                return True
        return False

    def _one_is_taken(self, original: Piece, update: Piece) -> bool:
        if len(original.parts) > 1 and original.criterion != "allOf":
            return False
        for part in original.parts:
            good, found = self.tried(part, update)
            if good:
                self.found += found
                if len(original.parts) > 1:
                    self.add("PRODUCT_TYPE_NARROWED")
                return True
        return False

    def _bounds(self, original: Piece, update: Piece) -> None:
        for keyword, name in BOUNDS.get(original.kind, ()):
            before, after = numeric(original.get(keyword)), numeric(update.get(keyword))
            if before == after:
                continue
            if before is None or after is None:
                self.add(f"{name}_{'ADDED' if before is None else 'REMOVED'}", keyword)
            else:
                self.add(f"{name}_{'INCREASED' if before < after else 'DECREASED'}", keyword)

    def _pattern(self, original: Piece, update: Piece) -> None:
        before, after = original.get("pattern"), update.get("pattern")
        if before != after:
            self.add(f"PATTERN_{'ADDED' if before is None else 'REMOVED' if after is None else 'CHANGED'}", "pattern")

    def _number(self, original: Piece, update: Piece) -> None:
        before, after = original.get("multipleOf"), update.get("multipleOf")
        if before != after:
            if before is None or after is None:
                change = "ADDED" if before is None else "REMOVED"
            elif is_multiple(after, before):
                change = "EXPANDED"
            else:
                change = "REDUCED" if is_multiple(before, after) else "CHANGED"
            self.add(f"MULTIPLE_OF_{change}", "multipleOf")
        if original.criterion != update.criterion:
            self.add("TYPE_EXTENDED" if original.criterion else "TYPE_NARROWED")

    def _enum(self, before: list[Any], after: list[Any]) -> None:
        gone = any(each not in after for each in before)
        fresh = any(each not in before for each in after)
        if gone or fresh:
            self.add(f"ENUM_ARRAY_{'CHANGED' if gone and fresh else 'NARROWED' if gone else 'EXTENDED'}", ENUM)

    def _not(self, original: Piece, update: Piece) -> None:
        with self.at(NOT):
            good, _ = self.tried(update.inner(update.get(NOT)), original.inner(original.get(NOT)))
            self.add("NOT_TYPE_NARROWED" if good else "NOT_TYPE_EXTENDED")

    def _combined(self, original: Piece, update: Piece) -> None:
        if original.criterion != update.criterion:
            one_before, one_after = len(original.parts) == 1, len(update.parts) == 1
            extended = (
                update.criterion == "anyOf"
                or (one_before and one_after)
                or (one_before and update.criterion == "oneOf")
                or (one_after and original.criterion == "allOf")
            )
            self.add("COMBINED_TYPE_EXTENDED" if extended else "COMBINED_TYPE_CHANGED")
            if not extended:
                return
        before, after = distinct(original.parts), distinct(update.parts)
        if len(before) < len(after):
            self.add("PRODUCT_TYPE_EXTENDED" if update.criterion == "allOf" else "SUM_TYPE_EXTENDED")
        elif len(before) > len(after):
            self.add("PRODUCT_TYPE_NARROWED" if original.criterion == "allOf" else "SUM_TYPE_NARROWED")
        edges: list[dict[int, list[tuple[str, str]]]] = []
        for i, part in enumerate(before):
            with self.at(original.criterion, str(i)):
                tries = [(j, *self.tried(part, other)) for j, other in enumerate(after)]
                edges.append({j: found for j, good, found in tries if good})
        partners = matching([list(each) for each in edges], len(after))
        for j, i in partners.items():
            self.found += edges[i][j]
        if len(partners) < min(len(before), len(after)):
            self.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def distinct(parts: tuple[Piece, ...]) -> list[Piece]:
    found: list[Piece] = []
    for part in parts:
        if not any(same(part, other) for other in found):
            found.append(part)
    return found


def same(left: Piece, right: Piece) -> bool:
    return left.kind == right.kind and left.criterion == right.criterion and left.content == right.content


def matching(edges: list[list[int]], size: int) -> dict[int, int]:
    """The largest set of pairs, each left and each right at most once: right by left."""
    partner: dict[int, int] = {}

    def find(left: int, seen: set[int]) -> bool:
        for right in edges[left]:
            if right not in seen:
                seen.add(right)
                if right not in partner or find(partner[right], seen):
                    partner[right] = left
                    return True
        return False

    for left in range(len(edges)):
        find(left, set())
    return partner


def numeric(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_multiple(value: Any, of: Any) -> bool:
    from decimal import Decimal

    return bool(of) and Decimal(str(value)) % Decimal(str(of)) == 0
