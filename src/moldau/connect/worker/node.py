"""The process of a worker: real clocks, threads, sockets and the Spark session are made here."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient

from moldau.client.librdkafka import translate
from moldau.config.definition import ConfigError
from moldau.connect.definitions import ConfigRefused
from moldau.connect.worker.forwarding import Forwarder
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.jvm import SparkLost
from moldau.connect.worker.positions import PositionTables
from moldau.connect.worker.records import Record
from moldau.connect.worker.rest import make_api
from moldau.connect.worker.runner import Backoff, Runner
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.store import MemoryStore
from moldau.metrics import Metrics
from moldau.web import ApiError, Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SECONDS: Final = 60.0
READY: Final = "Worker has completed startup and is ready to handle requests."


@dataclass
class Worker:
    """What a request, or a test, needs of it."""

    service: Service
    herder: Herder
    runner: Runner
    joined: Callable[[], Awaitable[object]] = field(default=lambda: asyncio.sleep(0))
    """Until it knows what is its own."""
    member: object = None
    """Its place in the group, if it has one."""

    async def run_until_stopped(self) -> None:
        """Raises SparkLost."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(self.service.stop)

        self.runner.on_lost = stop
        if self.runner.lost is None:
            await self.service.run_until_stopped()
        if self.runner.lost is not None:
            raise SparkLost(self.runner.lost)


def make_spark(settings: WorkerSettings) -> SparkSession:
    from moldau.spark import session

    given = {name: value for name, value in settings.spark.items() if name != "spark.master"}
    return session("moldau-connect", settings.text("spark.master") or None, ui=False, lag=False, settings=given)


def find_cluster_id(settings: WorkerSettings) -> str:
    found = AdminClient({**translate(settings.kafka)}).list_topics(timeout=SECONDS).cluster_id
    return str(found)


def backoff_of(settings: WorkerSettings) -> Backoff:
    longest = settings.number("connector.restart.backoff.max.ms")
    return Backoff(settings.number("connector.restart.backoff.ms") / 1000, None if longest < 0 else longest / 1000)


@asynccontextmanager
async def standalone(
    settings: WorkerSettings, spark: Callable[[], SparkSession] | None = None
) -> AsyncIterator[Worker]:
    use_plugins(settings.list("plugin.path"))
    tables = make_tables(settings)
    store = MemoryStore(Late(lambda: herder).follow)
    runner = Runner(
        spark or (lambda: make_spark(settings)), settings.defaults, tables, Late(lambda: herder), backoff_of(settings),
        settings.looked_up,
    )  # fmt: skip
    herder = Herder(settings, store, runner, "", lambda: None, lambda: 0, lambda: None, lambda: int(time.time() * 1000))
    cluster_id = await asyncio.to_thread(find_cluster_id, settings)
    api = make_api(herder, tables, Forwarder(), lambda: cluster_id, lambda: ("healthy", READY))
    try:
        async with Service(api, settings.web, Metrics(), time.time) as service:
            herder.worker = address_of(settings, service)
            runner.start()
            yield Worker(service, herder, runner)
    finally:
        await asyncio.to_thread(runner.close)
        await asyncio.to_thread(tables.close)


class Late:
    """The herder, for the runner, which is made before it."""

    def __init__(self, herder: Callable[[], Herder]) -> None:
        self._herder = herder

    def status(self, name: str, task: int | None, state: str | None, trace: str | None) -> None:
        self._herder().status(name, task, state, trace)

    def tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        self._herder().tasks(name, configs)

    def topics(self, name: str, topics: list[str]) -> None:
        self._herder().topics(name, topics)

    def left(self, name: str) -> None:
        self._herder().left(name)

    def closed(self, names: list[str]) -> None:
        self._herder().closed(names)

    def follow(self, record: Record) -> None:
        self._herder().follow(record)


def make_tables(settings: WorkerSettings) -> PositionTables:
    return PositionTables(
        settings.kafka,
        settings.number("offset.storage.partitions"),
        settings.number("offset.storage.replication.factor"),
    )


def use_plugins(folders: Sequence[str]) -> None:
    """Spark's processes on this machine look there too; those of a cluster do not."""
    for folder in folders:
        if folder not in sys.path:
            sys.path.append(folder)
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), folder]))


def address_of(settings: WorkerSettings, service: Service) -> str:
    """`host:port`, as Connect calls a worker."""
    wanted = settings.text("rest.advertised.listener")
    listener = next((each for each in service.listeners if each.scheme == wanted), service.listeners[0])
    named = settings.text("rest.advertised.host.name") or settings.web.text("host.name")
    host = named or (socket.gethostname() if listener.host in ("0.0.0.0", "::") else listener.host)
    return f"{host}:{settings.values['rest.advertised.port'] or listener.port}"


async def serve_standalone(
    settings: WorkerSettings, connectors: Sequence[Mapping[str, str]], ready: Callable[[str], None]
) -> None:
    """Until SIGTERM."""
    async with standalone(settings) as worker:
        for config in connectors:
            await asyncio.to_thread(create, worker.herder, config)
        ready(",".join(map(str, worker.service.listeners)))
        await worker.run_until_stopped()


def create(herder: Herder, config: Mapping[str, str]) -> None:
    name = config.get("name", "")
    try:
        herder.put(name, dict(config), replace=False)
    except ApiError as error:
        raise ConfigRefused([f"{name or 'a connector without a name'}: {error.message}"]) from None


def read_connector(content: str, path: str) -> dict[str, str]:
    """A properties file, or JSON: a configuration, or one with its name as for POST /connectors."""
    import json

    from moldau.config import properties

    try:
        found = json.loads(content)
    except ValueError:
        return properties.parse(content)
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found = {**({"name": found["name"]} if "name" in found else {}), **found["config"]}
    if not isinstance(found, dict):
        raise ConfigError(path, None, "", f"{path}: an object is expected")
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}
