"""What a log of commits means: which are taken, which are refused, and what the entries are after each. No I/O.

Every broker asks the same questions of the same log and comes to the same state:

- Of one writer, commits are taken in the order of their numbers, each once. A number that was taken before is a commit
  whose answer was lost, appended again: it means nothing any more. A number that is too high is one whose predecessor
  was lost on the way: it means nothing *yet*, and its writer appends both again.
- A commit that is taken is judged by the versions of the entries at that place of the log: accepted or refused.
- A writer that was silent for WRITER_MEMORY entries is forgotten. It notices the same, and goes on as another one.

The last outcomes of each writer are kept: a broker that was away may come back to a snapshot in which its commits are
already judged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from moldau.metadata.entries import Entries, Planned, planning, take_in
from moldau.metadata.frames import Commit
from moldau.metadata.store import Operation, Revision, VersionConflictError
from moldau.work.slices import Work

WRITER_MEMORY = 65_536
OUTCOMES_KEPT = 64
"""Also how many commits a writer may have under way."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The operation of a commit that met another version than it expected."""

    operation: int
    actual: int

    def as_error(self, operations: list[Operation] | tuple[Operation, ...]) -> VersionConflictError:
        refused = operations[self.operation]
        return VersionConflictError(refused.path, refused.expected_version, self.actual)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a commit was judged. `revision` is its place in the log."""

    number: int
    revision: Revision
    refusal: Refusal | None = None


@dataclass(slots=True)
class Writer:
    last: int = 0
    revision: Revision = 0
    outcomes: deque[Outcome] = field(default_factory=lambda: deque(maxlen=OUTCOMES_KEPT))


@dataclass(frozen=True, slots=True)
class Judged:
    """`outcome` is None where the commit means nothing at this place; `planned` is what it changes, if accepted."""

    outcome: Outcome | None
    planned: Planned | None


@dataclass(slots=True)
class History:
    """`revision` is the last place that was judged, `accepted` the last one at which a commit was accepted."""

    revision: Revision = 0
    accepted: Revision = 0
    entries: Entries = field(default_factory=dict)
    #: In the order in which they were heard of last.
    writers: dict[int, Writer] = field(default_factory=dict)

    def judging(self, commit: Commit) -> Work[Judged]:
        """Judges the next place of the log and takes it in, the latter without a pause."""
        revision = self.revision + 1
        writer = self.writers.get(commit.writer)
        if commit.number != (writer.last if writer else 0) + 1:
            self._pass(revision)
            return Judged(None, None)
        planned = refusal = None
        try:
            planned = yield from planning(commit.operations, revision, self.entries.get)
        except VersionConflictError as conflict:
            at = next(i for i, operation in enumerate(commit.operations) if operation.path == conflict.path)
            refusal = Refusal(at, conflict.actual)
        outcome = Outcome(commit.number, revision, refusal)
        self._note(commit.writer, outcome)
        if planned is not None and commit.operations:
            take_in(self.entries, planned)
            self.accepted = revision
        self._pass(revision)
        return Judged(outcome, planned)

    def pass_by(self) -> None:
        """The next place of the log holds nothing that any store wrote."""
        self._pass(self.revision + 1)

    def _note(self, writer_id: int, outcome: Outcome) -> None:
        writer = self.writers.pop(writer_id, None) or Writer()
        writer.last = outcome.number
        writer.revision = outcome.revision
        writer.outcomes.append(outcome)
        self.writers[writer_id] = writer

    def _pass(self, revision: Revision) -> None:
        self.revision = revision
        while self.writers:
            eldest = next(iter(self.writers))
            if self.writers[eldest].revision > revision - WRITER_MEMORY:
                break
            del self.writers[eldest]
