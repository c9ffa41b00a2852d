"""All of a broker's replication in one place: what it follows, what it proposes as a leader, and the looks at its
followers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.in_sync import WantedIsr
from moldau.metadata.image import ClusterImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import StoreError
from moldau.metrics import Metrics
from moldau.replication.follower import FetchSettings
from moldau.replication.leader import IsrChange
from moldau.replication.partition import Partition
from moldau.replication.throttling import ReplicationQuota
from moldau.server.controller import Controller
from moldau.server.partition_table import PartitionTable
from moldau.server.peers.peer import PeerLostError, Peers
from moldau.server.replicas.fetcher import ReplicaTools
from moldau.server.replicas.fetchers import ReplicaFetchers
from moldau.server.replicas.isr_changes import IsrChanges
from moldau.server.services import Services
from moldau.server.timers import Timers
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LogManager
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from moldau.work.slices import Work

ALTER_SECONDS = 10.0


class Replication:
    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        services: Services,
        peers: Peers,
        partitions: PartitionTable,
        logs: LogManager,
        segment_rolled: Callable[[PartitionLog], None],
        controller: Controller,
        broker_epoch: Callable[[], int],
        counted: Callable[[Partition, int], None],
        metrics: Metrics,
    ) -> None:
        """`counted` hears of bytes that were fetched."""
        self._config, self._peers, self._controller, self._broker_epoch = config, peers, controller, broker_epoch
        self._broker_id = config().node_id
        monotonic = services.clocks.monotonic
        quota = ReplicationQuota(lambda: config().follower_replication_throttled_rate, monotonic)
        tools = ReplicaTools(
            peers,
            logs.cuts,
            logs.io_failed,
            segment_rolled,
            services.run_blocking,
            monotonic,
            self._fetch_settings,
            quota,
            counted,
        )
        self.fetchers = ReplicaFetchers(self._broker_id, partitions, tools, lambda: config().num_replica_fetchers)
        refused = metrics.counter("kafka.server", "ReplicaManager", "FailedIsrUpdatesPerSec")
        self.isr_changes = IsrChanges(self._alter_partitions, partitions, refused)

    async def begin(self, images: ImageHolder, timers: Timers) -> None:
        """Behind the partition table, which follows the images already."""

        def load(image: ClusterImage) -> Work[None]:
            yield from self.fetchers.load(image)
            images.subscribe(self.fetchers.apply)

        await images.hold(load)
        timers.every(
            lambda: self._config().replica_lag_time_max_ms / 2000,
            "the look at followers",
            self.isr_changes.look_at_followers,
        )

    def reconfigure(self, old: BrokerConfig, new: BrokerConfig) -> Work[None]:
        if new.num_replica_fetchers != old.num_replica_fetchers:
            yield from self.fetchers.share_out()

    def propose(self, partition: Partition, change: IsrChange) -> None:
        self.isr_changes.propose(partition, change)

    async def stop(self) -> None:
        await self.fetchers.stop()
        await self.isr_changes.stop()

    def _fetch_settings(self) -> FetchSettings:
        config = self._config()
        return FetchSettings(
            self._broker_id,
            self._broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            max_backoff_ms=config.replica_fetch_backoff_ms,
        )

    # --- proposals ---

    async def _alter_partitions(self, changes: Sequence[IsrChange]) -> Sequence[ErrorCode]:
        """The controller's code for each, in order. Raises PeerLostError where nobody has decided."""
        try:
            codes = await (self._decide(changes) if self._controller.is_active else self._ask(changes))
        except (KafkaError, StoreError) as error:
            raise PeerLostError(f"the controller cannot decide: {error}") from error
        return [codes.get((each.topic_id, each.partition), ErrorCode.UNKNOWN_SERVER_ERROR) for each in changes]

    async def _decide(self, changes: Sequence[IsrChange]) -> dict[tuple[object, int], ErrorCode]:
        wanted = [
            WantedIsr(each.topic_id, each.partition, each.leader_epoch, each.partition_epoch, each.members)
            for each in changes
        ]
        altered = await self._controller.alter_partition(self._broker_id, self._broker_epoch(), wanted)
        return {(each.topic_id, each.partition): each.code for each in altered}

    async def _ask(self, changes: Sequence[IsrChange]) -> dict[tuple[object, int], ErrorCode]:
        active = self._controller.active_id
        if active is None or active == self._broker_id:
            raise PeerLostError("no broker controls the cluster at the moment")
        request = alter_partition_request(self._broker_id, self._broker_epoch(), changes)
        answer = await self._peers.get(active).call(request, AlterPartitionResponse, timeout_seconds=ALTER_SECONDS)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return {
            (topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }


def alter_partition_request(broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]) -> AlterPartitionRequest:
    topics: dict[object, TopicData] = {}
    for each in changes:
        topic = topics.setdefault(each.topic_id, TopicData(topic_id=each.topic_id, partitions=[]))
        members = [BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in each.members]
        asked = PartitionData(
            partition_index=each.partition,
            leader_epoch=each.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=each.partition_epoch,
        )
        topic.partitions = [*topic.partitions, asked]
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))
