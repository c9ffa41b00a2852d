"""What a fetch reads: partition by partition within its byte limits, and the wait when there is not enough yet.

Nothing is read here but indexes and batch headers: an answer refers to pieces of segment files, which the connection
reads as its socket drains. A waiting fetch is registered at its partitions and woken when what it may read has grown:
a follower by the log's end, a consumer by the high watermark, one that reads committed records only by the last stable
offset; and all of them when the partition's term ends. It removes itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.replication.fetch_sessions import FetchTarget
from moldau.replication.leader import UNKNOWN_BROKER_EPOCH
from moldau.replication.leases import NEVER
from moldau.replication.partition import Partition
from moldau.replication.throttling import names
from moldau.replication.waiting import FetchWaits
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.file_pieces import FilePiece
from moldau.storage.errors import LogIOError, OffsetOutOfRangeError
from moldau.storage.log import PartitionLog
from moldau.storage.log_reader import LogSlice
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH
from moldau.wire.fetch_answer import ENDPOINTS_FROM, FetchedPartition
from moldau.work.slices import Work, pauses

if TYPE_CHECKING:
    from moldau.server.broker import Broker

PARTITIONS_PER_TURN = 64
NOWHERE_ELSE = -1
FRESH_BYTES = 8 * 1024 * 1024
LEADER_IS_TOLD_WITH = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Fetched = FetchedPartition[FilePiece]


@dataclass(slots=True)
class FetchLimits:
    replica_id: int
    read_committed: bool
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    leader_only: bool = True
    """Consumers that know of it may read from a follower."""
    rack: str = ""
    tells_progress: bool = False
    """What a follower asks for tells how far it has come, in the moment it asks: not when it is woken."""
    followed_at: float = NEVER
    """When a follower is known to have followed, at least."""

    @property
    def is_follower(self) -> bool:
        """Negative ids are consumers and tools."""
        return self.replica_id >= 0


@dataclass(slots=True)
class FetchRound:
    """One pass over the partitions."""

    results: list[tuple[FetchTarget, Fetched]]
    record_bytes: int = 0
    has_error: bool = False
    sends_elsewhere: bool = False

    def is_due(self, limits: FetchLimits) -> bool:
        return self.record_bytes >= limits.min_bytes or self.has_error or self.sends_elsewhere

    def release(self) -> None:
        for _, fetched in self.results:
            if fetched.records is not None:
                fetched.records.file.release()


def read_round(
    broker: Broker, context: RequestContext, targets: Iterable[FetchTarget], limits: FetchLimits
) -> Work[FetchRound]:
    fetch = FetchRound([])
    paused = pauses(PARTITIONS_PER_TURN)
    try:
        for target in targets:
            left = limits.max_bytes if not fetch.results else max(0, limits.max_bytes - fetch.record_bytes)
            fetched = read_target(broker, context, target, limits, left, is_first=fetch.record_bytes == 0)
            if fetched.records is not None:
                fetch.record_bytes += fetched.records.length
            if fetched.error or fetched.diverging is not None:
                fetch.has_error |= not (limits.is_follower and fetched.error == ErrorCode.UNKNOWN_LEADER_EPOCH)
            elif fetched.preferred_replica >= 0:
                fetch.sends_elsewhere = True
            fetch.results.append((target, fetched))
            if next(paused):
                yield
    except BaseException:
        fetch.release()
        raise
    return fetch


def read_target(
    broker: Broker, context: RequestContext, target: FetchTarget, limits: FetchLimits, left: int, is_first: bool
) -> Fetched:
    index = target.key[1]
    try:
        partition = find_partition(broker, context, target, limits)
    except KafkaError as error:
        # Kafka's answers to what it cannot even look up have an empty list of aborted transactions instead of none.
        return Fetched(index, error.code, aborted=None if error.code == ErrorCode.INCONSISTENT_TOPIC_ID else ())
    try:
        return read_partition(broker, partition, target, limits, left, is_first)
    except LogIOError as error:
        broker.storage_failed(partition, error)
        return Fetched(index, ErrorCode.KAFKA_STORAGE_ERROR)
    except KafkaError as error:
        tells = context.api_version >= ENDPOINTS_FROM and error.code in LEADER_IS_TOLD_WITH
        refused = Fetched(index, error.code)
        refused.current_leader = (partition.leader, partition.leader_epoch) if tells else None
        if limits.is_follower and isinstance(error, OffsetOutOfRangeError) and partition.log is not None:
            refused.log_start_offset = partition.log.log_start_offset  # where it has to begin anew
        return refused


def find_partition(broker: Broker, context: RequestContext, target: FetchTarget, limits: FetchLimits) -> Partition:
    """A follower has to act for the cluster, which its request was asked as a whole; of topics it needs no right."""
    topic, index = target.key
    if isinstance(topic, UUID):
        topic = name_of(broker, topic, target)
    if not limits.is_follower and not broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return broker.partitions.get(topic, index)


def name_of(broker: Broker, topic_id: UUID, target: FetchTarget) -> str:
    """A session remembers a topic's name: it outlives the topic, and perhaps names another one by now."""
    found = broker.image.topics_by_id.get(topic_id)
    if found is not None:
        target.name = found.name
        return found.name
    if target.name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    created_anew = target.name in broker.image.topics
    raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID if created_anew else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def read_partition(
    broker: Broker, partition: Partition, target: FetchTarget, limits: FetchLimits, left: int, is_first: bool
) -> Fetched:
    log = partition.served_log(target.leader_epoch, limits.leader_only)
    if limits.is_follower:
        partition.check_follower(limits.replica_id, target.leader_epoch, limits.broker_epoch)
    elif partition.rivals and partition.leads:
        partition.check_lease()
    if target.last_fetched_epoch != NO_EPOCH:
        diverging = divergence(log, target)
        if diverging is not None:  # what it holds is not what we hold: that is no progress
            return beginning(partition, log, target, diverging)
    check_range(log, target.fetch_offset)
    if limits.is_follower and limits.tells_progress:
        note_progress(broker, partition, target, limits)
    fetched = beginning(partition, log, target)
    if limits.is_follower:
        end = log.log_end_offset
    else:
        end = fetched.last_stable_offset if limits.read_committed else partition.high_watermark
        fetched.preferred_replica = preferred_replica(broker, partition, target, limits)
        if fetched.preferred_replica >= 0:
            fetched.aborted = () if limits.read_committed else None
            return fetched
    if limits.is_follower and is_held_back(broker, partition, limits):
        return fetched
    if target.fetch_offset < end and (left != 0 or is_first):
        limit = min(target.max_bytes, left)
        if limit < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        piece = log.read(target.fetch_offset, limit, end, min_one=is_first)
        if piece.length:
            piece.file.acquire()
            fetched.records = FilePiece(
                piece.file, piece.position, piece.length, limits.is_follower and is_fresh(log, piece)
            )
            if limits.is_follower and is_throttled(partition, log):
                broker.leader_quota.record(piece.length)
            if limits.read_committed:
                fetched.aborted = aborted_in(log, target.fetch_offset, piece.next_offset)
    if limits.read_committed and fetched.records is None:
        fetched.aborted = ()
    return fetched


