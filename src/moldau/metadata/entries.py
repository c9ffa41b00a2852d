"""How a commit is judged: the same in every store, so that all accept and refuse alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from moldau.metadata.store import (
    ABSENT,
    Change,
    Check,
    Delete,
    Operation,
    Put,
    Revision,
    VersionConflictError,
    Versioned,
)
from moldau.work.slices import Work, pauses

Entries: TypeAlias = dict[str, Versioned]


@dataclass(frozen=True, slots=True)
class Planned:
    """What an accepted commit changes; `removed` are the paths that it deletes."""

    revision: Revision
    changes: tuple[Change, ...]
    removed: tuple[str, ...]


def planning(
    operations: Sequence[Operation], revision: Revision, entry_of: Callable[[str], Versioned | None]
) -> Work[Planned]:
    """What the operations change in the entries that `entry_of` gives. Raises VersionConflictError."""
    paused = pauses()
    changes: list[Change] = []
    removed: list[str] = []
    for operation in operations:
        if next(paused):
            yield
        path = operation.path
        entry = entry_of(path)
        version = ABSENT if entry is None else entry.version
        expected = operation.expected_version
        if (expected is not None and expected != version) or (entry is None and type(operation) is Delete):
            raise VersionConflictError(path, expected, version)
        if type(operation) is Check:
            continue
        if type(operation) is Delete:
            changes.append(Change(path, None))
            removed.append(path)
        else:
            assert isinstance(operation, Put)
            created = revision if entry is None else entry.created
            changes.append(Change(path, Versioned(operation.value, version + 1, created, revision)))
    return Planned(revision, tuple(changes), tuple(removed))


def take_in(entries: Entries, planned: Planned) -> None:
    # Readers see all of a commit or nothing: without turns, but without a line of ours for each entry either.
    entries.update(planned.changes)  # type: ignore[arg-type]  # what is removed goes with the next line
    deque(map(entries.__delitem__, planned.removed), maxlen=0)
