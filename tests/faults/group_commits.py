"""What the members of a group have asked to be committed and what they were told of it: hence where the group may
stand, and a journal for who reads a failure.

A group's offset may go back, by librdkafka's doing: it has many commits under way at once and sends each that a
coordinator could not take again, later the older it is (retry.backoff.ms, doubled each time). While a coordinator moves
a member is told that 817 is committed, and after that that 367 is: both were, in this order. So the group stands where
some commit put it that was under way together with the last one, and nowhere below; a commit that was asked for when
another had been answered comes behind that one, and replaces it for good.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

NOTHING = -1
#: Of one partition. A coordinator that moves has some tens of commits sent again.
LINES_KEPT = 200

#: By partition: from where on is to be read.
Offsets = Mapping[int, int]


@dataclass(eq=False, slots=True)
class Commit:
    offsets: Offsets
    asked: int
    """When, as a number that grows."""
    answered: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a group may stand in one partition."""

    highest: int
    """That was told to be committed."""
    others: frozenset[int]

    def allows(self, offset: int) -> bool:
        return offset >= self.highest or offset in self.others


class GroupCommits:
    """Of all members; each has a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock = count()
        self._unanswered: dict[str, list[Commit]] = defaultdict(list)
        #: Those that no later one has replaced.
        self._standing: dict[int, list[Commit]] = defaultdict(list)
        self._highest: dict[int, int] = {}
        self._journal: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=LINES_KEPT))

    def asked(self, member: str, offsets: Offsets) -> None:
        with self._lock:
            commit = Commit(dict(offsets), next(self._clock))
            self._unanswered[member].append(commit)
            for partition, offset in offsets.items():
                self._standing[partition].append(commit)
                self._write(partition, member, f"asks for {offset}")

    def answered(self, member: str, offsets: Offsets, errors: Mapping[int, str]) -> None:
        """One that failed may have been taken when it was sent before: it stands, and replaces none."""
        with self._lock:
            commit = next(each for each in self._unanswered[member] if each.offsets == offsets)
            self._unanswered[member].remove(commit)
            commit.answered = next(self._clock)
            for partition, offset in offsets.items():
                self._write(partition, member, f"is told of {offset}: {errors.get(partition, 'committed')}")
                if partition not in errors:
                    self._highest[partition] = max(offset, self._highest.get(partition, NOTHING))
                    self._standing[partition] = [
                        each
                        for each in self._standing[partition]
                        if each.answered is None or each.answered > commit.asked
                    ]

    def standing(self, partition: int) -> Standing:
        with self._lock:
            others = frozenset(commit.offsets[partition] for commit in self._standing[partition])
            return Standing(self._highest.get(partition, NOTHING), others)

    def partitions(self) -> list[int]:
        """In which something was told to be committed."""
        with self._lock:
            return sorted(self._highest)

    def note(self, partition: int, member: str, what: str) -> None:
        with self._lock:
            self._write(partition, member, what)

    def journal(self, partition: int) -> str:
        with self._lock:
            return "\n".join(self._journal[partition])

    def _write(self, partition: int, member: str, what: str) -> None:
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))  # as in the brokers' logs
        self._journal[partition].append(f"{clock},{int(now % 1 * 1000):03} {member} {what}")
