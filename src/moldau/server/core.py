"""A broker without its sockets: builds the parts in the order in which they need each other, and takes them down in
reverse. What is real (clocks, files, threads, the store) is given to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.coordinators.machine import ProducerStamp
from moldau.metadata.codec import Listener
from moldau.metadata.controller.brokers import form_cluster
from moldau.metadata.controller.delegation_tokens import remove_expired
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER
from moldau.metadata.controller.min_insync import settings_of_a_new_cluster
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.publisher import ImageHolder
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.leases import Lease
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
from moldau.server.directory_reports import DirectoryReports, has_lost_directories
from moldau.server.dispatch import Dispatcher
from moldau.server.dynamic_config import DynamicConfig, reconfigured_topics
from moldau.server.forwarding import Forwarding
from moldau.server.gate import Gate, LoginCounts
from moldau.server.gauges import register_controller_gauges, register_gauges, register_group_gauges
from moldau.server.group_lags import GroupLags
from moldau.server.handlers.catalogue import APIS
from moldau.server.introductions import Introductions
from moldau.server.isr_meter import IsrMeter
from moldau.server.listeners import Host
from moldau.server.logins import Logins
from moldau.server.membership import Lineage, Membership
from moldau.server.new_logs import logs_of
from moldau.server.partition_figures import show_followers, show_logs, show_topics
from moldau.server.partition_table import PartitionTable
from moldau.server.peers.links import Links
from moldau.server.peers.login import sasl_settings
from moldau.server.peers.network import NetworkPeers
from moldau.server.peers.opening import Opener, PeerSecurity, Self
from moldau.server.producer_ids import ProducerIds
from moldau.server.recovery_progress import RecoveryProgress
from moldau.server.recurring import begin_duties, begin_transaction_duties
from moldau.server.replicas.isr_changes import neighbours_in
from moldau.server.replicas.replication import Replication
from moldau.server.request_times import show_queues
from moldau.server.services import Services
from moldau.server.state_changes import StateChanges
from moldau.server.store_metrics import commit_times, counting_refusals, show_age_of_metadata, timing_flushes
from moldau.server.timers import Timers
from moldau.server.tls_door import NamedByCertificate, TlsDoor
from moldau.server.traffic import Traffic
from moldau.storage.folders import Mark
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LogManager, ManagerEvents
from moldau.types.ids import TopicPartition
from moldau.types.uuid_text import encode_uuid
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

if TYPE_CHECKING:
    from moldau.server.certificates import Certificates

log = logging.getLogger("moldau.server.core")

#: How long a stop waits until others have taken over what this broker leads.
LEAVE_SECONDS = 30.0

#: How long a start waits for the links to other brokers.
LINK_SECONDS = 1.0

LOOK_AT_KEYS_SECONDS = 1.0

#: A client's listener: its name, and the host and port that it is told.
Advertised = Mapping[str, tuple[str, int]]


class BrokerCore:
    def __init__(self, config: BrokerConfig, services: Services, fail: Callable[[str], None]) -> None:
        """`fail` is called, with the reason, when the broker cannot go on."""
        self.metrics = services.metrics
        self.quotas = services.quotas
        self.services = replace(services, run_blocking=timing_flushes(self.metrics, services.run_blocking))
        self._fail = fail
        self._dynamic = DynamicConfig(config)
        self._loop = asyncio.get_running_loop()
        self.timers = Timers()
        self._coordinators: tuple[CoordinatorService[Any], ...] = ()
        #: Where logs were found at the start, if a directory that this broker had is gone.
        self._kept: dict[TopicPartition, UUID] | None = None

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
        await self.images.hold(self._loading_partitions)
        self._build_broker()
        await self.host.names.known()
        for keys in self._logins.token_keys:
            await keys.first()
        await self.replication.begin(self.images, self.timers)
        self.directory_reports.begin(self.timers)
        begin_transaction_duties(self.timers, self.config, self.transactions)
        clocks = self.services.clocks
        begin_duties(self.timers, self.config, self.logs, self.host, clocks.wall_ms, self._loop.time)

    async def _open_metadata(self) -> None:
        self.images = ImageHolder(
            self.services.store, lambda error: self._fail(f"the metadata cannot be followed: {error}")
        )
        await self.images.start()
        self.controller = Controller(self.config.node_id, self.services, self.images, lambda: self.config)
        self.controller.commit_times = commit_times(self.metrics)
        first_settings = settings_of_a_new_cluster(self.config)
        cluster_id = new_cluster_id(self.services.new_uuid())
        await self.controller.decide_own(
            lambda image: form_cluster(image, cluster_id, FEATURES_OF_A_NEW_CLUSTER, first_settings)
        )
        # What is not in the image from here on was not there when we came: nothing else may be taken for deleted.
        await self.images.reached(await self.services.store.sync())
        self._dynamic.load(self.images.image)
        self.images.subscribe(self._dynamic.apply)
        self.quotas.load(self.images.image)
        self.images.subscribe(self.quotas.apply)
        self.services.authorizer.load(self.images.image)
        self.images.subscribe(self.services.authorizer.apply)

    def _current_as_of(self) -> float:
        return self.services.store.current_as_of(self.images.image.version)

    async def _open_logs(self) -> None:
        services, rng = self.services, self.services.rng
        self.logs = LogManager(
            services.files,
            self.config,
            events=ManagerEvents(
                directory_failed=self._directory_failed,
                all_directories_failed=lambda: self._fail("no log directory is left"),
                log_replaced=self._log_replaced,
            ),
            run_blocking=services.run_blocking,
            wall_ms=services.clocks.wall_ms,
            new_uuid=services.new_uuid,
            jitter=lambda limit: rng.randrange(limit) if limit > 0 else 0,
        )
        neighbours = neighbours_in(
            lambda: self.images.image,
            services.clocks.monotonic,
            lambda: self.config.replica_lag_time_max_ms,
            Lease(
                services.store.lease_seconds,
                services.clocks.boot_seconds,
                self._current_as_of,
                counting_refusals(self.metrics),
            ),
        )
        self.partitions = PartitionTable(self.config.node_id, self.logs, self.topic_config, neighbours)
        self.logs.table.high_watermark = self.partitions.high_watermark
        await self.logs.open(self.images.image.cluster_id or "")
        image = self.images.image
        await self.logs.load(
            topic_config=lambda name: self.topic_config(image.topics[name]),
            is_known=lambda partition, topic_id: is_ours(image, self.config.node_id, partition, topic_id),
            on_progress=RecoveryProgress(services.clocks.monotonic),
        )
        if has_lost_directories(image, self.config.node_id, self._lineage().directories):
            self._kept = self._where_logs_are()
        else:
            await self._make_missing_logs(image)

    async def _make_missing_logs(self, image: ClusterImage) -> None:
        """Of partitions that came while this broker was away: thousands of them would hold the loop for long, and each
        waits for the disk. Where a log directory is offline they may lie there.
        """
        if not any(directory.offline for directory in self.logs.table.directories):
            await self.logs.maker.prepare(await run(logs_of(image, self.config.node_id, self.topic_config)))

    def _loading_partitions(self, image: ClusterImage) -> Work[None]:
        """No image may come between loading one and following the next."""
        paused = pauses()
        for found in tuple(self.logs.table.in_service()):
            if next(paused):
                yield
            if not is_ours(
                image, self.config.node_id, found.topic_partition, self.logs.table.topic_id(found.topic_partition)
            ):
                self.logs.delete(found.topic_partition, Mark.STRAY)
        yield from self.partitions.load(image)
        self.images.subscribe(self.partitions.apply, self.partitions.preparing)
        self.directory_reports.found(self._where_logs_are())

    def _where_logs_are(self) -> dict[TopicPartition, UUID]:
        table = self.logs.table
        return {found.topic_partition: table.directory_of(found).id for found in table.in_service()}

    def topic_config(self, topic: TopicImage) -> TopicConfig:
        return TopicConfig.resolve(topic.configs, self.config)

    def _prepare_membership(self) -> None:
        config, services, images = self.config, self.services, self.images
        self._certificates = self._read_certificates()
        opener = Opener(self._ourselves, services.random_bytes, self._peer_security, services.dial)
        self.peers = NetworkPeers(lambda: images.image, config.inter_broker_listener_name, opener)
        images.subscribe(self.peers.apply)
        self.controllership = Controllership(
            config.node_id, services, images, self.controller, lambda: self.config, self.metrics
        )
        self.membership = Membership(
            config.node_id, services, images, self.controller, self.controllership, self.peers, self._failed_directories
        )
        self.directory_reports = DirectoryReports(
            config.node_id, images, self.controller, self.peers, lambda: self.membership.epoch, lambda: self.config
        )

        self.links = Links(
            config.node_id,
            config.inter_broker_listener_name,
            opener,
            self.controllership.evidence_of_death,
            self.metrics,
            self.controllership.evidence_of_life,
        )

    def _read_certificates(self) -> Certificates | None:
        """None without TLS. Raises ValueError."""
        security = self.config.security
        if not any(each.is_encrypted for each in security.values()):
            return None
        from moldau.server.certificates import LOOK_SECONDS, certificates_of

        certificates = certificates_of(self.config)
        self.timers.every(LOOK_SECONDS, "renewed certificates", certificates.look)
        return certificates

    def _ourselves(self) -> Self:
        return Self(self.config.node_id, self.images.image.cluster_id or "", self.membership.incarnation)

    async def _become_a_member(self, advertised: Advertised) -> None:
        listeners = tuple(
            Listener(name, host, port, self.config.security[name].protocol) for name, (host, port) in advertised.items()
        )
        await self.membership.register(listeners, self.config.broker_rack, self._lineage())
        if self.config.moldau_peer_links_enable:
            self.links.load(self.images.image)
            self.images.subscribe(self.links.apply)
        self.controllership.holds_back = self._kept is not None
        self.controllership.begin()
        if self._kept is not None:
            await self.directory_reports.tell_kept(self._kept)
            self.controllership.goes_on()
        self.membership.begin()
        await self.membership.admitted()
        if self._kept is not None:
            # Not before: an empty log in place of one that was lost must not be taken for what is left.
            await self._make_missing_logs(self.images.image)
        await self.links.tried(LINK_SECONDS)

    def _lineage(self) -> Lineage:
        clean_epochs = {directory.clean_epoch for directory in self.logs.table.directories}
        return Lineage(
            tuple(directory.id for directory in self.logs.table.directories if not directory.offline),
            self.services.boot_id,
            clean_epochs.pop() if len(clean_epochs) == 1 else None,
        )

    def _failed_directories(self) -> tuple[UUID, ...]:
        return tuple(directory.id for directory in self.logs.table.directories if directory.offline)

    def _build_broker(self) -> None:
        config = self.config
        rng = self.services.rng
        gate = AnswerGate()
        traffic = Traffic(self.metrics, self.partitions)
        self.appends = AppendQueue(
            self._loop.call_soon,
            self.services.run_blocking,
            self.logs.io_failed,
            self._segment_rolled,
            gate,
            traffic.committed,
        )
        self.partitions.bring_to_disk(self.appends.bring_to_disk)
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
            traffic.followed,
            self.metrics,
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
            self.quotas,
            traffic,
        )
        self.broker.forwarding = Forwarding(
            self.broker, self.controller, self.peers, self.images.next, self.services.clocks.monotonic
        )
        self.broker.propose_isr = self.replication.propose
        self.broker.suspects = self.links.suspects
        self.dispatcher = Dispatcher(self.broker, APIS)
        self.host = Host(config, self.dispatcher.dispatch, self.services, gate)
        self.images.subscribe(self.host.follow_quotas)
        self.images.subscribe(Introductions(self.host.connections).apply)
        self._build_gates()
        self._dynamic.subscribe(self._reconfigure)
        self.images.subscribe(IsrMeter(self.metrics, config.node_id).apply)
        self.images.subscribe(StateChanges(config.node_id).apply)
        self._show_figures()

    def _show_figures(self) -> None:
        boot_seconds = self.services.clocks.boot_seconds
        register_gauges(self.metrics, self.partitions, self.logs)
        register_controller_gauges(self.metrics, lambda: self.images.image, self.config.node_id)
        register_group_gauges(self.metrics, self.groups.runtime)
        show_queues(self.metrics, lambda: self.host.connections)
        show_age_of_metadata(self.metrics, lambda: boot_seconds() - self._current_as_of())
        self._show_partitions()

    def _show_partitions(self) -> None:
        """What monitoring asks of each partition and of each group."""
        show_followers(self.metrics, self.replication.fetchers)
        self.group_lags = GroupLags(
            self.config.node_id, lambda: self.images.image, self.partitions, self.groups.runtime, self.peers
        )
        if self.config.moldau_metrics_partitions_enable:
            show_logs(self.metrics, self.partitions)
            show_topics(self.metrics, self.partitions, lambda: self.images.image, self.config.node_id)
            self.metrics.collect(self.group_lags.samples)
        else:
            self.group_lags.is_wanted = False

    def _build_gates(self) -> None:
        services = self.services
        self._logins = Logins(
            lambda: self.images.image, services.random_bytes, services.clocks.wall_ms, services.run_blocking
        )
        counts = {name: LoginCounts(self.metrics, name) for name in self.config.security}
        self.gates = {
            name: Gate(
                self.host,
                name,
                self._logins.first_settings(self.config, name),
                counts[name],
                self.services.clocks.wall_ms,
            )
            for name, security in self.config.security.items()
            if security.asks_for_login
        }

        self.timers.every(LOOK_AT_KEYS_SECONDS, "keys of tokens", self._look_at_token_keys, first_after=0.0)
        expiry_ms = self.config.delegation_token_expiry_check_interval_ms
        self.timers.every(expiry_ms / 1000, "expiry of delegation tokens", self._remove_expired_tokens)
        certificates = self._certificates
        self.doors = (
            {}
            if certificates is None
            else {name: self._door(name, certificates, counts[name]) for name in certificates.listeners}
        )

    async def _remove_expired_tokens(self) -> None:
        if self.controller.is_active and self.images.image.tokens:
            now_ms = self.services.clocks.wall_ms()
            await self.controller.decide(lambda image: remove_expired(image, now_ms))

    def _look_at_token_keys(self) -> None:
        for keys in self._logins.token_keys:
            keys.look()

    def _door(self, name: str, certificates: Certificates, counts: LoginCounts) -> TlsDoor:
        gate = self.gates.get(name)
        named = partial(NamedByCertificate, self.host, name, lambda: certificates.names[name], counts)
        connections = named if gate is None else gate.new_connection
        return TlsDoor(name, lambda: certificates.listeners[name], connections, counts, self.host.admission)

    def _peer_security(self) -> PeerSecurity:
        login, certificates = self.config.peer_login, self._certificates
        return PeerSecurity(
            None if certificates is None else certificates.peers,
            None if login is None else sasl_settings(login),
        )

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
        for name, gate in self.gates.items():
            gate.settings = self._logins.changed_settings(new, name, gate.settings)
        if self._certificates is not None:
            self._certificates.change(new.security)
        yield from self.logs.reconfigure(new)
        yield from self.replication.reconfigure(old, new)
        for topic in reconfigured_topics(old, new, self.images.image):
            yield from self.partitions.reconfigure(topic)

    def _segment_rolled(self, partition_log: PartitionLog) -> None:
        self.logs.flushes.note_rolled(partition_log)
        self.timers.once("the flush of a completed segment", self.logs.flushes.flush_rolled)

    def _log_replaced(self, partition: TopicPartition, moved: PartitionLog) -> None:
        self.partitions.replace_log(partition, moved)
        self.directory_reports.found({partition: self.logs.table.directory_of(moved).id})

    def _directory_failed(self, path: str, lost: Collection[TopicPartition], error: Exception) -> None:
        self.partitions.take_offline(lost)
        if lost:
            self.directory_reports.failed(self.logs.table.directory_at(path).id, lost)
        for service in self._coordinators:
            service.logs_lost()
        self.membership.wake()

    # --- end ---

    async def leave(self) -> None:
        """Hands over what this broker leads, where there is somebody to take it."""
        if self.config.controlled_shutdown_enable and not await self.membership.leave(LEAVE_SECONDS):
            log.warning("stopping without having handed over all partitions")

    async def stop(self) -> None:
        """Lets requests under way finish; those that wait are sent away."""
        await self.timers.stop()
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
    return encode_uuid(unique)
