"""Throttled replication: `leader.` and `follower.replication.throttled.rate`, for the replicas that the topic's
settings `…throttled.replicas` name. Who is in sync is never held back: a produce may wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

EVERY_REPLICA = "*"
#: So much of the rate may be used at once.
BURST_SECONDS = 1.0


def names(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a list of partition:broker names this one."""
    return bool(replicas) and (replicas[0] == EVERY_REPLICA or f"{partition}:{broker_id}" in replicas)


class ReplicationQuota:
    """Bytes that were sent are paid off at the rate; who owes more than a second's worth has to wait."""

    __slots__ = ("_monotonic", "_owed", "_rate", "_seen")

    def __init__(self, rate: Callable[[], int | None], monotonic: Callable[[], float]) -> None:
        """`rate`: bytes per second, None without a limit; it may change at any time."""
        self._rate, self._monotonic = rate, monotonic
        self._owed = 0.0
        self._seen = monotonic()

    def record(self, size: int) -> None:
        self._pay()
        self._owed += size

    def is_exceeded(self) -> bool:
        rate = self._rate()
        if rate is None:
            return False
        self._pay()
        return self._owed > rate * BURST_SECONDS

    def _pay(self) -> None:
        now, rate = self._monotonic(), self._rate()
        self._owed = 0.0 if rate is None else max(0.0, self._owed - rate * (now - self._seen))
        self._seen = now