def is_fresh(log: PartitionLog, piece: LogSlice) -> bool:
    """Whether it is at the end of the log, where nothing has left the page cache yet."""
    active = log.segments.active
    return piece.file is active.file and active.size - piece.position <= FRESH_BYTES


def beginning(
    partition: Partition, log: PartitionLog, target: FetchTarget, diverging: tuple[int, int] | None = None
) -> Fetched:
    return Fetched(
        target.key[1],
        0,
        partition.high_watermark,
        partition.last_stable_offset(),
        log.log_start_offset,
        diverging=diverging,
    )


def note_progress(broker: Broker, partition: Partition, target: FetchTarget, limits: FetchLimits) -> None:
    change = partition.fetched_by(
        limits.replica_id, target.fetch_offset, target.log_start_offset, limits.broker_epoch, limits.followed_at
    )
    if change is not None:
        broker.propose_isr(partition, change)


def is_held_back(broker: Broker, partition: Partition, limits: FetchLimits) -> bool:
    """Throttled, unless it is in sync: a produce may wait for it."""
    if limits.replica_id in partition.in_sync or partition.log is None:
        return False
    return is_throttled(partition, partition.log) and broker.leader_quota.is_exceeded()


def is_throttled(partition: Partition, log: PartitionLog) -> bool:
    named = log.config.leader_replication_throttled_replicas
    return bool(named) and names(named, partition.topic_partition.partition, partition.local_id)


