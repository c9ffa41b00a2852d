"""A JSON Schema as the comparison sees it: one piece of one kind; assertions side by side are an allOf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.json_schema import JsonSchema, dialect_of
from moldau.schemas.model import SchemaError

STRING, NUMBER, OBJECT, ARRAY = "string", "number", "object", "array"
EMPTY, FALSE, ENUM, CONST, NOT, COMBINED = "empty", "false", "enum", "const", "not", "combined"
KEYWORDS: Final = {
    STRING: ("maxLength", "minLength", "pattern"),
    NUMBER: ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
    OBJECT: (
        "properties", "required", "additionalProperties", "maxProperties", "minProperties", "dependencies",
        "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    ),
    ARRAY: (
        "items", "additionalItems", "prefixItems", "maxItems", "minItems", "uniqueItems", "contains", "maxContains",
        "minContains", "unevaluatedItems",
    ),
}  # fmt: skip
CRITERIA: Final = ("allOf", "anyOf", "oneOf")
BESIDE_REF: Final = frozenset(
    {"$id", "$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "$anchor"}
)
LONGEST_CHAIN: Final = 100


@dataclass(frozen=True, slots=True)
class Piece:
    kind: str
    content: Any
    scope: Scope
    criterion: str = ""
    parts: tuple[Piece, ...] = ()

    @property
    def key(self) -> tuple[str, int, str]:
        return (self.kind, id(self.content), self.criterion)

    def get(self, keyword: str) -> Any:
        return self.content.get(keyword) if isinstance(self.content, dict) else None

    def inner(self, content: Any) -> Piece:
        return self.scope.piece(content)


class Scope:
    """Where a `$ref` is looked up from."""

    def __init__(self, resolver: Any, modern: bool) -> None:
        self._resolver = resolver
        self._modern = modern

    @classmethod
    def of(cls, schema: JsonSchema) -> Scope:
        dialect = dialect_of(schema.content)
        return cls(schema.resolver(), "2019-09" in dialect or "2020-12" in dialect)

    def piece(self, content: Any) -> Piece:
        scope = self
        for _ in range(LONGEST_CHAIN):
            if not isinstance(content, dict) or not isinstance(content.get("$ref"), str):
                return (
                    Piece(EMPTY if content else FALSE, content, scope)
                    if isinstance(content, bool)
                    else scope._made(content)
                )
            beside = {key: value for key, value in content.items() if key != "$ref" and key not in BESIDE_REF}
            found = self._lookup(scope, content["$ref"])
            if self._modern and beside:
                referred = found[1].piece(found[0])
                return Piece(COMBINED, content, scope, "allOf", (referred, *scope._assertions(content)))
            content, scope = found
        raise SchemaError("a chain of $ref without an end")

    def _lookup(self, scope: Scope, target: str) -> tuple[Any, Scope]:
        from referencing.exceptions import Unresolvable

        try:
            found = scope._resolver.lookup(target)
        except Unresolvable:
            raise SchemaError(f"$ref {target!r} leads nowhere") from None
        return found.contents, Scope(found.resolver, self._modern)

    def _made(self, content: Any) -> Piece:
        found = tuple(self._assertions(content))
        if len(found) == 1:
            return found[0]
        return Piece(COMBINED, content, self, "allOf", found) if found else Piece(EMPTY, content, self)

    def _assertions(self, content: dict[str, Any]) -> Iterator[Piece]:
        kind = content.get("type")
        if isinstance(kind, list) and len(kind) > 1:
            yield Piece(COMBINED, content, self, "anyOf", tuple(self._typed(content, each) for each in kind))
        elif kind:
            yield self._typed(content, kind[0] if isinstance(kind, list) else kind)
        else:
            for name, keywords in KEYWORDS.items():
                if any(keyword in content for keyword in keywords):
                    yield Piece(name, content, self)
        for name in (ENUM, CONST, NOT):
            if name in content:
                yield Piece(name, content, self)
        for criterion in CRITERIA:
            if criterion in content:
                parts = tuple(self.piece(each) for each in content[criterion])
                yield Piece(COMBINED, content, self, criterion, parts)

    def _typed(self, content: dict[str, Any], name: str) -> Piece:
        return Piece(NUMBER if name == "integer" else name, content, self, "integer" if name == "integer" else "")
