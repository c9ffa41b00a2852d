"""As of when it is known how far the log went: what a lease is counted from.

It is not enough that the ensemble has answered: what was decided before may still be on its way to us, and a leader
that hears well and reads late would go on for longer than its lease. So a time counts with the revision that was the
last one then, and only for who has taken that revision over.
"""

from __future__ import annotations

from collections import deque
from math import inf

from moldau.metadata.store import Revision

#: Of revisions that nobody has taken over yet.
MOST_KEPT = 1024


class Hearing:
    def __init__(self) -> None:
        self._proofs: deque[tuple[Revision, float]] = deque([(0, -inf)], MOST_KEPT)

    def prove(self, revision: Revision, as_of: float) -> None:
        """At that time nothing after this revision was accepted; it is called with revisions that do not fall."""
        last, latest = self._proofs[-1]
        if last == revision:
            self._proofs.pop()
        self._proofs.append((revision, max(latest, as_of)))

    def as_of(self, revision: Revision) -> float:
        """Until when somebody knows all who has taken over what was accepted up to a revision."""
        proofs = self._proofs
        while len(proofs) > 1 and proofs[1][0] <= revision:
            proofs.popleft()
        known, as_of = proofs[0]
        return as_of if known <= revision else -inf
