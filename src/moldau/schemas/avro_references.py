"""One Avro schema in one form: what it refers to is defined where its name is first used, and names are full ones, so
that a definition means the same in every place. What is no Avro schema stays as it is; somebody else will refuse it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
PARTS: Final = ("type", "items", "values")
"""Where a schema holds others, beside the fields of a record."""


def merged(schema: Any, referred: Iterable[Any] = ()) -> Any:
    """`referred`: the schemas that it may take names from, in any order."""
    merger = Merger()
    for each in referred:
        merger.learn(each, "")
    return merger.merge(schema, "")


class Merger:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, str]] = {}
        """Definition by full name, and the namespace around it."""
        self._defined: set[str] = set()

    def learn(self, schema: Any, namespace: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self.learn(branch, namespace)
        elif isinstance(schema, dict):
            if is_definition(schema):
                name = full_name(schema, namespace)
                self._known.setdefault(name, (schema, namespace))
                namespace = namespace_of(name)
            for inner in inner_schemas(schema):
                self.learn(inner, namespace)

    def merge(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return [self.merge(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if not isinstance(schema, dict):
            return schema
        if not is_definition(schema):
            return {key: self.merge(value, namespace) if key in PARTS else value for key, value in schema.items()}
        name = full_name(schema, namespace)
        if name in self._defined:
            return name
        self._defined.add(name)
        return self._definition(schema, name)

    def _named(self, name: str, namespace: str) -> Any:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self._defined:
                return candidate
            if candidate in self._known:
                return self.merge(*self._known[candidate])
        return name

    def _definition(self, schema: dict[str, Any], name: str) -> dict[str, Any]:
        namespace, _, short = name.rpartition(".")
        found = {**schema, "name": short, "namespace": namespace}
        if "fields" in schema:
            found["fields"] = [self._field(field, namespace) for field in schema["fields"]]
        return found

    def _field(self, field: Any, namespace: str) -> Any:
        return {**field, "type": self.merge(field["type"], namespace)} if is_field(field) else field


def is_definition(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return isinstance(kind, str) and kind in NAMED and "name" in schema


def is_field(field: Any) -> bool:
    return isinstance(field, dict) and "type" in field


def inner_schemas(schema: dict[str, Any]) -> Iterable[Any]:
    yield from (schema[part] for part in PARTS if isinstance(schema.get(part), dict | list))
    yield from (field["type"] for field in schema.get("fields", ()) if is_field(field))


def full_name(schema: dict[str, Any], namespace: str = "") -> str:
    name = str(schema.get("name", ""))
    around = schema.get("namespace", namespace)
    return name if "." in name or not around else f"{around}.{name}"


def namespace_of(name: str) -> str:
    return name.rpartition(".")[0]
