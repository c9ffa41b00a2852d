"""One partition as this broker sees it: its log, its role and epoch, its in-sync set, and how far its records are
safe.

Single-threaded, owned by the event loop. State comes only from the metadata image (`lead`, `follow`) and from the
log; the high watermark moves only after the log has published what was written.

A term is what the image says of the partition; it ends when the leader or its epoch changes, when the log is cut and
when it is lost. Everybody who waits for the partition belongs to the term and is told of its end: what is staged but
not written is refused, since in a later term another record may stand at that offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.replication.leader import NO_NEIGHBOURS, UNKNOWN_BROKER_EPOCH, IsrChange, Leadership, Neighbours
from moldau.replication.leases import NEVER
from moldau.replication.selectors import ReplicaView
from moldau.replication.waiting import Append, FetchWaits, OffsetWait, OffsetWaits
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, TopicId, TopicPartition

if TYPE_CHECKING:
    from moldau.config.topic import TopicConfig
    from moldau.metadata.image import PartitionImage
    from moldau.storage.log import PartitionLog

NOBODY = -1


class Partition:
    __slots__ = (
        "_neighbours", "_seen_stable", "adding", "bytes_in", "bytes_out", "counted_end", "end_waits", "high_watermark",
        "in_sync", "leader", "leader_epoch", "leadership", "local_id", "log", "mark_waits", "messages_in",
        "produce_waits", "replicas", "rivals", "stable_waits", "staged", "start_waits", "topic_id", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        local_id: int,
        neighbours: Neighbours = NO_NEIGHBOURS,
    ) -> None:
        self._neighbours = neighbours
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.local_id = local_id
        self.log: PartitionLog | None = None
        self.leader = NOBODY
        self.leader_epoch = NO_EPOCH
        self.replicas: Sequence[int] = ()
        self.in_sync: Sequence[int] = ()
        #: Those of the replicas that a reassignment under way adds.
        self.adding: Sequence[int] = ()
        #: Other brokers that could be elected without this one's doing, while it leads.
        self.rivals: Sequence[int] = ()
        #: What is known of the followers while this broker leads.
        self.leadership: Leadership | None = None
        self.high_watermark = 0
        #: Up to where this broker's own records count for the mark: written, and synced if the topic asks for that.
        self.counted_end = 0
        #: Batches that the log has staged but not written yet.
        self.staged: list[Append] = []
        self.produce_waits = OffsetWaits()
        #: For the start of the log to have moved on all replicas.
        self.start_waits = OffsetWaits()
        #: Fetches of followers, woken by the log's end; of consumers, by the high watermark; of consumers that read
        #: committed records only, by the last stable offset.
        self.end_waits, self.mark_waits, self.stable_waits = FetchWaits(), FetchWaits(), FetchWaits()
        self._seen_stable = NO_OFFSET
        #: Of producers and to consumers, since this broker knows the partition.
        self.messages_in = self.bytes_in = self.bytes_out = 0

    # --- role ---

    def lead(self, term: PartitionImage) -> None:
        """A term that the image has given to this broker begins, or goes on with another in-sync set."""
        goes_on = self.leads and term.leader_epoch == self.leader_epoch
        if goes_on and (self.leadership is not None or self.log is None):
            if term.replicas != self.replicas:  # a new one may have asked before we knew of it
                self.end_waits.wake_all()
            self._take(term)
            if self.leadership is not None:
                self.leadership.go_on(term)
                self._look_for_rivals()
                self._starve_if_too_few()
        else:
            staged, waits = self._interrupt()
            self._take(term)
            if self.log is not None:
                self._begin(self.log, term)
            self._tell(staged, waits, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.advance(self.counted_end)

    def _begin(self, log: PartitionLog, term: PartitionImage) -> None:
        """What was written before may have to be synced still, by whoever wrote it or by us (`AppendQueue`)."""
        log.begin_epoch(term.leader_epoch)
        self.counted_end = log.recovery_point if log.flush_required() else log.log_end_offset
        index = self.topic_partition.partition
        self.leadership = Leadership(self.topic_id, index, self.local_id, term, log.log_end_offset, self._neighbours)
        self._look_for_rivals()

    def follow(self, term: PartitionImage) -> None:
        """The leader is another broker, or nobody."""
        if term.leader == self.leader and term.leader_epoch == self.leader_epoch:
            self._take(term)
            return
        staged, waits = self._interrupt()
        self._end_leadership()
        self._take(term)
        self._tell(staged, waits, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lose_log(self) -> None:
        """Its folder has failed: what is asked of it is answered KAFKA_STORAGE_ERROR from now on."""
        self._end_without_log(ErrorCode.KAFKA_STORAGE_ERROR)

    def delete(self) -> None:
        """The topic is gone."""
        self.leader = NOBODY
        self._end_without_log(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def log_truncated(self) -> None:
        """Offsets above the log's end are gone (recovery, truncation): the mark may not stand above it, and nobody may
        wait for what was there.
        """
        assert self.log is not None
        staged, waits = self._interrupt()
        end = self.counted_end = self.log.log_end_offset
        self.high_watermark = max(self.log.log_start_offset, min(self.high_watermark, end))
        self._tell(staged, waits, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _take(self, term: PartitionImage) -> None:
        self.leader, self.leader_epoch = term.leader, term.leader_epoch
        self.replicas, self.in_sync, self.adding = term.replicas, term.isr, term.adding

    def _end_leadership(self) -> None:
        self.leadership, self.rivals = None, ()

    def _end_without_log(self, code: ErrorCode) -> None:
        staged, waits = self._interrupt()
        self._end_leadership()
        self.log = None
        self._tell(staged, waits, code)

    def _interrupt(self) -> tuple[list[Append], list[OffsetWait]]:
        """Takes back what is staged. Who waits is told later, when the new state can be seen."""
        staged, self.staged = self.staged, []
        if staged and self.log is not None:
            self.log.discard_staged()
        return staged, self.produce_waits.take_all() + self.start_waits.take_all()

    def _tell(self, staged: Sequence[Append], waits: Sequence[OffsetWait], code: ErrorCode) -> None:
        for append in staged:
            append.failed(code)
        for wait in waits:
            wait.ended(code)
        for fetches in (self.end_waits, self.mark_waits, self.stable_waits):
            fetches.wake_all()

    def reconfigure(self, config: TopicConfig) -> None:
        """The topic's settings, or the broker's defaults of them, have changed."""
        if self.log is not None:
            self.log.config = config
            self._look_for_rivals()

    @property
    def has_uncounted(self) -> bool:
        """Whether records that this leader has written do not count for the mark yet."""
        return self.leadership is not None and self.log is not None and self.counted_end < self.log.log_end_offset

    @property
    def leads(self) -> bool:
        return self.leader == self.local_id

    def _look_for_rivals(self) -> None:
        """Kept rather than looked for with every question: it changes with the term, with what is proposed and with
        the settings. What is proposed may have been committed without this leader's having read it.
        """
        leadership, log = self.leadership, self.log
        if leadership is None or log is None:
            return
        if log.config.unclean_leader_election_enable:
            able = leadership.term.replicas
        else:
            able = leadership.maximal_isr + leadership.term.elr
        self.rivals = tuple(each for each in dict.fromkeys(able) if each != self.local_id)

    def holds_lease(self) -> bool:
        """Whether this leader may answer what no follower confirms (leases.py)."""
        return not self.rivals or self.leadership is None or self.leadership.holds_lease(self.rivals)

    def check_lease(self) -> None:
        if self.rivals and not self.holds_lease():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def has_enough_in_sync(self, wanted: int) -> bool:
        """Whether records may be acknowledged for all: `min.insync.replicas` cannot ask for more than there are."""
        return len(self.in_sync) >= min(wanted, len(self.replicas))

    def _starve_if_too_few(self) -> None:
        if not self.produce_waits or self.log is None:
            return
        if not self.has_enough_in_sync(self.log.config.min_insync_replicas):
            self.produce_waits.starve()

    def leader_log(self) -> PartitionLog:
        """The log, if this broker may serve it: Kafka's code otherwise."""
        if self.leader != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return self.log

    def served_log(self, told_epoch: int, leader_only: bool = True) -> PartitionLog:
        """The log for somebody who tells the epoch that he knows, in Kafka's order: is it here, do we agree about the
        epoch, is it ours to serve. Consumers may read from a follower, too.
        """
        if self.log is None:
            has_it = self.local_id in self.replicas
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR if has_it else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.check_epoch(told_epoch)
        if leader_only and self.leader != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def check_epoch(self, told_epoch: int) -> None:
        """An older one must learn of the new leader, a newer one is ahead of us."""
        if told_epoch in (NO_EPOCH, self.leader_epoch):
            return
        newer = told_epoch > self.leader_epoch
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH)

    def check_follower(self, replica_id: int, told_epoch: int, broker_epoch: int) -> None:
        """Who fetches as a follower must be one, in this life of its broker."""
        if self.leadership is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.leadership.check(replica_id, told_epoch, broker_epoch)

    def check_mark_is_known(self) -> None:
        """A new leader may not know yet how much of the log its predecessor had acknowledged."""
        if self.leadership is not None and self.high_watermark < self.leadership.epoch_start:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    # --- progress ---

    def advance(self, local_end: int) -> None:
        """The log has records up to here that count (written, and synced if the topic asks for that), or a follower
        moved on: raises the high watermark and wakes who waits for it.
        """
        leadership, log = self.leadership, self.log
        if leadership is None or log is None:
            return
        self.counted_end = local_end
        if len(self.replicas) == 1:
            mark = max(self.high_watermark, local_end)
        else:
            mark = leadership.mark(self.high_watermark, local_end, log.log_end_offset, log.config.min_insync_replicas)
        if mark != self.high_watermark:
            self._move_mark(mark)

    def fetched_by(
        self,
        replica_id: int,
        end_offset: int,
        log_start_offset: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        followed_at: float = NEVER,
    ) -> IsrChange | None:
        """A follower has everything below an offset: its fetch says so. Gives the proposal to take it into the in-sync
        set, if it is time for that.
        """
        leadership, log = self.leadership, self.log
        assert leadership is not None
        assert log is not None
        leadership.fetched(replica_id, end_offset, log_start_offset, broker_epoch, log.log_end_offset, followed_at)
        self.advance(self.counted_end)
        if self.start_waits:
            self._look_at_starts(leadership, log)
        change = leadership.expand(replica_id, self.high_watermark)
        if change is not None:
            self._look_for_rivals()
        return change

    def look_at_followers(self) -> IsrChange | None:
        """To be called from time to time: gives the proposal to do without followers that are too far behind."""
        leadership, log = self.leadership, self.log
        if leadership is None or log is None or len(self.replicas) == 1:
            return None
        if self.start_waits:
            self._look_at_starts(leadership, log)
        self.advance(self.counted_end)
        return leadership.shrink(log.log_end_offset)

    def isr_answered(self, change: IsrChange, code: ErrorCode) -> bool:
        """What the controller said of a proposal; True if it is to be sent again."""
        if self.leadership is None:
            return False
        again = self.leadership.answered(change, code)
        self._look_for_rivals()
        self.advance(self.counted_end)
        return again

    def isr_unanswered(self, change: IsrChange) -> None:
        """Its answer is lost. It is to be sent again."""
        if self.leadership is not None:
            self.leadership.unanswered(change)

    def low_watermark(self) -> int:
        """Where the log begins at the latest on every replica that lives."""
        log = self.leader_log()
        return log.log_start_offset if self.leadership is None else self.leadership.low_watermark(log.log_start_offset)

    def _look_at_starts(self, leadership: Leadership, log: PartitionLog) -> None:
        for wait in self.start_waits.take_reached(leadership.low_watermark(log.log_start_offset)):
            wait.reached()

    def learn(self, leader_mark: int, leader_log_start: int) -> None:
        """A follower is told by its leader how far the records are safe, and where the log begins."""
        log = self.log
        if log is None or self.leads:
            return
        mark = min(leader_mark, log.log_end_offset)
        if mark > self.high_watermark:
            self._move_mark(mark)
        start = min(leader_log_start, self.high_watermark)
        if start > log.log_start_offset:
            log.advance_log_start(start)

    def _move_mark(self, mark: int) -> None:
        self.high_watermark = mark
        if self.produce_waits:
            for wait in self.produce_waits.take_reached(mark):
                wait.reached()
        if self.mark_waits:
            self.mark_waits.wake_all()
        if self.stable_waits:
            stable = self.last_stable_offset()
            if stable != self._seen_stable:
                self._seen_stable = stable
                self.stable_waits.wake_all()

    def log_grew(self) -> None:
        """Records were written: followers may have them, whether or not they count yet."""
        if self.end_waits:
            self.end_waits.wake_all()

    def last_stable_offset(self) -> int:
        """Where the first open transaction begins; read_committed consumers see nothing from there on."""
        assert self.log is not None
        return self.log.last_stable_offset(self.high_watermark)

    # --- who else may be read from ---

    def read_replicas(self, offset: int, rack_of: Callable[[int], str | None]) -> tuple[ReplicaView, list[ReplicaView]]:
        """The leader, and the followers in sync that hold an offset."""
        leadership, log = self.leadership, self.log
        assert leadership is not None
        assert log is not None
        now_ms = self._neighbours.monotonic_ms()
        leader = ReplicaView(self.local_id, rack_of(self.local_id), log.log_end_offset, 0)
        return leader, [
            ReplicaView(replica, rack_of(replica), progress.end_offset, now_ms - progress.caught_up_ms)
            for replica, progress in leadership.followers.items()
            if replica in self.in_sync and progress.log_start_offset <= offset <= progress.end_offset
        ]

    # --- waiting fetches ---

    def waits_for_stable_records(self) -> FetchWaits:
        if not self.stable_waits and self.log is not None:
            self._seen_stable = self.last_stable_offset()
        return self.stable_waits

    @property
    def waiting_fetches(self) -> int:
        return len(self.end_waits) + len(self.mark_waits) + len(self.stable_waits)