def preferred_replica(broker: Broker, partition: Partition, target: FetchTarget, limits: FetchLimits) -> int:
    """Which broker a consumer should rather ask; -1 for this one."""
    if broker.replica_selector is None or not limits.rack or not partition.leads:
        return NOWHERE_ELSE
    brokers = broker.image.brokers

    def rack_of(broker_id: int) -> str | None:
        found = brokers.get(broker_id)
        return None if found is None else found.rack

    leader, followers = partition.read_replicas(target.fetch_offset, rack_of)
    selected = broker.replica_selector.select(limits.rack, leader, followers)
    return NOWHERE_ELSE if selected == partition.local_id else selected


def check_range(log: PartitionLog, offset: int) -> None:
    if offset < log.log_start_offset or offset > log.log_end_offset:
        raise OffsetOutOfRangeError(offset, log.log_start_offset, log.log_end_offset)


def divergence(log: PartitionLog, target: FetchTarget) -> tuple[int, int] | None:
    epoch, end_offset = log.epoch_end_offset(target.last_fetched_epoch)
    if epoch == NO_EPOCH:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return epoch, end_offset
    return None


def is_news_to_a_follower(partition: Partition, target: FetchTarget) -> bool:
    """Whether a look at the partition could find something: records, or that it has another leader or epoch."""
    if partition.log is None or not partition.leads or partition.leader_epoch != target.leader_epoch:
        return True
    return partition.log.log_end_offset > target.fetch_offset


def aborted_in(log: PartitionLog, start: int, end: int) -> list[tuple[int, int]]:
    return [(transaction.producer_id, transaction.first_offset) for transaction in log.aborted_transactions(start, end)]


class WaitingFetch:
    """A fetch that found too little: waits for its partitions to grow or its time to be up, then reads once more."""

    __slots__ = (
        "_broker", "_context", "_done", "_go_on", "_is_looking", "_limits", "_respond", "_targets",
        "_timer", "_waits", "_woken",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        targets: list[FetchTarget],
        limits: FetchLimits,
        respond: Callable[[FetchRound], Work[None]],
        go_on: Callable[[Work[None]], None],
    ) -> None:
        """`go_on` does work: at once if it is small, else in turns."""
        self._broker, self._context, self._targets, self._limits = broker, context, targets, limits
        self._respond, self._go_on = respond, go_on
        self._done = self._woken = self._is_looking = False
        self._waits: list[FetchWaits] = []
        self._timer = asyncio.get_running_loop().call_later(limits.max_wait_ms / 1000, self.time_is_up)

    def register(self) -> Work[None]:
        """At all partitions; if that takes several turns, one may have grown before it was reached. A follower's are
        looked at again only if one has: most of thousands are idle."""
        paused = pauses(PARTITIONS_PER_TURN)
        has_news = not self._limits.is_follower
        for target in self._targets:
            try:
                partition = find_partition(self._broker, self._context, target, self._limits)
            except KafkaError:
                has_news = True
                continue
            finally:
                if next(paused):
                    yield
            if self._done:
                return
            if self._limits.is_follower:
                waits = partition.end_waits
            elif self._limits.read_committed:
                waits = partition.waits_for_stable_records()
            else:
                waits = partition.mark_waits
            waits.add(self)
            self._waits.append(waits)
            has_news = has_news or is_news_to_a_follower(partition, target)
        if has_news and len(self._targets) >= PARTITIONS_PER_TURN:
            self.wake()

    def wake(self) -> None:
        """Called for each partition that moved; one look per turn of the loop is enough."""
        if not self._woken and not self._done:
            self._woken = True
            if not self._is_looking:
                asyncio.get_running_loop().call_soon(self._look_again)

    def cancel(self) -> None:
        self._finish()

    def _look_again(self) -> None:
        if not self._is_looking:
            self._go_on(self._look())

    def _look(self) -> Work[None]:
        self._is_looking = True
        while self._woken and not self._done:
            self._woken = False
            fetch = yield from read_round(self._broker, self._context, self._targets, self._limits)
            if not self._done and fetch.is_due(self._limits):
                self._finish()
                yield from self._respond(fetch)
                return
            fetch.release()
        self._is_looking = False

    def time_is_up(self) -> None:
        if not self._done:
            self._finish()
            self._go_on(self._last_look())

    def _last_look(self) -> Work[None]:
        fetch = yield from read_round(self._broker, self._context, self._targets, self._limits)
        yield from self._respond(fetch)

    def _finish(self) -> None:
        self._done = True
        self._timer.cancel()
        for waits in self._waits:
            waits.discard(self)
