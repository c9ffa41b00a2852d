"""Deaths at random steps of a connector, in the place of kills: many within a second, each where a kill hardly ever
hits. Sinks live here; `source_deaths` has what a worker does with a source."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

DEATHS: Final = 20


@contextmanager
def what_is_there_set_aside() -> Iterator[None]:
    """Each death collects garbage, which in a process that has run thousands of tests takes seconds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Died(BaseException):
    """Nobody catches a kill."""


class Deaths:
    def __init__(self, most: int, seed: int = 1) -> None:
        """`most` steps are survived; about twice those of a batch, so that some are written to their end."""
        self._most = most
        self._chance = random.Random(seed)
        self._left: int | None = None

    def live(self) -> None:
        """Until one of the next steps."""
        self._left = self._chance.randrange(self._most)

    def spare(self) -> None:
        """Nobody dies any more."""
        self._left = None

    def step(self) -> None:
        """Something is about to reach the target, or has reached it."""
        if self._left == 0:
            raise Died
        if self._left is not None:
            self._left -= 1

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*given: Any, **named: Any) -> Any:
            self.step()
            answer = call(*given, **named)
            self.step()
            return answer

        return dying

    def survived(self, write: Callable[[int, int], object], deaths: int = DEATHS) -> int:
        """Has records written, `write(first, last)` by offset, in batches from what is committed on; a batch that comes
        again may have another end. Returns the end of all."""
        with what_is_there_set_aside():
            return self._survived(write, deaths)

    def _survived(self, write: Callable[[int, int], object], deaths: int) -> int:
        committed = end = died = between = 0
        while died < deaths:
            last = committed + self._chance.randrange(1, 9)
            end = max(end, last)
            self.live()
            if not self._lives(write, committed, last):
                died += 1
            elif between < deaths // 4 and self._chance.random() < 0.3:
                between += 1  # behind the batch, before the group's offsets
            else:
                committed = last
        self.spare()
        write(committed, end)
        assert committed > 0, "no batch was written to its end"
        return end

    def _lives(self, write: Callable[[int, int], object], first: int, last: int) -> bool:
        try:
            write(first, last)
            return True
        except Died:
            pass
        gc.collect()  # a process that is killed leaves no connection open
        return False
