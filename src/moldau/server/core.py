"""A broker without its sockets: builds the parts in the order in which they need each other, and takes them down in
reverse. What is real (clocks, files, threads, the store) is given to it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.coordinators.machine import ProducerStamp
from moldau.metadata.codec import Listener
from moldau.metadata.controller.brokers import form_cluster
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER
from moldau.metadata.controller.min_insync import settings_of_a_new_cluster
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.publisher import ImageHolder
from moldau.metrics import Metrics
from moldau.replication.fetch_sessions import FetchSessions
from moldau.server.appends import AppendQueue
from moldau.server.broker import Broker
from moldau.server.connection import AnswerGate
from moldau.server.controller import Controller
from moldau.server.controllership import Controllership
from moldau.server.coordination.groups import forget_deleted_topics, group_service
from moldau.server.coordination.loop_timers import LoopTimers
from moldau.server.coordination.marker_routing import MarkerRouter
from moldau.server.coordination.markers import MarkerWriter
from moldau.server.coordination.service import CoordinatorService
from moldau.server.coordination.transactions import TransactionCoordinator
from moldau.server.dispatch import Dispatcher
from moldau.server.duties import begin_duties, begin_transaction_duties
from moldau.server.dynamic_config import DynamicConfig, reconfigured_topics
from moldau.server.folder_reports import FolderReports
from moldau.server.forwarding import Forwarding
from moldau.server.gauges import register_controller_gauges, register_gauges
from moldau.server.handlers.catalogue import APIS
from moldau.server.listeners import Host
from moldau.server.membership import Lineage, Membership
from moldau.server.partition_table import PartitionTable
from moldau.server.peers.links import Links
from moldau.server.peers.network import NetworkPeers
from moldau.server.peers.opening import Opener, Self
from moldau.server.producer_ids import ProducerIds
from moldau.server.recovery_progress import RecoveryProgress
from moldau.server.replicas.isr_changes import neighbours_in
from moldau.server.replicas.replication import Replication
from moldau.server.services import Services
from moldau.server.upkeep import Upkeep
from moldau.storage.folders import Mark
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LogManager, ManagerEvents
from moldau.types.ids import TopicPartition
from moldau.work.turns import Work, at_once

log = logging.getLogger("moldau.server.core")

#: How long a stop waits until others have taken over what this broker leads.
LEAVE_SECONDS = 30.0

#: How long a start waits for the links to other brokers.
LINK_SECONDS = 1.0

#: A client's listener: its name, and the host and port that it is told.
Advertised = Mapping[str, tuple[str, int]]


class BrokerCore:
    def __init__(self, config: BrokerConfig, services: Services, fail: Callable[[str], None]) -> None:
        """`fail` is called, with the reason, when the broker cannot go on."""
        self.services = services
        self._fail = fail
        self._dynamic = DynamicConfig(config)
        self._loop = asyncio.get_running_loop()
        self.metrics = Metrics()
        self.upkeep = Upkeep()
        self._coordinators: tuple[CoordinatorService[Any], ...] = ()

    @property
    def config(self) -> BrokerConfig:
        """As it is now, with what was changed while the broker ran."""
        return self._dynamic.current

    # --- start ---

    async def open(self) -> None:
        """Reads metadata and logs: after a crash this is what takes long."""
        await self._open_metadata()
        self._prepare_membership()
        await self._open_logs()

    async def join(self, advertised: Advertised) -> None:
        """Makes this broker a member of the cluster, and everything that serves requests."""
        await self._become_a_member(advertised)
        self._load_partitions()
        self._build_broker()
        self.replication.begin(self.images, self.upkeep)
        self.folder_reports.begin(self.upkeep)
        begin_transaction_duties(self.upkeep, self.config, self.transactions)
        clocks = self.services.clocks
        begin_duties(self.upkeep, self.config, self.logs, self.host, clocks.wall_ms, self._loop.time)

    async def _open_metadata(self) -> None:
        self.images = ImageHolder(
            self.services.store, lambda error: self._fail(f"the metadata cannot be followed: {error}")
        )
        await self.images.start()
        self.controller = Controller(self.config.node_id, self.services, self.images, lambda: self.config)
        first_settings = settings_of_a_new_cluster(self.config)
        cluster_id = new_cluster_id(self.services.new_uuid())
        await self.controller.decide_own(
            lambda image: form_cluster(image, cluster_id, FEATURES_OF_A_NEW_CLUSTER, first_settings)
        )
        # What is not in the image from here on was not there when we came: nothing else may be taken for deleted.
        await self.images.reached(await self.services.store.sync())
        self._dynamic.load(self.images.image)
        self.images.subscribe(self._dynamic.apply)

    async def _open_logs(self) -> None:
        services, rng = self.services, self.services.rng
        self.logs = LogManager(
            services.files,
            self.config,
            events=ManagerEvents(
                directory_failed=self._directory_failed,
                all_directories_failed=lambda: self._fail("no log folder is left"),
                log_replaced=self._log_replaced,
            ),
            run_blocking=services.run_blocking,
            wall_ms=services.clocks.wall_ms,
            new_uuid=services.new_uuid,
            jitter=lambda limit: rng.randrange(limit) if limit > 0 else 0,
        )
        neighbours = neighbours_in(
            lambda: self.images.image, services.clocks.monotonic, lambda: self.config.replica_lag_time_max_ms
        )
        self.partitions = PartitionTable(self.config.node_id, self.logs, self.topic_config, neighbours)
        self.logs.high_watermark = self.partitions.high_watermark
        await self.logs.open(self.images.image.cluster_id or "")
        image = self.images.image
        await self.logs.load(
            topic_config=lambda name: self.topic_config(image.topics[name]),
            is_known=lambda partition, topic_id: is_ours(image, self.config.node_id, partition, topic_id),
            on_progress=RecoveryProgress(services.clocks.monotonic),
        )

    def _load_partitions(self) -> None:
        """In one turn of the loop: no image may come between loading one and following the next."""
        image = self.images.image
        for found in tuple(self.logs.logs()):
            if not is_ours(
                image, self.config.node_id, found.topic_partition, self.logs.topic_id(found.topic_partition)
            ):
                self.logs.delete(found.topic_partition, Mark.STRAY)
        at_once(self.partitions.load(image))
        self.images.subscribe(self.partitions.apply, self.partitions.preparing)
        self.folder_reports.found(
            {found.topic_partition: self.logs.directory_of(found).id for found in self.logs.logs()}
        )

    def topic_config(self, topic: TopicImage) -> TopicConfig:
        return TopicConfig.resolve(topic.configs, self.config)

    def _prepare_membership(self) -> None:
        config, services, images = self.config, self.services, self.images
        opener = Opener(self._ourselves, services.random_bytes, dial=services.dial)
        self.peers = NetworkPeers(lambda: images.image, config.inter_broker_listener_name, opener)
        images.subscribe(self.peers.apply)
        self.controllership = Controllership(
            config.node_id, services, images, self.controller, lambda: self.config, self.metrics
        )
        self.membership = Membership(
            config.node_id, services, images, self.controller, self.controllership, self.peers, self._failed_folders
        )
        self.folder_reports = FolderReports(
            config.node_id, images, self.controller, self.peers, lambda: self.membership.epoch, lambda: self.config
        )

        self.links = Links(
            config.node_id,
            config.inter_broker_listener_name,
            opener,
            self.controllership.evidence_of_death,
            self.metrics,
        )

    def _ourselves(self) -> Self:
        return Self(self.config.node_id, self.images.image.cluster_id or "", self.membership.incarnation)

    async def _become_a_member(self, advertised: Advertised) -> None:
        listeners = tuple(Listener(name, host, port, "PLAINTEXT") for name, (host, port) in advertised.items())
        await self.membership.register(listeners, self.config.broker_rack, self._lineage())
        if self.config.moldau_peer_links_enable:
            self.links.load(self.images.image)
            self.images.subscribe(self.links.apply)
        self.controllership.begin()
        self.membership.begin()
        await self.membership.admitted()
        await self.links.tried(LINK_SECONDS)

    def _lineage(self) -> Lineage:
        clean_epochs = {directory.clean_epoch for directory in self.logs.directories}
        return Lineage(
            tuple(directory.id for directory in self.logs.directories if not directory.offline),
            self.services.boot_id,
            clean_epochs.pop() if len(clean_epochs) == 1 else None,
        )

    def _failed_folders(self) -> tuple[UUID, ...]:
        return tuple(directory.id for directory in self.logs.directories if directory.offline)

    def _build_broker(self) -> None:
        config = self.config
        rng = self.services.rng
        gate = AnswerGate()
        self.appends = AppendQueue(
            self._loop.call_soon, self.services.run_blocking, self.logs.io_failed, self._segment_rolled, gate
        )
        self._begin_coordination()
        self.replication = Replication(
            lambda: self.config,
            self.services,
            self.peers,
            self.partitions,
            self.logs,
            self._segment_rolled,
            self.controller,
            lambda: self.membership.epoch,
        )
        self.broker = Broker(
            config,
            self.services,
            self.images,
            self.controller,
            self.controllership,
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
        self.broker.forwarding = Forwarding(
            self.broker, self.controller, self.peers, self.images.next, self.services.clocks.monotonic
        )
        self.broker.propose_isr = self.replication.propose
        self.broker.suspects = self.links.suspects
        self.dispatcher = Dispatcher(self.broker, APIS)
        self.host = Host(config, self.dispatcher.dispatch, self.services.run_blocking, self.metrics, gate)
        self._dynamic.subscribe(self._reconfigure)
        register_gauges(self.metrics, self.partitions, self.logs)
        register_controller_gauges(self.metrics, lambda: self.images.image, config.node_id)

    def _begin_coordination(self) -> None:
        timers = LoopTimers(self._loop)
        services, wall_ms = self.services, self.services.clocks.wall_ms
        self.producer_ids = ProducerIds(self.controller)
        self.groups = group_service(
            timers,
            self.partitions,
            self.appends,
            services.run_blocking,
            lambda: self.config,
            lambda: self.images.image,
            self._loop.time,
            wall_ms,
            services.new_uuid,
        )
        markers = MarkerRouter(
            self.config.node_id,
            MarkerWriter(self.partitions, self.appends, wall_ms, self._transaction_ended),
            lambda: self.images.image,
            self.images.next,
            self.peers,
        )
        self.transactions = TransactionCoordinator(
            timers,
            self.partitions,
            self.appends,
            services.run_blocking,
            lambda: self.config,
            lambda: self.images.image,
            self._loop.time,
            wall_ms,
            self.producer_ids,
            markers,
            self.config.node_id,
            self.peers,
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
        self.folder_reports.found({partition: self.logs.directory_of(moved).id})

    def _directory_failed(self, path: str, lost: Collection[TopicPartition], error: Exception) -> None:
        self.partitions.take_offline(lost)
        if lost:
            self.folder_reports.failed(self.logs.directory_at(path).id, lost)
        for service in self._coordinators:
            service.logs_lost()
        self.membership.wake()

    # --- end ---

    async def leave(self) -> None:
        """Hands over what this broker leads, where there is somebody to take it."""
        if self.config.controlled_shutdown_enable and not await self.membership.leave(LEAVE_SECONDS):
            log.warning("stopping without having handed over all partitions within %g s", LEAVE_SECONDS)

    async def stop(self) -> None:
        """Lets requests under way finish; those that wait are sent away."""
        await self.upkeep.stop()
        await self.replication.stop()
        self.appends.flush()
        # Whoever waits for a group is sent to its next coordinator, instead of being waited for.
        await self.transactions.stop()
        await self.groups.stop()

    async def close(self) -> None:
        """Flushes, and marks the shutdown as clean."""
        self.appends.flush()
        broker_epoch = self.membership.epoch
        await self.membership.stop()
        await self.controllership.stop()
        await self.links.close()
        self.peers.close()
        self.images.stop()
        await self.logs.close(clean=True, broker_epoch=broker_epoch)
        await self.services.store.close()


def is_ours(image: ClusterImage, broker_id: int, partition: TopicPartition, topic_id: UUID | None) -> bool:
    """Whether this broker is a replica of the partition of this topic."""
    topic = image.topics.get(partition.topic)
    return (
        topic is not None
        and topic_id in (None, topic.id)
        and partition.partition < len(topic.partitions)
        and broker_id in topic.partitions[partition.partition].replicas
    )


def new_cluster_id(unique: UUID) -> str:
    return base64.urlsafe_b64encode(unique.bytes).rstrip(b"=").decode()
