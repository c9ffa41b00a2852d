"""How long a client must wait before its next request, because it did more than it may.

Kafka's way: what was done is recorded first and served all the same; where the measured rate is above the limit the
answer says how long the client has to wait, and its connection is muted as long. Only a fetch is answered without
records then, and counts for nothing. Brokers among themselves are not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from moldau.config.broker import BrokerConfig
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metrics import Metrics
from moldau.security.context import RequestContext
from moldau.security.kept import Kept
from moldau.security.mutation_quotas import UNLIMITED_MUTATIONS, MutationQuota, Mutations
from moldau.security.quota_limits import Limit, QuotaLimits, Sharers
from moldau.security.rates import Rate
from moldau.types.quotas import QuotaKey

KEPT_RATES: Final = 10_000
ACCEPT_RATE: Final = ("kafka.server", "socket-server-metrics", "connection-accept-rate")


class QuotaManager(Protocol):
    @property
    def active(self) -> bool:
        """Whether there is any quota at all; while there is none, nothing else need be asked."""
        ...

    def load(self, image: ClusterImage) -> None: ...

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None: ...

    def limits(self, context: RequestContext) -> bool:
        """Whether what this client produces, or the time that it takes, is limited."""
        ...

    def produced(self, context: RequestContext, size: int) -> int:
        """A produce request of this size was served; gives the milliseconds to wait."""
        ...

    def most_fetched(self, context: RequestContext) -> int | None:
        """More than this many bytes at once would always have to wait."""
        ...

    def fetched(self, context: RequestContext, size: int) -> int:
        """An answer of this size is about to be sent; where there is something to wait for it is not, nor counted."""
        ...

    def handled(self, context: RequestContext, seconds: float) -> int:
        """A request has kept the broker busy for so long; gives the milliseconds to wait."""
        ...

    def spent(self, context: RequestContext, seconds: float) -> None:
        """And so much longer, once it was told how long to wait: its next request will hear of it."""
        ...

    def mutations(self, context: RequestContext, strict: bool) -> Mutations:
        """What keeps count of changes to topics by one request; `strict` refuses what goes beyond."""
        ...

    def connected(self, address: str) -> int:
        """Somebody has connected from there; above 0, the connection is closed after so many milliseconds."""
        ...

    @property
    def hosts(self) -> Collection[str]:
        """Whose connections are limited by name: somebody has to look up their addresses."""
        ...

    def looked_up(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """All that is known of hosts, whenever there is more."""
        ...


class Measured:
    """The rate of whoever shares a limit, and how long they were made to wait."""

    __slots__ = ("rate", "waited", "waits")

    def __init__(self, windows: int, window_ms: int) -> None:
        self.rate = Rate(windows, window_ms)
        self.waited = Rate(windows, window_ms)
        self.waits = Rate(windows, window_ms)

    def wait(self, milliseconds: int, now_ms: float) -> None:
        self.waited.record(milliseconds, now_ms)
        self.waits.record(1, now_ms)

    def mean_wait_ms(self, now_ms: float) -> float:
        waits = self.waits.per_second(now_ms)
        return self.waited.per_second(now_ms) / waits if waits else 0.0


class RateQuota:
    """One kind of quota that limits a rate, with Kafka's names of its metrics."""

    def __init__(
        self,
        key: QuotaKey,
        windows: int,
        window_ms: int,
        now_ms: Callable[[], float],
        metrics: Metrics,
        type_: str,
        name: str,
    ) -> None:
        self.limits = QuotaLimits(key)
        self._windows, self._window_ms = windows, window_ms
        self._now_ms = now_ms
        self._metrics, self._type, self._name = metrics, type_, name
        self._measured: Kept[Sharers, Measured] = Kept(KEPT_RATES, self._new_measured, self._forget)

    def limit(self, context: RequestContext) -> Limit | None:
        return self.limits.of(user_of(context), context.client_id) if self.limits.any else None

    def record(self, limit: Limit, value: float, longest_ms: int | None = None) -> int:
        now_ms = self._now_ms()
        measured = self.measured(limit)
        measured.rate.record(value, now_ms)
        delay = measured.rate.delay_ms(limit.value, now_ms)
        wait_ms = round(delay if longest_ms is None else min(delay, longest_ms))
        if wait_ms > 0:
            measured.wait(wait_ms, now_ms)
        return wait_ms

    def add(self, limit: Limit, value: float) -> None:
        """Nobody is made to wait for it now; below zero it takes back what was recorded."""
        self.measured(limit).rate.record(value, self._now_ms())

    def most(self, limit: Limit) -> float:
        """What fits into all windows but the current one."""
        return limit.value * (self._windows - 1) * self._window_ms / 1000

    def measured(self, limit: Limit) -> Measured:
        return self._measured.of(limit.sharers)

    def _new_measured(self, sharers: Sharers) -> Measured:
        measured = Measured(self._windows, self._window_ms)
        now_ms, gauge, tags = self._now_ms, self._metrics.gauge, sharers.tags
        gauge(lambda: measured.rate.per_second(now_ms()), "kafka.server", self._type, self._name, **tags)
        gauge(lambda: measured.mean_wait_ms(now_ms()), "kafka.server", self._type, "throttle-time", **tags)
        return measured

    def _forget(self, sharers: Sharers, measured: Measured) -> None:
        for name in (self._name, "throttle-time"):
            self._metrics.remove_gauge("kafka.server", self._type, name, **sharers.tags)


