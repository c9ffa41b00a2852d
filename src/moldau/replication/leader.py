"""What a leader knows of its followers in one term, and what follows from it: the high watermark and the in-sync set.

A follower's fetch offset is its acknowledgement of everything below. The high watermark is the least of them over the
*maximal* in-sync set: what the image has committed, together with what a pending change would add; a member that a
pending change would remove still counts. So the mark is safe whichever way the change ends. Only the image changes the
in-sync set: a leader proposes, one change at a time, and its proposal's answer tells refusals only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from moldau.replication.leases import FOR_EVER, NEVER, Lease
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, TopicId

if TYPE_CHECKING:
    from moldau.metadata.image import PartitionImage

UNKNOWN_BROKER_EPOCH = -1
#: A proposal whose answer was lost may still be carried out for as long as this.
DOUBT_MS = 30_000

#: The controller has looked at the proposal and will not do it: another one may be made.
REFUSALS = frozenset((ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED))
#: The proposal is accepted, or was made by somebody who does not lead any more, or of an older state: the image tells.
IMAGE_TELLS = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    )
)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What a partition asks about the brokers around it."""

    monotonic_ms: Callable[[], float]
    registered_epoch: Callable[[int], int | None]
    """The epoch of a broker that may be in sync; None if it is unknown, fenced or on its way out."""
    is_alive: Callable[[int], bool]
    max_lag_ms: Callable[[], int]
    """`replica.lag.time.max.ms`"""
    lease: Lease = FOR_EVER


#: One broker without others.
NO_NEIGHBOURS = Neighbours(lambda: 0.0, lambda _: None, lambda _: False, lambda: 30_000)


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A proposal to the controller, as AlterPartition carries it."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]
    """Broker ids with their epochs, -1 where unknown."""

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.members)


@dataclass(slots=True)
class FollowerProgress:
    """What a follower's fetches of this term have told."""

    end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    caught_up_ms: float = -inf
    """When it was last known to hold all that its leader held."""
    fetched_ms: float = -inf
    leader_end_at_fetch: int = NO_OFFSET
    followed_at: float = NEVER
    """When it was last known to follow in this term, in seconds of the lease's clock."""


