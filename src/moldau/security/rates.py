"""How much per second, as Kafka measures it: a rate over the last few windows, and a bucket of saved-up permissions."""

from __future__ import annotations

from typing import Final

LONGEST_DELAY_MS: Final = 2.0**31 - 1
"""What an answer can tell."""


class Rate:
    """The sum of what was recorded in the last windows, per second.

    A rate that is young is measured as if it had been there for all windows but one: a client may begin with a burst.
    """

    __slots__ = ("_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._samples: list[list[float]] = []  # start, last event, sum
        self._windows = windows
        self._window_ms = window_ms

    def record(self, value: float, now_ms: float) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, now_ms, value])
            return
        last = samples[-1]
        last[1] = now_ms
        last[2] += value

    def span_ms(self, now_ms: float) -> float:
        """The time that the rate is measured over."""
        self._forget(now_ms)
        elapsed = now_ms - self._samples[0][0] if self._samples else 0.0
        missing = self._windows - 1 - int(elapsed // self._window_ms)
        return max(elapsed + max(missing, 0) * self._window_ms, 1.0)

    def per_second(self, now_ms: float) -> float:
        span_ms = self.span_ms(now_ms)
        return sum(sample[2] for sample in self._samples) * 1000 / span_ms

    def delay_ms(self, limit: float, now_ms: float) -> float:
        """How long nothing may be recorded until the rate is down at the limit; 0 where it is not above."""
        rate = self.per_second(now_ms)
        return min((rate - limit) / limit * self.span_ms(now_ms), LONGEST_DELAY_MS) if rate > limit else 0.0

    def _forget(self, now_ms: float) -> None:
        oldest = now_ms - self._windows * self._window_ms
        samples = self._samples
        while samples and samples[0][1] <= oldest:
            samples.pop(0)


class TokenBucket:
    """Fills with `limit` a second up to what all windows together give; a client may go below zero, then waits."""

    __slots__ = ("_filled_ms", "_seconds", "tokens")

    def __init__(self, windows: int, window_ms: int, limit: float, now_ms: float) -> None:
        self._seconds = windows * window_ms / 1000
        self._filled_ms = now_ms
        self.tokens = self._seconds * limit

    def refill(self, limit: float, now_ms: float) -> None:
        gained = limit * (now_ms - self._filled_ms) / 1000
        self.tokens = min(self._seconds * limit, self.tokens + gained)
        self._filled_ms = now_ms

    def take(self, permits: float, limit: float, now_ms: float) -> None:
        self.refill(limit, now_ms)
        self.tokens = min(self._seconds * limit, self.tokens - permits)

    def delay_ms(self, limit: float, now_ms: float) -> float:
        """How long until nothing is owed any more."""
        self.refill(limit, now_ms)
        return min(-self.tokens / limit * 1000, LONGEST_DELAY_MS) if self.tokens < 0 else 0.0
