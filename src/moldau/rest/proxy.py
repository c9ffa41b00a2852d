"""What all handlers share: settings, clients by user, schemas, consumer instances, and links into the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from moldau.metrics import Metrics
from moldau.rest import errors
from moldau.rest.backend import Backend
from moldau.rest.backends import Backends
from moldau.rest.formats import to_bytes
from moldau.rest.rates import Rate, cost_of, read_costs
from moldau.rest.schemas import Schemas
from moldau.rest.settings import RestSettings
from moldau.schemas.workshop import Workshop
from moldau.web import Call

if TYPE_CHECKING:
    from moldau.rest.instances import Instances

GROUP: Final = "moldau.rest"


class Proxy:
    def __init__(
        self,
        settings: RestSettings,
        metrics: Metrics,
        monotonic: Callable[[], float],
        new_id: Callable[[], object],
    ) -> None:
        from moldau.rest.instances import Instances

        self.settings = settings
        self.monotonic = monotonic
        self.backends = Backends(settings, monotonic)
        workshop = Workshop(settings.number("schema.workers"), settings.seconds("schema.timeout.ms"))
        self.schemas = Schemas(settings.registry(), workshop, monotonic)
        self.instances: Instances = Instances(settings, self.schemas, monotonic, new_id)
        self._rates = Rates(settings, monotonic)
        self.closing = asyncio.Event()
        self.following = 0
        self.problem: str | None = "the brokers have not been reached yet"
        self.reached = asyncio.Event()
        """Once, at least."""
        metrics.gauge(lambda: len(self.instances), GROUP, "Consumers", "Instances")
        metrics.gauge(lambda: len(self.backends), GROUP, "Clients", "Users")
        metrics.gauge(lambda: self.following, GROUP, "Tail", "Following")
        self.produced = metrics.counter(GROUP, "Records", "ProducedPerSec")
        self.refused = metrics.counter(GROUP, "Records", "RefusedPerSec")
        self.consumed = metrics.counter(GROUP, "Records", "ConsumedPerSec")

    async def backend(self, call: Call) -> Backend:
        """The clients of whoever asks, if requests are not coming too fast."""
        await self._rates.admit(call.endpoint.name)
        return await self.backends.of(call)

    def admits_record(self, record: dict[str, Any]) -> bool:
        return self._rates.admits_record(record)

    def base(self, call: Call) -> str:
        """The address that links begin with."""
        scheme = call.request.url.scheme
        advertised = self.settings.list("advertised.listeners")
        if advertised:
            fitting = [url for url in advertised if urlsplit(url).scheme == scheme]
            return (fitting or list(advertised))[0].rstrip("/")
        host = self.settings.web.text("host.name")
        if host:
            port = call.request.url.port
            return f"{scheme}://{host}:{port}" if port else f"{scheme}://{host}"
        return f"{scheme}://{call.request.url.netloc}"

    async def watch(self) -> None:
        """Looks every second at what is too old; until it is cancelled."""
        while True:
            await asyncio.sleep(1.0)
            await self.instances.expire()
            await self.backends.sweep()

    async def close(self) -> None:
        await self.instances.close()
        await self.backends.close()
        await asyncio.to_thread(self.schemas.close)


class Rates:
    """The limits that settings name; without them everything is admitted."""

    def __init__(self, settings: RestSettings, monotonic: Callable[[], float]) -> None:
        self._patience = settings.seconds("rate.limit.timeout.ms")
        self._cost = settings.number("rate.limit.default.cost")
        self._costs = read_costs(settings.list("rate.limit.costs"))

        def rate(name: str, enabled: str) -> Rate | None:
            return Rate(settings.number(name), monotonic) if settings.flag(enabled) else None

        produce = "api.v3.produce.rate.limit"
        self._requests = rate("rate.limit.permits.per.sec", "rate.limit.enable")
        self._records = rate(f"{produce}.max.requests.per.sec", f"{produce}.enabled")
        self._bytes = rate(f"{produce}.max.bytes.per.sec", f"{produce}.enabled")

    async def admit(self, name: str) -> None:
        if self._requests is None:
            return
        wait = self._requests.take(cost_of(name, self._costs, self._cost), self._patience)
        if wait is None:
            raise errors.too_many("Too many requests: the limit of rate.limit.permits.per.sec is reached.")
        if wait:
            await asyncio.sleep(wait)

    def admits_record(self, record: dict[str, Any]) -> bool:
        if self._records is None or self._bytes is None:
            return True
        return self._records.take(1) is not None and self._bytes.take(len(to_bytes(record))) is not None


def joined(base: str, segments: tuple[object, ...]) -> str:
    return "/".join([base, *(quote(str(segment), safe="-:") for segment in segments)])
