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
import sys
import time
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.coordinators.machine import ProducerStamp
from moldau.metadata.codec import BadEntryError, BrokerEntry, Listener
from moldau.metadata.controller.brokers import form_cluster, register_broker, unfence_broker
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER
from moldau.metadata.controller.min_insync import settings_of_a_new_cluster
from moldau.metadata.controller.partitions import raise_leader_epochs
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.local import LocalStore
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import StoreError
from moldau.metrics import Metrics
from moldau.replication.fetch_sessions import FetchSessions
from moldau.server.appends import AppendQueue
from moldau.server.broker import Broker
from moldau.server.connection import AnswerGate
from moldau.server.controller import Controller
from moldau.server.coordination.groups import forget_deleted_topics, group_service
from moldau.server.coordination.loop_timers import LoopTimers
from moldau.server.coordination.markers import MarkerWriter
from moldau.server.coordination.service import CoordinatorService
from moldau.server.coordination.transactions import TransactionCoordinator
from moldau.server.dispatch import Dispatcher
from moldau.server.duties import begin_duties, begin_transaction_duties
from moldau.server.dynamic_config import DynamicConfig, reconfigured_topics
from moldau.server.gauges import register_gauges
from moldau.server.handlers.catalogue import APIS
from moldau.server.listeners import Host, Listeners, as_addresses
from moldau.server.loop_lag import LoopLag
from moldau.server.partition_table import PartitionTable
from moldau.server.process import (
    configure_logging,
    keep_large_blocks,
    raise_open_file_limit,
    rest_garbage_collector,
    settle_garbage_collector,
)
from moldau.server.producer_ids import ProducerIds
from moldau.server.recovery_progress import RecoveryProgress
from moldau.server.services import Clocks, Services
from moldau.server.upkeep import Upkeep
from moldau.storage.checkpoints import CorruptFileError, DirectoryInUseError
from moldau.storage.files import OsFiles
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import InconsistentDirectoryError
from moldau.storage.manager import LogManager, ManagerEvents
from moldau.storage.ownership import METADATA_FOLDER, refuse_foreign_folders
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition
from moldau.work.turns import Work
from moldau.work.turns import run as run_work

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


REAL_CLOCKS = Clocks(time.monotonic, wall_ms, boot_seconds)


