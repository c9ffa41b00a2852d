"""What handlers see of the broker: its services and its state, each behind a name. Built by the node; holds no logic
of an API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.machine import GroupMachine
from moldau.metadata.controller.features import SUPPORTED_FEATURES
from moldau.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from moldau.metadata.publisher import ImageHolder
from moldau.metrics import Metrics
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.leader import IsrChange
from moldau.replication.partition import Partition
from moldau.replication.selectors import ReplicaSelector, selector_of
from moldau.replication.throttling import ReplicationQuota
from moldau.security.authentication.delegation import TokenSecrets
from moldau.security.quotas import QuotaManager
from moldau.server.appends import AppendQueue
from moldau.server.controller import Controller
from moldau.server.controllership import Controllership
from moldau.server.coordination.service import CoordinatorService
from moldau.server.coordination.transactions import TransactionCoordinator
from moldau.server.fetching import FetchRound
from moldau.server.forwarding import Forwarding
from moldau.server.lingering import LingeringBrokers
from moldau.server.partition_table import PartitionTable
from moldau.server.producer_ids import ProducerIds
from moldau.server.producing import Producing
from moldau.server.registry import Api
from moldau.server.services import Services
from moldau.server.traffic import Traffic
from moldau.storage.manager import LogManager
from moldau.wire.codec import Encoded
from moldau.wire.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey

NETWORK = "kafka.network"
FEATURES_FROM_ZERO_SINCE = 4


@dataclass(frozen=True, slots=True)
class Node:
    """A broker's address on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


def as_node(broker: BrokerImage, listener: str) -> Node | None:
    endpoint = broker.listeners.get(listener)
    return None if endpoint is None else Node(broker.id, endpoint.host, endpoint.port, broker.rack)


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        services: Services,
        images: ImageHolder,
        controller: Controller,
        controllership: Controllership,
        logs: LogManager,
        partitions: PartitionTable,
        appends: AppendQueue,
        metrics: Metrics,
        fetch_sessions: FetchSessions,
        groups: CoordinatorService[GroupMachine],
        transactions: TransactionCoordinator,
        producer_ids: ProducerIds,
        apis: Mapping[int, Api],
        quotas: QuotaManager,
        traffic: Traffic,
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.images = images
        self.controller = controller
        self.controllership = controllership
        self.logs = logs
        self.partitions = partitions
        self.appends = appends
        self.metrics = metrics
        self.fetch_sessions = fetch_sessions
        self.groups = groups
        self.transactions = transactions
        self._passing: set[asyncio.Task[None]] = set()
        self.wall_ms = services.clocks.wall_ms
        self.boot_seconds = services.clocks.boot_seconds
        self.producer_ids = producer_ids
        self.authorizer = services.authorizer
        self.quotas = quotas
        self.traffic = traffic
        self.producing = Producing(self.wall_ms, appends, metrics)
        self.replica_selector: ReplicaSelector | None = selector_of(config.replica_selector_class)
        self.leader_quota = ReplicationQuota(
            lambda: self.config.leader_replication_throttled_rate, services.clocks.monotonic
        )
        #: Sends a leader's proposal of another in-sync set to the controller.
        self.propose_isr: Callable[[Partition, IsrChange], None] = lambda partition, change: None
        self.apis = apis
        #: What only the controller decides goes through it.
        self.forwarding: Forwarding | None = None
        self.lingering = LingeringBrokers(services.clocks.monotonic)
        images.subscribe(self.lingering.apply)
        #: Brokers that may have died a moment ago: what they lead is about to move.
        self.suspects: Collection[int] = frozenset()
        #: Topics as Metadata writes them, by name and version; valid for this very topic and these very brokers.
        self.metadata_cache: dict[tuple[str, int], tuple[TopicImage, Mapping[int, BrokerImage], Encoded]] = {}
        self.token_secrets = TokenSecrets()
        self.request_times = self.producing.request_times
        self.fetch_times, self.read_times, self.follow_times = (
            metrics.histogram(NETWORK, "RequestMetrics", "TotalTimeMs", request=name)
            for name in ("Fetch", "FetchConsumer", "FetchFollower")
        )

    @property
    def image(self) -> ClusterImage:
        return self.images.image

    @property
    def has_failed_directories(self) -> bool:
        return any(directory.offline for directory in self.logs.table.directories)

    # --- who is who ---

    def nodes(self, listener: str) -> list[Node]:
        """The brokers that clients of this listener can use."""
        found = (as_node(broker, listener) for broker in self.image.brokers.values() if not broker.fenced)
        return [node for node in found if node is not None]

    def listed_nodes(self, listener: str) -> list[Node]:
        """As `nodes`, with those that have just gone."""
        gone = (as_node(broker, listener) for broker in self.lingering.brokers())
        return self.nodes(listener) + [node for node in gone if node is not None]

    @property
    def controller_id(self) -> int:
        """Who decides; a broker that never had to share that knows only itself."""
        present = self.image.controller
        return self.node_id if present is None else present.id

    def offline_replicas(self, topic: str, index: int, state: PartitionImage) -> list[int]:
        partition = self.partitions.find(topic, index)
        lost = self.node_id if partition is None or partition.log is None else None
        return [replica for replica in state.replicas if replica == lost or self.image.is_offline(replica, state)]

    def announced_versions(self, version: int, to_broker: bool = False, to_own: bool = False) -> ApiVersionsResponse:
        """What ApiVersions tells at this version. Clients up to version 3 cannot read a feature that starts at 0."""
        features = self.image.features
        return ApiVersionsResponse(
            api_keys=[
                api.announced
                for api in self.apis.values()
                if (to_broker or not api.between_brokers) and (to_own or not api.is_own)
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=supported.lowest, max_version=supported.highest)
                for name, supported in SUPPORTED_FEATURES.items()
                if supported.lowest > 0 or version >= FEATURES_FROM_ZERO_SINCE
            ],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in features.levels.items()
                if level > 0
            ],
        )

    # --- work that outlives a call ---

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    # --- faults ---

    def storage_failed(self, partition: Partition | None, error: Exception) -> None:
        """A read failed: its log directory goes offline, with all that is in it."""
        if partition is not None and partition.log is not None:
            self.logs.io_failed(partition.log, error)

    # --- metrics ---

    def record_fetch(self, fetch: FetchRound, replica_id: int, seconds: float, waited_seconds: float) -> None:
        self.fetch_times.record(seconds * 1000)
        (self.read_times if replica_id < 0 else self.follow_times).record(seconds * 1000)
        if waited_seconds:
            self.request_times.waited("FetchConsumer" if replica_id < 0 else "FetchFollower", waited_seconds)
        traffic = self.traffic
        traffic.asked(
            len(fetch.results), [found.error for _, found in fetch.results if found.error] if fetch.has_error else ()
        )
        if not fetch.record_bytes:
            return
        for target, found in fetch.results:
            if found.records is None:
                continue
            topic, index = target.key
            name = target.name if isinstance(topic, UUID) else topic
            partition = None if name is None else self.partitions.find(name, index)
            if replica_id < 0:
                traffic.read(partition, found.records.length)
            else:
                traffic.copied(partition, found.records.length, replica_id)
