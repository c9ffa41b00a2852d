"""One broker process: the broker, its sockets, its signals.

The only place, beside the command line, where real clocks, sockets, files and threads are made.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from moldau.config.broker import BrokerConfig
from moldau.metadata.codec import BadEntryError
from moldau.metadata.local import LocalStore
from moldau.metadata.store import ClusterStore, StoreError
from moldau.metrics import Metrics
from moldau.security.authorizer import AllowAll, Authorizer
from moldau.security.quotas import client_quotas
from moldau.security.standard import StandardAuthorizer, super_users
from moldau.server.core import BrokerCore
from moldau.server.host_names import addresses_of
from moldau.server.listeners import Listeners, as_addresses
from moldau.server.loop_lag import LoopLag
from moldau.server.metrics_http import MetricsServer
from moldau.server.numbering import numbered
from moldau.server.peers.opening import dial_tcp
from moldau.server.process import (
    configure_logging,
    keep_large_blocks,
    raise_open_file_limit,
    rest_garbage_collector,
    settle_garbage_collector,
)
from moldau.server.services import Clocks, Services
from moldau.server.store_metrics import request_times, show_session
from moldau.storage.checkpoints import CorruptFileError, DirectoryInUseError
from moldau.storage.files import OsFiles
from moldau.storage.log_directory import InconsistentDirectoryError
from moldau.storage.ownership import METADATA_FOLDER, refuse_foreign_directories
from moldau.types.errors import KafkaError

if TYPE_CHECKING:
    from moldau.metadata.zookeeper.store import ZooKeeperStore
    from moldau.server.kafka_view import KafkaView
    from moldau.server.log_files import LogFiles

log = logging.getLogger("moldau.server.node")

BLOCKING_THREADS = 8
DRAIN_SECONDS = 10.0
CANNOT_START = 1

#: What may be wrong with a machine or its files at start: told in one line, without a traceback.
START_ERRORS = (
    OSError, ValueError, StoreError, BadEntryError, DirectoryInUseError, InconsistentDirectoryError, CorruptFileError,
    KafkaError,
)  # fmt: skip


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def boot_id() -> str:
    """Another one after each start of the machine; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


REAL_CLOCKS = Clocks(time.monotonic, wall_ms, boot_seconds)


class BrokerNode:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.stopping = asyncio.Event()
        self.exit_code = 0
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="blocking")
        self._zookeeper: ZooKeeperStore | None = None
        self.kafka_view: KafkaView | None = None

    def run_blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(self._executor, work)

    async def start(self) -> str:
        """Gives the line that tells the world that the broker is ready."""
        started = time.perf_counter()
        config, files = self._config, OsFiles()
        refuse_foreign_directories(files, config.log_dirs)
        self.store = await self._open_store(files)
        config = self._config = await numbered(config, self.store, files)
        metrics = Metrics()
        services = Services(
            self.store,
            dial_tcp,
            files,
            self.run_blocking,
            REAL_CLOCKS,
            random.Random(),
            os.urandom,
            uuid.uuid4,
            metrics,
            client_quotas(config, REAL_CLOCKS.monotonic, metrics),
            addresses_of,
            boot_id(),
            authorizer_of(config),
        )
        self.core = BrokerCore(config, services, self.fail)
        self.lag = LoopLag(self._loop, self.core.metrics, time.thread_time)
        self.lag.start()
        await self.core.open()
        self.listeners = Listeners(self.core.config)
        self.listeners.bind()
        await self.core.join(self.listeners.advertised())
        self._begin_view()
        self._show_session()
        self.metrics_server = MetricsServer(self.core.metrics, self.core.group_lags.refresh)
        for address in await self.metrics_server.listen(config.metrics_listeners):
            log.info("metrics at %s", address)
        self.listeners.accept(self.core.host, self.core.gates, self.core.doors)
        seconds = time.perf_counter() - started
        addresses = " ".join(as_addresses(self.listeners.advertised()))
        directories = ", ".join(config.log_dirs)
        return f"moldau broker {config.node_id} ready at {addresses} in {seconds:.2f} s, data in {directories}"

    async def _open_store(self, files: OsFiles) -> ClusterStore:
        zookeeper = self._config.zookeeper
        if zookeeper is not None:
            from moldau.metadata.zookeeper.opening import open_zookeeper_store

            opened = await open_zookeeper_store(zookeeper)
            self._zookeeper = opened
            store: ClusterStore = opened
        else:
            place = os.path.join(self._config.log_dirs[0], METADATA_FOLDER)
            store = await LocalStore.open(place, SerialExecutor("metadata"), files=files)
        store.on_session_lost(lambda reason: self.fail(f"the metadata store is lost: {reason}"))
        return store

    def _begin_view(self) -> None:
        if self._zookeeper is None or not self._config.moldau_kafka_view_enable:
            return
        from moldau.server.kafka_view import KafkaView

        shown = KafkaView(self._zookeeper.view, self.core.images, self._config.node_id, REAL_CLOCKS.wall_ms)
        self.store.on_session(lambda _state: shown.begin_anew())
        shown.begin()
        self.kafka_view = shown

    def _show_session(self) -> None:
        if self._zookeeper is not None:
            show_session(self.core.metrics, self._zookeeper)
            self._zookeeper.time_requests(request_times(self.core.metrics).record)

    def fail(self, reason: str) -> None:
        """Ends the process in order, with an exit code that says that it did not want to."""
        log.critical("stopping: %s", reason)
        self.exit_code = 1
        self.stopping.set()

    async def stop(self) -> None:
        """Stops accepting, lets requests under way finish, flushes, and marks the shutdown as clean."""
        await self.core.leave()
        self.listeners.close()
        self.metrics_server.close()
        await self.core.stop()
        await self._drain()
        self.lag.stop()
        if self.kafka_view is not None:
            await self.kafka_view.stop()
        await self.core.close()
        self._executor.shutdown()

    async def _drain(self) -> None:
        self.core.appends.flush()
        for connection in list(self.core.host.connections):
            if connection.waiting is not None or connection.idle:
                connection.close()
        end = self._loop.time() + DRAIN_SECONDS
        # Connections end one by one, each for its own reasons: looking now and then is simpler than being told.
        while self._is_busy() and self._loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self.core.host.connections):
            connection.abort()

    def _is_busy(self) -> bool:
        return any(not connection.idle for connection in self.core.host.connections if connection.open)


def authorizer_of(config: BrokerConfig) -> Authorizer:
    if not config.authorizer_class_name:
        return AllowAll()
    return StandardAuthorizer(super_users(config.super_users), config.allow_everyone_if_no_acl_found)


class SerialExecutor:
    """Runs blocking work of one owner in a thread, one piece after the other."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    def __call__(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work)


async def serve(config: BrokerConfig, told: Callable[[str], None]) -> int:
    """`told` hears of starts and stops, for a file that shall hold them beside everything else."""
    node = BrokerNode(config)
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, node.stopping.set)
    try:
        ready = await node.start()
    except START_ERRORS as error:
        told(f"cannot start: {error}")
        sys.stderr.write(f"moldau: cannot start: {error}\n")
        return CANNOT_START
    settle_garbage_collector()
    sys.stdout.write(ready + "\n")
    sys.stdout.flush()
    told(ready)
    await node.stopping.wait()
    await node.stop()
    told("stopped")
    return node.exit_code


def run(config: BrokerConfig, log_files: LogFiles | None = None) -> int:
    import uvloop

    configure_logging(log_files)
    raise_open_file_limit()
    keep_large_blocks()
    rest_garbage_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config, log.info if log_files is not None else lambda line: None))