class BrokerNode:
    def __init__(self, config: BrokerConfig) -> None:
        self._dynamic = DynamicConfig(config)
        self.stopping = asyncio.Event()
        self.exit_code = 0
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="blocking")
        self.metrics = Metrics()
        self.upkeep = Upkeep()
        self._coordinators: tuple[CoordinatorService[Any], ...] = ()

    @property
    def config(self) -> BrokerConfig:
        """As it is now, with what was changed while the broker ran."""
        return self._dynamic.current

    def run_blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(self._executor, work)

    # --- start ---

    async def start(self) -> str:
        """Gives the line that tells the world that the broker is ready."""
        started = time.perf_counter()
        files = OsFiles()
        refuse_foreign_folders(files, self.config.log_dirs)
        await self._open_metadata(files)
        await self._open_logs(files)
        self.listeners = Listeners(self.config)
        self.listeners.bind()
        await self._register()
        self._build_broker()
        begin_transaction_duties(self.upkeep, self.config, self.transactions)
        begin_duties(self.upkeep, self.config, self.logs, self.host, wall_ms, self._loop.time)
        await self.listeners.accept(self.host)
        seconds = time.perf_counter() - started
        addresses = " ".join(as_addresses(self.listeners.advertised()))
        folders = ", ".join(self.config.log_dirs)
        return f"moldau broker {self.config.node_id} ready at {addresses} in {seconds:.2f} s, data in {folders}"

    async def _open_metadata(self, files: OsFiles) -> None:
        folder = os.path.join(self.config.log_dirs[0], METADATA_FOLDER)
        self.store = await LocalStore.open(folder, SerialExecutor("metadata"), files=files)
        self.services = Services(self.store, REAL_CLOCKS, random.Random(), uuid.uuid4)
        self.store.on_session_lost(lambda reason: self.fail(f"the metadata store is lost: {reason}"))
        self.images = ImageHolder(self.store, lambda error: self.fail(f"the metadata cannot be followed: {error}"))
        await self.images.start()
        self.controller = Controller(self.services, self.images, lambda: self.config)
        first_settings = settings_of_a_new_cluster(self.config)
        await self.controller.decide(
            lambda image: form_cluster(image, new_cluster_id(), FEATURES_OF_A_NEW_CLUSTER, first_settings)
        )
        self._dynamic.load(self.images.image)
        self.images.subscribe(self._dynamic.apply)

    async def _open_logs(self, files: OsFiles) -> None:
        """The leader epochs are raised first: no two histories of a partition share an epoch."""
        self.logs = LogManager(
            files,
            self.config,
            events=ManagerEvents(
                directory_failed=self._directory_failed,
                all_directories_failed=lambda: self.fail("no log folder is left"),
                log_replaced=self._log_replaced,
            ),
            run_blocking=self.run_blocking,
            wall_ms=wall_ms,
            new_uuid=uuid.uuid4,
            jitter=lambda limit: random.randrange(limit) if limit > 0 else 0,
        )
        self.partitions = PartitionTable(self.config.node_id, self.logs, self.topic_config)
        self.logs.high_watermark = self.partitions.high_watermark
        await self.logs.open(self.images.image.cluster_id or "")
        await self.controller.decide(lambda image: raise_leader_epochs(image, self.config.node_id))
        image = self.images.image
        await self.logs.load(
            topic_config=lambda name: self.topic_config(image.topics[name]),
            is_known=lambda partition, topic_id: is_known(image, partition, topic_id),
            on_progress=RecoveryProgress(time.monotonic),
        )
        await run_work(self.partitions.load(image))
        self.images.subscribe(self.partitions.apply, self.partitions.preparing)

    def topic_config(self, topic: TopicImage) -> TopicConfig:
        return TopicConfig.resolve(topic.configs, self.config)

    async def _register(self) -> None:
        listeners = tuple(
            Listener(name, host, port, "PLAINTEXT") for name, (host, port) in self.listeners.advertised().items()
        )
        entry = BrokerEntry(uuid.uuid4(), listeners, self.config.broker_rack)
        await self.controller.decide(lambda image: register_broker(image, self.config.node_id, entry))
        await self.controller.decide(lambda image: unfence_broker(image, self.config.node_id))

    def _build_broker(self) -> None:
        config = self.config
        rng = self.services.rng
        gate = AnswerGate()
        self.appends = AppendQueue(
            self._loop.call_soon, self.run_blocking, self.logs.io_failed, self._segment_rolled, gate
        )
        self._begin_coordination()
        self.broker = Broker(
            config,
            self.services,
            self.images,
            self.controller,
            self.logs,
            self.partitions,
            self.appends,
            self.metrics,
            FetchSessions(config.max_incremental_fetch_session_cache_slots, lambda: rng.randrange(1, 2**31)),
            self.groups,
            self.transactions,
            self.producer_ids,
            APIS,
        )
        self.dispatcher = Dispatcher(self.broker, APIS)
        self.host = Host(config, self.dispatcher.dispatch, self._executor, self.metrics, gate)
        self._dynamic.subscribe(self._reconfigure)
        register_gauges(self.metrics, self.partitions, self.logs)
        self.lag = LoopLag(self._loop, self.metrics)
        self.lag.start()

    def _begin_coordination(self) -> None:
        timers = LoopTimers(self._loop)
        self.producer_ids = ProducerIds(self.controller)
        self.groups = group_service(
            timers,
            self.partitions,
            self.appends,
            self.run_blocking,
            lambda: self.config,
            lambda: self.images.image,
            self._loop.time,
            wall_ms,
            uuid.uuid4,
        )
        markers = MarkerWriter(self.partitions, self.appends, wall_ms, self._transaction_ended)
        self.transactions = TransactionCoordinator(
            timers,
            self.partitions,
            self.appends,
            self.run_blocking,
            lambda: self.config,
            lambda: self.images.image,
            self._loop.time,
            wall_ms,
            self.producer_ids,
            markers,
        )
        self._coordinators = (self.groups, self.transactions.service)
        for service in self._coordinators:
            service.load(self.images.image)
            self.images.subscribe(service.apply)
        self.images.subscribe(lambda old, new, delta: forget_deleted_topics(self.groups, delta))

    # --- events ---

    def _transaction_ended(self, partition: TopicPartition, producer: ProducerStamp, committed: bool) -> None:
        if partition.topic == self.groups.topic:
            self.groups.runtime.end_transaction(partition.partition, producer, committed)

    def _reconfigure(self, old: BrokerConfig, new: BrokerConfig) -> Work[None]:
        self.broker.config = new
        self.host.reconfigure(new)
        yield from self.logs.reconfigure(new)
        for topic in reconfigured_topics(old, new, self.images.image):
            yield from self.partitions.reconfigure(topic)

    def _segment_rolled(self, partition_log: PartitionLog) -> None:
        self.logs.note_rolled(partition_log)
        self.upkeep.once("the flush of a completed segment", self.logs.flush_rolled)

    def _log_replaced(self, partition: TopicPartition, moved: PartitionLog) -> None:
        self.partitions.replace_log(partition, moved)

    def _directory_failed(self, path: str, lost: Collection[TopicPartition], error: Exception) -> None:
        self.partitions.take_offline(lost)
        for service in self._coordinators:
            service.logs_lost()

    def fail(self, reason: str) -> None:
        """Ends the process in order, with an exit code that says that it did not want to."""
        log.critical("stopping: %s", reason)
        self.exit_code = 1
        self.stopping.set()

    # --- end ---

    async def stop(self) -> None:
        """Stops accepting, lets requests under way finish, flushes, and marks the shutdown as clean."""
        self.listeners.close()
        await self.upkeep.stop()
        self.appends.flush()
        # Whoever waits for a group is sent to its next coordinator, instead of being waited for.
        await self.transactions.stop()
        await self.groups.stop()
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
        while self._is_busy() and self._loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self.host.connections):
            connection.abort()

    def _is_busy(self) -> bool:
        return any(not connection.idle for connection in self.host.connections if connection.open)


def is_known(image: ClusterImage, partition: TopicPartition, topic_id: uuid.UUID | None) -> bool:
    topic = image.topics.get(partition.topic)
    return topic is not None and partition.partition < len(topic.partitions) and topic_id in (None, topic.id)


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
    try:
        ready = await node.start()
    except START_ERRORS as error:
        sys.stderr.write(f"moldau: cannot start: {error}\n")
        return CANNOT_START
    settle_garbage_collector()
    sys.stdout.write(ready + "\n")
    sys.stdout.flush()
    await node.stopping.wait()
    await node.stop()
    return node.exit_code


def run(config: BrokerConfig) -> int:
    import uvloop

    configure_logging()
    raise_open_file_limit()
    keep_large_blocks()
    rest_garbage_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config))
