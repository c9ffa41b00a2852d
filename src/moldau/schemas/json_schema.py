"""JSON Schema: read, checked, its references resolved. Nothing is fetched: what is not given is an error.

A reference is known by its name, which is the `$ref` that the schema uses, absolute or relative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urljoin

from moldau.schemas.model import SchemaError, compact, read_json

DEFAULT_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
MOST_PATTERNS: Final = 1000
LONGEST_PATTERN: Final = 2000
IN_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
IN_OBJECTS: Final = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
ALONE: Final = (
    "additionalProperties", "additionalItems", "contains", "else", "if", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip


class JsonSchema:
    def __init__(self, content: Any, referred: Mapping[str, Any]) -> None:
        self.content = content
        self.referred = referred

    @property
    def canonical(self) -> str:
        return compact(self.content)

    @property
    def normalized(self) -> str:
        return compact(self.content, sort=True)

    def formatted(self, form: str) -> str:
        return self.canonical

    def resolver(self) -> Any:
        """Of `referencing`, at the root."""
        return self.known().resolver_with_root(self._root())

    def _root(self) -> Any:
        from referencing import Resource
        from referencing.jsonschema import specification_with

        specification = specification_with(dialect_of(self.content))
        return Resource.from_contents(self.content, default_specification=specification)

    def known(self) -> Any:
        """The `referencing` registry of all that it refers to."""
        from referencing import Registry, Resource
        from referencing.jsonschema import specification_with

        root = self._root()
        base = root.id() or ""
        known = []
        for name, each in self.referred.items():
            own = Resource.from_contents(each, default_specification=specification_with(dialect_of(each)))
            known += [(name, own), (urljoin(base, name), own)]
        return Registry().with_resources([*known, (base, root)])


def parse_json_schema(text: str, referred: Mapping[str, str], *, check: bool = True) -> JsonSchema:
    """`referred`: the texts of what it refers to, by name."""
    content = read_json(text)
    schema = JsonSchema(content, {name: read_json(each) for name, each in referred.items()})
    if not isinstance(content, dict | bool):
        raise SchemaError("a JSON Schema is an object, true or false")
    if check:
        check_against_its_dialect(content)
        check_patterns(content)
        check_references(schema)
    return schema


def dialect_of(content: Any) -> str:
    named = content.get("$schema") if isinstance(content, dict) else None
    if named is None:
        return DEFAULT_DIALECT
    if not isinstance(named, str):
        raise SchemaError("$schema is no text")
    from referencing.jsonschema import specification_with

    try:
        specification_with(named)
    except Exception:
        raise SchemaError(f"$schema {named!r} is no dialect that is known") from None
    return named


def check_against_its_dialect(content: Any) -> None:
    """But for its patterns: those are ECMA's, and who reads values with the schema has to know them, not we."""
    from jsonschema import FormatChecker, validators
    from jsonschema import SchemaError as Refused

    cls = validators.validator_for({"$schema": dialect_of(content)}, default=validators.Draft7Validator)
    try:
        cls.check_schema(content, format_checker=FormatChecker(formats=()))
    except Refused as error:
        place = "#/" + "/".join(map(str, error.absolute_path))
        raise SchemaError(f"{place}: {error.message[:500]}") from None
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None


def check_patterns(content: Any) -> None:
    count = 0
    for node, place in sub_schemas(content):
        patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
        patterns += node.get("patternProperties") or {}
        for pattern in patterns:
            count += 1
            if count > MOST_PATTERNS or len(pattern) > LONGEST_PATTERN:
                raise SchemaError(f"{place}: too many patterns, or one longer than {LONGEST_PATTERN} characters")


def check_references(schema: JsonSchema) -> None:
    from referencing.exceptions import Unresolvable

    resolver = schema.resolver()
    for node, place in sub_schemas(schema.content):
        target = node.get("$ref")
        if isinstance(target, str):
            try:
                resolver.lookup(target)
            except Unresolvable:
                if not is_inside(schema.content, target):
                    raise SchemaError(f"{place}: $ref {target!r} leads nowhere; is a reference missing?") from None


def is_inside(content: Any, target: str) -> bool:
    """Below an `$id` of an inner schema the base is another one, which the walk does not follow."""
    return target.startswith("#") and any(node is not content and "$id" in node for node, _ in sub_schemas(content))


def sub_schemas(content: Any, place: str = "#") -> Iterator[tuple[dict[str, Any], str]]:
    if not isinstance(content, dict):
        return
    yield content, place
    for key in ALONE:
        yield from sub_schemas(content.get(key), f"{place}/{key}")
    items = content.get("items")
    yield from sub_schemas(items, f"{place}/items")
    lists = {**{key: content.get(key) for key in IN_LISTS}, "items": items}
    for key, each in lists.items():
        if isinstance(each, list):
            for i, inner in enumerate(each):
                yield from sub_schemas(inner, f"{place}/{key}/{i}")
    for key in (*IN_OBJECTS, "dependencies"):
        each = content.get(key)
        if isinstance(each, dict):
            for name, inner in each.items():
                yield from sub_schemas(inner, f"{place}/{key}/{name}")
