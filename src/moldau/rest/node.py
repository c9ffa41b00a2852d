"""The process of one proxy: real clocks, threads and sockets are made here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

from moldau.metrics import Metrics
from moldau.rest import errors
from moldau.rest.api import make_api
from moldau.rest.proxy import Proxy
from moldau.rest.settings import RestSettings
from moldau.web import Service

log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0


@asynccontextmanager
async def running(settings: RestSettings) -> AsyncIterator[tuple[Service, Proxy]]:
    """A proxy that listens; it is ready once the brokers were reached."""
    metrics = Metrics()
    proxy = Proxy(settings, metrics, time.monotonic, uuid4)
    duties = [asyncio.create_task(proxy.watch()), asyncio.create_task(reach(proxy))]
    try:
        service = Service(make_api(proxy), settings.web, metrics, time.time, lambda: proxy.problem, proxy.closing.set)
        async with service:
            yield service, proxy
    finally:
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*duties, return_exceptions=True)
        await proxy.close()


async def reach(proxy: Proxy) -> None:
    """Whether the brokers answer, for /ready; asked again and again."""
    while True:
        try:
            # Users log in themselves; the proxy itself may have no login.
            if not proxy.settings.flag("client.credentials.from.http"):
                await proxy.backends.shared.cluster()
            proxy.problem = None
            proxy.reached.set()
        except errors.RestError as error:
            proxy.problem = error.message
        await asyncio.sleep(LOOK_SECONDS if proxy.problem is None else 1.0)


async def until_reached(proxy: Proxy) -> None:
    """At most as long as a start may wait."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(proxy.settings.seconds("client.init.timeout.ms")):
            await proxy.reached.wait()
    if proxy.problem is not None:
        raise ConnectionError(f"the brokers cannot be reached: {proxy.problem}")


async def serve(settings: RestSettings, ready: Callable[[str], None]) -> None:
    """Until SIGTERM; `ready` gets the addresses once the brokers were reached."""
    async with running(settings) as (service, proxy):
        await until_reached(proxy)
        ready(",".join(map(str, service.listeners)))
        await service.run_until_stopped()
