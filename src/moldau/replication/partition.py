"""One partition as this broker sees it: its log, its role and epoch, its in-sync set, and how far its records are
safe.

Single-threaded, owned by the event loop. State comes only from the metadata image (`lead`, `follow`) and from the
log; the high watermark moves only after the log has published what was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.replication.high_watermark import high_watermark
from moldau.replication.waiting import FetchWaits, OffsetWaits
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, TopicId, TopicPartition

if TYPE_CHECKING:
    from moldau.storage.log import PartitionLog


class Partition:
    __slots__ = (
        "fetch_waits", "follower_ends", "high_watermark", "in_sync", "leader", "leader_epoch", "local_id", "log",
        "produce_waits", "replicas", "topic_id", "topic_partition",
    )  # fmt: skip

    def __init__(self, topic_partition: TopicPartition, topic_id: TopicId, local_id: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.local_id = local_id
        self.log: PartitionLog | None = None
        self.leader = -1
        self.leader_epoch = NO_EPOCH
        self.replicas: Sequence[int] = ()
        self.in_sync: Sequence[int] = ()
        self.follower_ends: dict[int, int] = {}
        self.high_watermark = 0
        self.produce_waits = OffsetWaits()
        self.fetch_waits = FetchWaits()

    # --- role ---

    def lead(self, leader_epoch: int, replicas: Sequence[int], in_sync: Sequence[int]) -> None:
        if leader_epoch != self.leader_epoch:
            self.follower_ends.clear()
        self.leader, self.leader_epoch = self.local_id, leader_epoch
        self.replicas, self.in_sync = replicas, in_sync
        if self.log is not None:
            self.log.begin_epoch(leader_epoch)
            self.advance(self.log.log_end_offset)

    def follow(self, leader: int, leader_epoch: int, replicas: Sequence[int], in_sync: Sequence[int]) -> None:
        self.leader, self.leader_epoch = leader, leader_epoch
        self.replicas, self.in_sync = replicas, in_sync

    @property
    def leads(self) -> bool:
        return self.leader == self.local_id

    def is_follower(self, replica_id: int) -> bool:
        return replica_id != self.local_id and replica_id in self.replicas

    def has_enough_in_sync(self, wanted: int) -> bool:
        """Whether records may be acknowledged for all: `min.insync.replicas` cannot ask for more than there are."""
        return len(self.in_sync) >= min(wanted, len(self.replicas))

    def leader_log(self) -> PartitionLog:
        """The log, if this broker may serve it: Kafka's code otherwise."""
        if self.leader != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return self.log

    def check_epoch(self, current_leader_epoch: int) -> None:
        """A client tells the epoch it knows: an older one must learn of the new leader, a newer one is ahead of us."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        newer = current_leader_epoch > self.leader_epoch
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH)

    # --- progress ---

    def advance(self, local_end: int) -> None:
        """The log has records up to here that count (written, and synced if the topic asks for that), or a follower
        moved on: raises the high watermark and wakes who waits for it.
        """
        if not self.leads:
            return
        mark = high_watermark(self.high_watermark, local_end, self.in_sync, self.local_id, self.follower_ends)
        if mark == self.high_watermark:
            return
        self.high_watermark = mark
        if self.produce_waits:
            for reached in self.produce_waits.reached(mark):
                reached()
        if self.fetch_waits:
            self.fetch_waits.wake_all()

    def last_stable_offset(self) -> int:
        """Where the first open transaction begins; read_committed consumers see nothing from there on."""
        assert self.log is not None
        return self.log.last_stable_offset(self.high_watermark)

    def log_truncated(self) -> None:
        """Offsets above the log's end are gone (recovery, truncation): the mark may not stand above it."""
        assert self.log is not None
        self.high_watermark = max(self.log.log_start_offset, min(self.high_watermark, self.log.log_end_offset))
