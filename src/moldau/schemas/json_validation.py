"""Values checked against a JSON Schema. A schema's patterns are ECMA's: what Python's engine does not read, re2 may.

Both take as long as a schema makes them: run this in a worker (`workshop`) where schema and value are not trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from moldau.schemas.json_schema import check_against_its_dialect, parse_json_schema


class Problem(NamedTuple):
    """Where a value breaks its schema, from the root with / between the names, and how."""

    where: str
    message: str


def problem(validator: Any, value: Any) -> Problem | None:
    found = next(validator.iter_errors(value), None)
    return None if found is None else Problem("/".join(map(str, found.absolute_path)), str(found.message))


@lru_cache(maxsize=200)
def validator_of(text: str, referred: tuple[tuple[str, str], ...]) -> Any:
    """Raises SchemaError where the text is no JSON Schema."""
    from jsonschema import Draft7Validator
    from jsonschema.validators import validator_for

    schema = parse_json_schema(text, dict(referred), check=False)
    check_against_its_dialect(schema.content)
    kind = with_patterns(validator_for(schema.content, default=Draft7Validator))
    return kind(schema.content, registry=schema.known())


@lru_cache
def with_patterns(kind: Any) -> Any:
    from jsonschema.validators import extend

    known = {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": others}
    return extend(kind, {name: each for name, each in known.items() if name in kind.VALIDATORS})


@lru_cache(maxsize=1000)
def compiled(expression: str) -> Any:
    import re2

    try:
        return re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        try:
            return re2.compile(expression)
        except re2.error:
            raise ValueError(f"the pattern {expression[:200]!r} of the schema is not supported: {error}") from None


def pattern(validator: Any, expression: str, instance: Any, _schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and compiled(expression).search(instance) is None:
        yield ValidationError(f"{instance!r} does not match {expression!r}")


def pattern_properties(
    validator: Any, found: Mapping[str, Any], instance: Any, _schema: Mapping[str, Any]
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for expression, content in found.items():
        for name, value in instance.items():
            if compiled(expression).search(name) is not None:
                yield from validator.descend(value, content, path=name, schema_path=expression)


def others(validator: Any, content: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(instance, "object"):
        return
    named = schema.get("properties", {})
    patterns = [compiled(expression) for expression in schema.get("patternProperties", {})]
    for name, value in instance.items():
        if name in named or any(each.search(name) is not None for each in patterns):
            continue
        if content is False:
            yield ValidationError(f"additional properties are not allowed: {name!r}")
        elif validator.is_type(content, "object"):
            yield from validator.descend(value, content, path=name)
