"""Until when a leader that may have been deposed without hearing of it answers what no follower confirms: writes with
acks 0 and 1, reads, heartbeats of groups.

It answers while one of these is true, so that with any of them lost the other still serves:

- what the metadata store had accepted a lease ago is known here: a leader is replaced when its session ends, which is
  longer than a lease, and one that is replaced sooner learns of it in that time or falls silent;
- every other replica that could be elected has shown, a lease ago or later, that it followed this leader in this epoch.
  A fetch proves the time of the answer that it follows, not the time at which it comes: it may have lain in a socket.

If no other replica could be elected, there is nothing to lose. Could be: whoever is in sync or eligible, whoever a
proposal under way would take in (it may have been committed without our having read it), and with unclean elections
every replica. What is acknowledged by all needs no lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

NEVER = -inf


@dataclass(frozen=True, slots=True)
class Lease:
    seconds: float
    boot_seconds: Callable[[], float]
    """A clock that goes on while the machine is suspended; only its rate is trusted."""
    current_as_of: Callable[[], float]
    """The time of which the image that this broker goes by was the newest for certain."""
    refused: Callable[[], None] = lambda: None
    """Told whenever it does not hold: whoever asks then refuses something."""

    def holds(self, proven: Iterable[float]) -> bool:
        """`proven`: when each of those that could be elected was last known to follow."""
        earliest = self.boot_seconds() - self.seconds
        if self.current_as_of() >= earliest or min(proven, default=NEVER) >= earliest:
            return True
        self.refused()
        return False


#: One broker without others.
FOR_EVER = Lease(inf, lambda: 0.0, lambda: 0.0)
