"""Mistakes of our own in a loop that has to go on: without it the broker would seem well and do half of its work.

The first of a row is logged with its traceback, those behind it with a line each; the pauses between them grow.
"""

from __future__ import annotations

from logging import Logger

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


class Mishaps:
    __slots__ = ("_log", "_what", "in_a_row")

    def __init__(self, log: Logger, what: str) -> None:
        """`what` is done again: "the look at the cluster"."""
        self._log, self._what = log, what
        self.in_a_row = 0

    def happened(self, error: Exception) -> float:
        """Gives the seconds to wait before the next attempt."""
        pause = min(FIRST_PAUSE_SECONDS * (1 << min(self.in_a_row, 10)), LONGEST_PAUSE_SECONDS)
        self.in_a_row += 1
        told = "%s failed; it is tried again in %g s: %r"
        self._log.error(told, self._what, pause, error, exc_info=error if self.in_a_row == 1 else None)
        return pause

    def over(self) -> None:
        self.in_a_row = 0