class Leadership:
    __slots__ = (
        "_doubted_ms", "_local_id", "_neighbours", "_partition", "_topic_id", "epoch_start", "followers", "pending",
        "term",
    )  # fmt: skip

    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        local_id: int,
        term: PartitionImage,
        epoch_start: int,
        neighbours: Neighbours,
    ) -> None:
        """Members of the in-sync set are presumed to have kept up until now: they get the whole time of grace."""
        self._topic_id, self._partition, self._local_id = topic_id, partition, local_id
        self._neighbours = neighbours
        self.term = term
        self.epoch_start = epoch_start
        self.pending: IsrChange | None = None
        self._doubted_ms = -inf
        now_ms = neighbours.monotonic_ms()
        self.followers = {
            replica: FollowerProgress(caught_up_ms=now_ms if replica in term.isr else -inf)
            for replica in term.replicas
            if replica != local_id
        }

    def go_on(self, term: PartitionImage) -> None:
        """The image has something new of the same term."""
        if self.pending is not None and term.partition_epoch > self.pending.partition_epoch:
            self.pending = None
        known, self.term = self.followers, term
        self.followers = {
            replica: known.get(replica) or FollowerProgress() for replica in term.replicas if replica != self._local_id
        }

    # --- followers ---

    def check(self, replica_id: int, told_epoch: int, broker_epoch: int) -> None:
        """Whether a fetch comes from a follower, and not from an earlier life of it. Its leader epoch was compared
        before: if that is right and the replica unknown, its image is ahead of ours.
        """
        progress = self.followers.get(replica_id)
        if progress is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if told_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < progress.broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fetched(
        self,
        replica_id: int,
        end_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        followed_at: float = NEVER,
    ) -> None:
        """A follower has asked for what comes after `end_offset`. If that is where the log ended when it asked before,
        it had caught up then.
        """
        progress, now_ms = self.followers[replica_id], self._neighbours.monotonic_ms()
        if end_offset >= leader_end:
            progress.caught_up_ms = now_ms
        elif end_offset >= progress.leader_end_at_fetch:
            progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
        progress.end_offset, progress.log_start_offset = end_offset, log_start_offset
        progress.broker_epoch = broker_epoch
        progress.fetched_ms, progress.leader_end_at_fetch = now_ms, leader_end
        progress.followed_at = max(progress.followed_at, followed_at)

    def is_caught_up(self, replica_id: int, leader_end: int) -> bool:
        progress = self.followers[replica_id]
        lag_ms = self._neighbours.monotonic_ms() - progress.caught_up_ms
        return progress.end_offset >= leader_end or lag_ms <= self._neighbours.max_lag_ms()

    def is_eligible(self, replica_id: int) -> bool:
        """For the in-sync set: the very life of the broker that fetches is registered, and stays."""
        registered = self._neighbours.registered_epoch(replica_id)
        told = self.followers[replica_id].broker_epoch
        return registered is not None and told in (registered, UNKNOWN_BROKER_EPOCH)

    def low_watermark(self, local_start: int) -> int:
        """Where the log begins at the latest on every replica that lives."""
        starts = [
            progress.log_start_offset
            for replica, progress in self.followers.items()
            if self._neighbours.is_alive(replica)
        ]
        return min((local_start, *starts))

    def holds_lease(self, rivals: Iterable[int]) -> bool:
        """Whether nobody can have been elected in our place for long. `rivals`: who could be."""
        followers = self.followers
        return self._neighbours.lease.holds(
            followers[rival].followed_at if rival in followers else NEVER for rival in rivals
        )

    # --- high watermark ---

    def has_enough_in_sync(self, min_in_sync: int) -> bool:
        return len(self.term.isr) >= min(min_in_sync, len(self.term.replicas))

    def mark(self, current: int, local_end: int, leader_end: int, min_in_sync: int) -> int:
        """The high watermark, which never falls: up to where all replicas that count hold the log. `local_end` is what
        counts of the leader's own log, whose end is `leader_end`.
        """
        if not self.has_enough_in_sync(min_in_sync):
            return current
        mark = local_end
        for replica in self.counted(leader_end):
            end = self.followers[replica].end_offset
            if end < mark:
                mark = end
        return max(current, mark)

    def counted(self, leader_end: int) -> Iterable[int]:
        """The followers that the mark waits for: the maximal in-sync set, and who is about to join it."""
        members = self.maximal_isr
        for replica in self.followers:
            if replica in members or (self.is_caught_up(replica, leader_end) and self.is_eligible(replica)):
                yield replica

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.term.isr if self.pending is None else self.term.isr + self.pending.isr

    # --- in-sync set ---

    def expand(self, replica_id: int, mark: int) -> IsrChange | None:
        """The proposal to take a follower in, if it has caught up and nothing else is proposed."""
        if self.pending is not None or replica_id in self.term.isr or not self.may_join(replica_id, mark):
            return None
        return self._propose((*self.term.isr, replica_id))

    def may_join(self, replica_id: int, mark: int) -> bool:
        """Not only the mark counts: a new leader's own may lag behind what its predecessor has acknowledged, but all
        of that lies below the start of the epoch.
        """
        end = self.followers[replica_id].end_offset
        return end >= mark and end >= self.epoch_start and self.is_eligible(replica_id)

    def shrink(self, leader_end: int) -> IsrChange | None:
        """The proposal to do without those that have fallen behind for too long."""
        if self.pending is not None:
            return None
        kept = tuple(
            member for member in self.term.isr if member not in self.followers or self.is_caught_up(member, leader_end)
        )
        return None if len(kept) == len(self.term.isr) else self._propose(kept)

    def _propose(self, isr: Iterable[int]) -> IsrChange:
        self.pending = IsrChange(
            self._topic_id,
            self._partition,
            self.term.leader_epoch,
            self.term.partition_epoch,
            tuple((member, self._epoch_of(member)) for member in isr),
        )
        self._doubted_ms = -inf
        return self.pending

    def _epoch_of(self, member: int) -> int:
        if member in self.followers:
            return self.followers[member].broker_epoch
        registered = self._neighbours.registered_epoch(member)
        return UNKNOWN_BROKER_EPOCH if registered is None else registered

    def unanswered(self, change: IsrChange) -> None:
        """The answer to a proposal is lost: whoever gets it late may still carry it out."""
        if change is self.pending:
            self._doubted_ms = self._neighbours.monotonic_ms()

    def answered(self, change: IsrChange, code: ErrorCode) -> bool:
        """What the controller said of a proposal. True if it is to be sent again: nobody has decided it. A refusal
        decides nothing as long as another copy of the proposal may be under way.
        """
        if change is not self.pending:
            return False
        if code in REFUSALS:
            if self._neighbours.monotonic_ms() - self._doubted_ms < DOUBT_MS:
                return True
            self.pending = None
            return False
        return code not in IMAGE_TELLS
