"""One broker process: builds the parts in the order in which they need each other, and takes them down in reverse.

The only place, beside the command line, where real clocks, sockets, files and threads are made.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.metadata.codec import BrokerEntry, Listener
from moldau.metadata.controller.brokers import form_cluster, register_broker
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER
from moldau.metadata.controller.partitions import raise_leader_epochs
from moldau.metadata.image import TopicImage
from moldau.metadata.local import LocalStore
from moldau.metadata.publisher import ImageHolder
from moldau.metrics import Metrics
from moldau.replication.fetch_sessions import FetchSessions
from moldau.server.appends import AppendQueue
from moldau.server.broker import Broker
from moldau.server.connection import AnswerGate
from moldau.server.controller import Controller
from moldau.server.dispatch import Dispatcher
from moldau.server.handlers.catalogue import APIS
from moldau.server.listeners import Host, Listeners, as_addresses
from moldau.server.loop_lag import LoopLag
from moldau.server.partition_table import PartitionTable
from moldau.server.process import (
    configure_logging,
    keep_large_blocks,
    raise_open_file_limit,
    settle_garbage_collector,
)
from moldau.server.upkeep import Upkeep
from moldau.storage.files import OsFiles
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LogManager

log = logging.getLogger("moldau.server.node")

METADATA_FOLDER = "__moldau_metadata"
BLOCKING_THREADS = 8
DRAIN_SECONDS = 10.0


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class BrokerNode:
    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.stopping = asyncio.Event()
        self.exit_code = 0
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="blocking")
        self._undo: list[Callable[[], Any]] = []
        self.metrics = Metrics()

    def run_blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(self._executor, work)

    async def start(self) -> str:
        """Gives the line that tells the world that the broker is ready."""
        started = time.perf_counter()
        config = self.config
        files = OsFiles()
        self.logs = LogManager(files, config, wall_ms=wall_ms, run_blocking=self.run_blocking, random=random.Random())
        self.logs.lock()
        self.listeners = Listeners(config)
        self.listeners.bind()
        await self._open_metadata(files)
        await self._load_logs()
        await self._register()
        self._build_broker()
        await self.listeners.accept(self.host)
        seconds = time.perf_counter() - started
        addresses = " ".join(as_addresses(self.listeners.advertised()))
        return f"moldau broker {config.node_id} ready at {addresses} in {seconds:.2f} s"

    async def _open_metadata(self, files: OsFiles) -> None:
        config = self.config
        folder = os.path.join(config.log_dirs[0], METADATA_FOLDER)
        self.store = await LocalStore.open(folder, SerialExecutor("metadata"), files=files)
        self.store.on_session_lost(lambda reason: self.fail(f"the metadata store is lost: {reason}"))
        self.images = ImageHolder(self.store)
        await self.images.start()
        self.controller = Controller(self.store, self.images, lambda: self.config, random.Random(), uuid.uuid4)
        await self.controller.decide(lambda image: form_cluster(image, new_cluster_id(), FEATURES_OF_A_NEW_CLUSTER))

    async def _load_logs(self) -> None:
        """After the leader epochs were raised: no two histories of a partition share an epoch."""
        await self.controller.decide(lambda image: raise_leader_epochs(image, self.config.node_id))
        await self.logs.load(self.images.image, self.topic_config)
        self.partitions = PartitionTable(self.config.node_id, self.logs, self.topic_config)
        self.partitions.load(self.images.image)
        self.images.subscribe(self.partitions.apply)

    def topic_config(self, topic: TopicImage) -> TopicConfig:
        return TopicConfig.resolve(topic.configs, self.config)

    async def _register(self) -> None:
        listeners = [
            Listener(name, host, port, "PLAINTEXT") for name, (host, port) in self.listeners.advertised().items()
        ]
        entry = BrokerEntry(uuid.uuid4(), tuple(listeners), self.config.broker_rack, False)
        await self.controller.decide(lambda image: register_broker(image, self.config.node_id, entry))

    def _build_broker(self) -> None:
        config = self.config
        rng = random.Random()
        gate = AnswerGate()
        self.appends = AppendQueue(self._loop.call_soon, self.run_blocking, self.storage_failed, gate)
        self.broker = Broker(
            config,
            self.images,
            self.controller,
            self.logs,
            self.partitions,
            self.appends,
            self.metrics,
            FetchSessions(config.max_incremental_fetch_session_cache_slots, lambda: rng.randrange(1, 2**31)),
            wall_ms,
            self.storage_failed,
        )
        self.broker.apis = APIS
        self.dispatcher = Dispatcher(self.broker, APIS)
        self.host = Host(config, self.dispatcher.dispatch, self._executor, self.metrics, gate)
        self.lag = LoopLag(self._loop, self.metrics)
        self.lag.start()
        self.upkeep = Upkeep()

    def storage_failed(self, partition_log: PartitionLog | None, error: Exception) -> None:
        log.error("storage failed: %s", error)

    def fail(self, reason: str) -> None:
        """Ends the process in order, with an exit code that says that it did not want to."""
        log.critical("stopping: %s", reason)
        self.exit_code = 1
        self.stopping.set()

    async def stop(self) -> None:
        """Stops accepting, lets requests under way finish, flushes, and marks the shutdown as clean."""
        self.listeners.close()
        await self.upkeep.stop()
        await self._drain()
        self.lag.stop()
        self.images.stop()
        await self.logs.close(clean=True)
        await self.store.close()
        self._executor.shutdown()

    async def _drain(self) -> None:
        self.appends.flush()
        for connection in list(self.host.connections):
            if connection.waiting is not None or connection.idle:
                connection.close()
        end = self._loop.time() + DRAIN_SECONDS
        # Connections end one by one, each for its own reasons: looking now and then is simpler than being told.
        while any(not connection.idle for connection in self.host.connections) and self._loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self.host.connections):
            connection.abort()


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class SerialExecutor:
    """Runs blocking work of one owner in a thread, one piece after the other."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    def __call__(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work)


async def serve(config: BrokerConfig) -> int:
    node = BrokerNode(config)
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, node.stopping.set)
    print(await node.start(), flush=True)  # noqa: T201  # the one line that scripts wait for
    settle_garbage_collector()
    await node.stopping.wait()
    await node.stop()
    return node.exit_code


def run(config: BrokerConfig) -> int:
    import uvloop

    configure_logging()
    raise_open_file_limit()
    keep_large_blocks()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config))
