"""The reference page of what Python programs call, from signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

from moldau.spark import exactly_once, session, write_batch
from moldau.spark.listener import Progress, ProgressListener

FUNCTIONS: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    ("moldau.spark", session),
    ("moldau.spark", exactly_once),
    ("moldau.spark", write_batch),
)
ABSENT: Final = inspect.Parameter.empty


def markdown() -> str:
    lines = [
        "# Python API",
        "",
        (
            "Written by `make docs` from signatures and docstrings. What a query is told with options stands in "
            "[Options of the Spark data source](spark-options.md)."
        ),
    ]
    for module, function in FUNCTIONS:
        lines += ["", *section(module, function.__name__, signature(function), function)]
    listener = signature(ProgressListener)
    lines += ["", *section("moldau.spark.listener", "ProgressListener", listener, ProgressListener)]
    lines += ["", *section("moldau.spark.listener", "Progress", "Progress", Progress), "", *fields(Progress)]
    return "\n".join(lines) + "\n"


def section(module: str, name: str, shown: str, documented: object) -> list[str]:
    return [f"## {name}", "", "```text", f"from {module} import {name}", "", shown, "```", "", prose(documented)]


def signature(called: Callable[..., Any]) -> str:
    """One parameter a line, as it would be written."""
    found = inspect.signature(called)
    parts: list[str] = []
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        star = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is ABSENT else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}: {type_text(parameter.annotation)}{default}")
    answer = "" if inspect.isclass(called) else f" -> {type_text(found.return_annotation)}"
    return "\n".join([f"{called.__name__}(", *(f"    {part}," for part in parts), f"){answer}"])


def type_text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return text.strip("'\"").replace("collections.abc.", "").replace("moldau.spark.listener.", "")


def prose(documented: object) -> str:
    """Paragraphs as one line each: Markdown needs no breaks in them."""
    paragraphs = inspect.cleandoc(inspect.getdoc(documented) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def fields(kind: type[Any]) -> list[str]:
    notes = dict(field_notes(kind))
    rows = [
        f"| `{field.name}` | {type_text(field.type).replace('|', chr(92) + '|')} | {notes.get(field.name, '')} |"
        for field in dataclasses.fields(kind)
    ]
    return ["| field | type | |", "|---|---|---|", *rows]


def field_notes(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """The strings below fields, which Python itself forgets."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    for field, note in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(note, ast.Expr)
            and isinstance(note.value, ast.Constant)
        ):
            yield field.target.id, " ".join(str(note.value.value).split())
