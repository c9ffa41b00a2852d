"""The seven compatibility levels, and what is told of a schema that breaks one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.schemas.kinds import differences
from moldau.schemas.model import Parsed

NONE: Final = "NONE"
BACKWARD: Final = "BACKWARD"
FORWARD: Final = "FORWARD"
FULL: Final = "FULL"
TRANSITIVE: Final = "_TRANSITIVE"
LEVELS: Final = (
    NONE, BACKWARD, BACKWARD + TRANSITIVE, FORWARD, FORWARD + TRANSITIVE, FULL, FULL + TRANSITIVE,
)  # fmt: skip
LONGEST_TOLD: Final = 2000


@dataclass(frozen=True, slots=True)
class Earlier:
    version: int
    kind: str
    schema: Parsed


def compared(level: str, versions: Sequence[int]) -> list[int]:
    """Which of the versions, in order, a level looks at, the newest first."""
    if level == NONE:
        return []
    return list(reversed(versions)) if level.endswith(TRANSITIVE) else list(versions[-1:])


def problems(level: str, kind: str, new: Parsed, earlier: Iterable[Earlier], *, lenient: bool = False) -> list[str]:
    """Of the first earlier schema that the new one is not compatible with; empty if there is none."""
    base = level.removesuffix(TRANSITIVE)
    for each in earlier:
        if each.kind != kind:
            return [
                f"{{oldSchemaVersion: {each.version}, schemaType: the {each.kind} schema cannot become {kind}}}",
                f"{{compatibility: '{level}'}}",
            ]
        found = []
        if base in (BACKWARD, FULL):
            found += [one.told("new", "old") for one in differences(kind, new, each.schema, lenient=lenient)]
        if base in (FORWARD, FULL):
            found += [one.told("old", "new") for one in differences(kind, each.schema, new, lenient=lenient)]
        if found:
            old = each.schema.canonical
            told = f"'{old}'" if len(old) <= LONGEST_TOLD else f"<truncated> '{old[:LONGEST_TOLD]}...'"
            return [
                *found,
                f"{{oldSchemaVersion: {each.version}}}",
                f"{{oldSchema: {told}}}",
                f"{{compatibility: '{level}'}}",
            ]
    return []