class ClientQuotas:
    def __init__(
        self,
        now_ms: Callable[[], float],
        metrics: Metrics,
        *,
        windows: int,
        window_seconds: int,
        controller_windows: int,
        controller_window_seconds: int,
    ) -> None:
        self._now_ms = now_ms
        self._windows, self._window_ms = windows, window_seconds * 1000

        def rate(key: QuotaKey, type_: str, name: str) -> RateQuota:
            return RateQuota(key, windows, self._window_ms, now_ms, metrics, type_, name)

        self._produce = rate(QuotaKey.PRODUCER_BYTE_RATE, "Produce", "byte-rate")
        self._fetch = rate(QuotaKey.CONSUMER_BYTE_RATE, "Fetch", "byte-rate")
        self._request = rate(QuotaKey.REQUEST_PERCENTAGE, "Request", "request-time")
        self._mutation = MutationQuota(controller_windows, controller_window_seconds * 1000, now_ms, metrics)
        self._connection = QuotaLimits(QuotaKey.CONNECTION_CREATION_RATE)
        self._metrics = metrics
        self._connections: Kept[str, Rate] = Kept(KEPT_RATES, self._new_rate_of, self._forget_rate_of)
        self._kinds = (
            self._produce.limits, self._fetch.limits, self._request.limits, self._mutation.limits, self._connection,
        )  # fmt: skip
        self.active = False

    def load(self, image: ClusterImage) -> None:
        for kind in self._kinds:
            kind.load(image.quotas)
        self.active = any(kind.any for kind in self._kinds)

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        for entity in delta.quotas:
            for kind in self._kinds:
                kind.set(entity, new.quotas.get(entity))
        if delta.quotas:
            self.active = any(kind.any for kind in self._kinds)

    # --- requests ---

    def limits(self, context: RequestContext) -> bool:
        return self.active and (self._produce.limit(context) is not None or self._request.limit(context) is not None)

    def produced(self, context: RequestContext, size: int) -> int:
        limit = self._produce.limit(context)
        return 0 if limit is None else self._produce.record(limit, size)

    def most_fetched(self, context: RequestContext) -> int | None:
        limit = self._fetch.limit(context)
        return None if limit is None else int(self._fetch.most(limit))

    def fetched(self, context: RequestContext, size: int) -> int:
        limit = self._fetch.limit(context)
        if limit is None:
            return 0
        wait_ms = self._fetch.record(limit, size)
        if wait_ms:
            self._fetch.add(limit, -size)
        return wait_ms

    def handled(self, context: RequestContext, seconds: float) -> int:
        limit = self._request.limit(context)
        return 0 if limit is None else self._request.record(limit, seconds * 100, self._window_ms)

    def spent(self, context: RequestContext, seconds: float) -> None:
        limit = self._request.limit(context)
        if limit is not None:
            self._request.add(limit, seconds * 100)

    def mutations(self, context: RequestContext, strict: bool) -> Mutations:
        if context.client.is_exempt:
            return UNLIMITED_MUTATIONS
        return self._mutation.of(user_of(context), context.client_id, strict)

    # --- connections ---

    def connected(self, address: str) -> int:
        limit = self._connection.of_address(address) if self._connection.any else None
        if limit is None:
            return 0
        rate = self._connections.of(address)
        now_ms = self._now_ms()
        rate.record(1, now_ms)
        wait_ms = round(rate.delay_ms(limit, now_ms))
        if wait_ms > 0:
            rate.record(-1, now_ms)  # it will be turned away
        return min(wait_ms, self._window_ms)

    @property
    def hosts(self) -> Collection[str]:
        return self._connection.hosts

    def looked_up(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._connection.looked_up(addresses)

    def _new_rate_of(self, address: str) -> Rate:
        rate = Rate(self._windows, self._window_ms)
        self._metrics.gauge(lambda: rate.per_second(self._now_ms()), *ACCEPT_RATE, ip=address)
        return rate

    def _forget_rate_of(self, address: str, rate: Rate) -> None:
        self._metrics.remove_gauge(*ACCEPT_RATE, ip=address)


def client_quotas(config: BrokerConfig, seconds: Callable[[], float], metrics: Metrics) -> ClientQuotas:
    """With the windows of these settings."""
    return ClientQuotas(
        lambda: seconds() * 1000,
        metrics,
        windows=config.quota_window_num,
        window_seconds=config.quota_window_size_seconds,
        controller_windows=config.controller_quota_window_num,
        controller_window_seconds=config.controller_quota_window_size_seconds,
    )


def user_of(context: RequestContext) -> str:
    """The name of the principal, without its type."""
    return context.client.principal.partition(":")[2]
