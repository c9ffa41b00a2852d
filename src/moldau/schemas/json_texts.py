"""Which differences of JSON Schemas are compatible, and how the others are told."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moldau.schemas.model import READER, WRITER, Difference


def read_compatible(policies: tuple[str, ...]) -> frozenset[str]:
    rows = (line.split("\t") for line in TABLE.read_text().splitlines()[1:])
    return frozenset(name for name, policy in rows if policy in policies)


TABLE: Final = Path(__file__).with_name("json_compatible.tsv")
COMPATIBLE: Final = read_compatible(("STRICT",))
LENIENT: Final = read_compatible(("STRICT", "LENIENT"))

TEXTS: Final = (
    (
        "_ADDED_TO_OPEN_CONTENT_MODEL",
        (
            "The {new} schema has an open content model and has a property or item at path '{path}' "
            "which is missing in the {old} schema"
        ),
    ),
    (
        "_ADDED_TO_UNOPEN_CONTENT_MODEL",
        (
            "The {new} schema has an unopen content model and has a required property at path '{path}' "
            "which is missing in the {old} schema"
        ),
    ),
    (
        "_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        (
            "The {new} schema has a closed content model and is missing a property or item present at path '{path}' "
            "in the {old} schema"
        ),
    ),
    (
        "_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        (
            "A property or item is missing in the {new} schema but present at path '{path}' in the {old} schema "
            "and is not covered by its partially open content model"
        ),
    ),
    (
        "_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        (
            "The {new} schema has a property or item at path '{path}' which is missing in the {old} schema "
            "and is not covered by its partially open content model"
        ),
    ),
    (
        "_EXPANDED",
        "The keyword at path '{path}' in the {new} schema is a multiple of the one in the {old} schema",
    ),
    ("_INCREASED", "The keyword at path '{path}' in the {new} schema is more than its value in the {old} schema"),
    ("_DECREASED", "The keyword at path '{path}' in the {new} schema is less than its value in the {old} schema"),
    (
        "_NARROWED",
        "An array or combined type at path '{path}' has fewer elements in the {new} schema than the {old} schema",
    ),
    (
        "_EXTENDED",
        "An array or combined type at path '{path}' has more elements in the {new} schema than the {old} schema",
    ),
    ("_CHANGED", "A type at path '{path}' is different between the {new} schema and the {old} schema"),
    ("_ADDED", "The keyword at path '{path}' in the {new} schema is not present in the {old} schema"),
    ("_REMOVED", "The {new} schema is missing the keyword at path '{path}' which is present in the {old} schema"),
)


def told(type_: str, path: str) -> Difference:
    text = next(text for ending, text in TEXTS if type_.endswith(ending))
    return Difference(type_, path, text.format(new=READER, old=WRITER, path=path))
