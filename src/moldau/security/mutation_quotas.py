"""How many partitions a client may have made and deleted per second (`controller_mutation_rate`, KIP-599).

A bucket of permits for whoever shares a limit: it fills with the limit's rate, up to what all windows together give,
and may go below zero, since a topic is made whole or not at all. Whoever owes is refused; with versions of requests
that know no such refusal it is served, and made to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from moldau.metrics import Metrics
from moldau.security.kept import Kept
from moldau.security.quota_limits import QuotaLimits, Sharers
from moldau.security.rates import Rate, TokenBucket
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.quotas import QuotaKey

KEPT_BUCKETS: Final = 10_000
TYPE: Final = "ControllerMutation"


class Mutations(Protocol):
    """The changes of one request."""

    def restart(self) -> None:
        """The request is decided anew: what was taken for it counts no more."""
        ...

    def take(self, partitions: int) -> None:
        """So many are about to be made or deleted. Raises THROTTLING_QUOTA_EXCEEDED."""
        ...

    def done(self) -> int:
        """All is decided; gives the milliseconds that the client has to wait."""
        ...


class UnlimitedMutations:
    def restart(self) -> None:
        pass

    def take(self, partitions: int) -> None:
        pass

    def done(self) -> int:
        return 0


UNLIMITED_MUTATIONS: Final = UnlimitedMutations()


class Permits:
    """Those of whoever shares a limit, and what is measured of them."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows, self._window_ms = windows, window_ms
        self.limit = 0.0
        self._bucket: TokenBucket | None = None
        self.rate, self._waited, self._waits = (Rate(windows, window_ms) for _ in range(3))

    def bucket(self, now_ms: float) -> TokenBucket:
        if self._bucket is None:
            self._bucket = TokenBucket(self._windows, self._window_ms, self.limit, now_ms)
        return self._bucket

    def take(self, partitions: int, now_ms: float) -> None:
        self.bucket(now_ms).take(partitions, self.limit, now_ms)
        self.rate.record(partitions, now_ms)

    def delay_ms(self, now_ms: float) -> float:
        return self.bucket(now_ms).delay_ms(self.limit, now_ms)

    def wait(self, milliseconds: int, now_ms: float) -> None:
        self._waited.record(milliseconds, now_ms)
        self._waits.record(1, now_ms)

    def mean_wait_ms(self, now_ms: float) -> float:
        waits = self._waits.per_second(now_ms)
        return self._waited.per_second(now_ms) / waits if waits else 0.0

    def tokens(self, now_ms: float) -> float:
        bucket = self.bucket(now_ms)
        bucket.refill(self.limit, now_ms)
        return bucket.tokens


class LimitedMutations:
    def __init__(self, permits: Permits, now_ms: Callable[[], float], strict: bool) -> None:
        self._permits, self._now_ms, self._strict = permits, now_ms, strict
        self._taken = 0
        self._refused_ms = 0

    def restart(self) -> None:
        if self._taken:
            self._permits.take(-self._taken, self._now_ms())
        self._taken = self._refused_ms = 0

    def take(self, partitions: int) -> None:
        now_ms = self._now_ms()
        owed_ms = self._permits.delay_ms(now_ms)
        if self._strict and owed_ms > 0:
            self._refused_ms = max(self._refused_ms, round(owed_ms), 1)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._taken += partitions
        self._permits.take(partitions, now_ms)

    def done(self) -> int:
        now_ms = self._now_ms()
        wait_ms = self._refused_ms
        if not self._strict and self._taken:
            wait_ms = round(self._permits.delay_ms(now_ms))
        if wait_ms:
            self._permits.wait(wait_ms, now_ms)
        return wait_ms


class MutationQuota:
    def __init__(self, windows: int, window_ms: int, now_ms: Callable[[], float], metrics: Metrics) -> None:
        self.limits = QuotaLimits(QuotaKey.CONTROLLER_MUTATION_RATE)
        self._windows, self._window_ms = windows, window_ms
        self._now_ms, self._metrics = now_ms, metrics
        self._permits: Kept[Sharers, Permits] = Kept(KEPT_BUCKETS, self._new_permits, self._forget)

    def of(self, user: str, client_id: str, strict: bool) -> Mutations:
        limit = self.limits.of(user, client_id) if self.limits.any else None
        if limit is None:
            return UNLIMITED_MUTATIONS
        permits = self._permits.of(limit.sharers)
        permits.limit = limit.value
        return LimitedMutations(permits, self._now_ms, strict)

    def _new_permits(self, sharers: Sharers) -> Permits:
        permits = Permits(self._windows, self._window_ms)
        now_ms, gauge, tags = self._now_ms, self._metrics.gauge, sharers.tags
        gauge(lambda: permits.rate.per_second(now_ms()), "kafka.server", TYPE, "mutation-rate", **tags)
        gauge(lambda: permits.tokens(now_ms()), "kafka.server", TYPE, "tokens", **tags)
        gauge(lambda: permits.mean_wait_ms(now_ms()), "kafka.server", TYPE, "throttle-time", **tags)
        return permits

    def _forget(self, sharers: Sharers, permits: Permits) -> None:
        for name in ("mutation-rate", "tokens", "throttle-time"):
            self._metrics.remove_gauge("kafka.server", TYPE, name, **sharers.tags)
