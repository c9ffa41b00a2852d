"""A follower's side of replication, without I/O: what to ask a leader for, and what to do with its answer.

A `FetchPlan` holds the partitions that one fetcher follows at one leader. The leader keeps a session of them, so that a
request names only what has changed since the last one, and of thousands that have changed some at a time, each of which
is answered at once: neither side's loop is held for long. An answer is judged partition by partition and gives an
action:

`Take`     append the records (maybe none), learn the leader's high watermark and where its log begins
`Cut`      our history leaves the leader's: cut the log, then ask again, as often as it takes (KIP-279)
`Restart`  the leader's log begins beyond ours: drop ours and begin there

An answer counts only if what was asked is still true: the leader's epoch, and the end of our log. What an older leader
said of our history could cut records that a newer one has committed. After an error a partition is left out for a
while, longer each time, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from moldau.replication.fetch_sessions import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_EPOCH, TopicId
from moldau.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from moldau.wire.schema import Buffer

if TYPE_CHECKING:
    from moldau.replication.partition import Partition
    from moldau.storage.log import PartitionLog

FIRST_BACKOFF_MS = 10.0
MOST_NAMED = 500
"""Partitions in one request, as long as the leader keeps a session: without one each request has to name them all."""

Key: TypeAlias = tuple[TopicId, int]


class Asked(NamedTuple):
    """What the leader's session knows of a partition."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Phase(Enum):
    FETCHING = auto()
    CUTTING = auto()
    DELAYED = auto()


class Followed:
    """A partition on its way behind a leader."""

    __slots__ = ("backoff_ms", "key", "leader_epoch", "leader_mark", "partition", "phase", "retry_at_ms", "sent")

    def __init__(self, partition: Partition) -> None:
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.partition = partition
        self.begin(partition.leader_epoch)
        self.sent: Asked | None = None
        #: The leader's high watermark as it was last told.
        self.leader_mark = 0

    def begin(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.phase = Phase.FETCHING
        self.retry_at_ms = 0.0
        self.backoff_ms = FIRST_BACKOFF_MS

    @property
    def lag(self) -> int:
        """How many records that are committed are not here yet."""
        log = self.partition.log
        return 0 if log is None else max(0, self.leader_mark - log.log_end_offset)

    def asks(self, log: PartitionLog) -> Asked:
        return Asked(self.leader_epoch, log.log_end_offset, log.leader_epochs.latest, log.log_start_offset)

    def counts(self, log: PartitionLog) -> bool:
        """Whether what was asked is still true."""
        sent = self.sent
        return (
            sent is not None
            and self.phase is Phase.FETCHING
            and sent.leader_epoch == self.leader_epoch == self.partition.leader_epoch
            and sent.fetch_offset == log.log_end_offset
        )


@dataclass(frozen=True, slots=True)
class Take:
    records: Buffer
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Cut:
    offset: int


@dataclass(frozen=True, slots=True)
class Restart:
    offset: int


Action: TypeAlias = Take | Cut | Restart


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The follower's name, and Kafka's `replica.fetch.*`."""

    replica_id: int
    broker_epoch: Callable[[], int]
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576
    max_backoff_ms: int = 1000


def truncation_point(log: PartitionLog, epoch: int, leader_end: int) -> int:
    """Where our history may still be the leader's, given the largest epoch not above our last one that the leader
    knows, and where it ends there. If we do not know that epoch, the end of our next lower one is all that can be said:
    the next answer tells more.
    """
    our_epoch, our_end = log.epoch_end_offset(epoch)
    if our_epoch == NO_EPOCH:
        return min(leader_end, log.log_end_offset)
    if our_epoch != epoch:
        return min(our_end, log.log_end_offset)
    return min(our_end, leader_end, log.log_end_offset)


class FetchPlan:
    def __init__(self, settings: FetchSettings, is_held_back: Callable[[Followed], bool] = lambda _: False) -> None:
        """`is_held_back`: whether a partition has to wait, for the sake of others (throttling)."""
        self._settings = settings
        self._is_held_back = is_held_back
        self._followed: dict[Key, Followed] = {}
        self._changed: dict[Key, None] = {}
        self._delayed: dict[Key, Followed] = {}
        self._in_session: dict[Key, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._most_named: int | None = MOST_NAMED

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, key: Key) -> bool:
        return key in self._followed

    def __iter__(self) -> Iterator[Followed]:
        return iter(self._followed.values())

    def follows(self, followed: Followed) -> bool:
        """Whether this is its to decide on: it was neither forgotten nor made anew."""
        return self._followed.get(followed.key) is followed

    @property
    def session_id(self) -> int:
        return self._session_id

    # --- which partitions ---

    def follow(self, partition: Partition) -> None:
        """From now on, or in another epoch than before."""
        key = (partition.topic_id, partition.topic_partition.partition)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition:
            self._followed[key] = Followed(partition)
        else:
            followed.begin(partition.leader_epoch)
        self._delayed.pop(key, None)
        self._changed[key] = None

    def forget(self, key: Key) -> None:
        self._followed.pop(key, None)
        self._delayed.pop(key, None)
        self._changed[key] = None

    def delay(self, followed: Followed, now_ms: float) -> None:
        """Something is wrong with it, or with the leader's view of it."""
        if not self.follows(followed):
            return
        followed.phase = Phase.DELAYED
        followed.retry_at_ms = now_ms + followed.backoff_ms
        followed.backoff_ms = min(2 * followed.backoff_ms, self._settings.max_backoff_ms)
        self._delayed[followed.key] = followed
        self._changed[followed.key] = None

    def resume(self, followed: Followed) -> None:
        """Its log was cut: it goes on at the new end."""
        if followed.phase is Phase.CUTTING:
            followed.phase = Phase.FETCHING
        self._changed[followed.key] = None

    def next_retry_ms(self) -> float | None:
        return min((followed.retry_at_ms for followed in self._delayed.values()), default=None)

    # --- requests ---

    def next_request(self, now_ms: float) -> FetchRequest | None:
        """None if there is nothing to ask for at this time."""
        self._retry_due(now_ms)
        is_full = self._session_id == NO_SESSION
        wanted: list[tuple[Key, Asked]] = []
        dropped: list[Key] = []
        changed = iter(self._changed)
        for key in changed:
            followed = self._followed.get(key)
            asked = None if followed is None else self._asks(followed)
            if followed is None or asked is None:
                dropped.append(key)
            elif is_full or key not in self._in_session or asked != followed.sent:
                wanted.append((key, asked))
                if len(wanted) == self._most_named:
                    break
        rest = dict.fromkeys(changed)
        forgotten = [key for key in dropped if key in self._in_session]
        if not wanted and not self._has_others(forgotten):
            return None
        self._changed = {key: None for key in dropped if self._is_held(key)} | rest
        for key in forgotten:
            del self._in_session[key]
        for key, asked in wanted:
            self._in_session[key] = None
            self._followed[key].sent = asked
        return self._request(wanted, forgotten, wait_ms=0 if rest else self._settings.max_wait_ms)

    def _has_others(self, forgotten: Iterable[Key]) -> bool:
        return len(self._in_session) > len(tuple(forgotten))

    def _is_held(self, key: Key) -> bool:
        followed = self._followed.get(key)
        return followed is not None and followed.phase is Phase.FETCHING

    def _asks(self, followed: Followed) -> Asked | None:
        log = followed.partition.log
        if log is None or followed.phase is not Phase.FETCHING or self._is_held_back(followed):
            return None
        return followed.asks(log)

    def _retry_due(self, now_ms: float) -> None:
        for key, followed in tuple(self._delayed.items()):
            if followed.retry_at_ms <= now_ms:
                del self._delayed[key]
                followed.phase = Phase.FETCHING
                self._changed[key] = None

    def _request(self, wanted: Iterable[tuple[Key, Asked]], forgotten: Iterable[Key], wait_ms: int) -> FetchRequest:
        settings = self._settings
        topics: dict[TopicId, list[FetchPartition]] = {}
        for (topic_id, index), asked in wanted:
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=asked.leader_epoch,
                    fetch_offset=asked.fetch_offset,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    log_start_offset=asked.log_start_offset,
                    partition_max_bytes=settings.partition_max_bytes,
                )
            )
        left: dict[TopicId, list[int]] = {}
        for topic_id, index in forgotten:
            left.setdefault(topic_id, []).append(index)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.replica_id, replica_epoch=settings.broker_epoch()),
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic, partitions=found) for topic, found in left.items()],
        )

    # --- answers ---

    def lost(self) -> None:
        """The connection is, and with it the session: the next request names everything."""
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._most_named = MOST_NAMED
        self._in_session.clear()
        self._changed = dict.fromkeys(self._followed)
        for followed in self._followed.values():
            followed.sent = None

    def answered(self, answer: FetchResponse, now_ms: float) -> Iterator[tuple[Followed, Action]]:
        """What to do, one after the other: each action is to be done before the next is asked for."""
        if answer.error_code:
            self.lost()
            return
        if self._session_id == NO_SESSION:
            self._session_id = answer.session_id
            self._session_epoch = INITIAL_EPOCH if answer.session_id == NO_SESSION else INITIAL_EPOCH + 1
            if answer.session_id == NO_SESSION:
                self._most_named = None
                self._in_session.clear()
                self._changed = dict.fromkeys(self._followed)
        else:
            self._session_epoch = 1 if self._session_epoch == MAX_EPOCH else self._session_epoch + 1
        for topic in answer.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                log = None if followed is None else followed.partition.log
                if followed is None or log is None or not followed.counts(log):
                    continue
                self._changed[followed.key] = None
                action = self.judge(followed, log, data, now_ms)
                if action is not None:
                    yield followed, action

    def judge(self, followed: Followed, log: PartitionLog, data: PartitionData, now_ms: float) -> Action | None:
        if data.error_code == ErrorCode.NONE:
            followed.backoff_ms = FIRST_BACKOFF_MS
            followed.leader_mark = data.high_watermark
            diverging = data.diverging_epoch
            if diverging is not None and diverging.end_offset >= 0:
                followed.phase = Phase.CUTTING
                return Cut(truncation_point(log, diverging.epoch, diverging.end_offset))
            return Take(data.records or b"", data.high_watermark, data.log_start_offset)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset >= 0:
            followed.phase = Phase.CUTTING
            return Restart(data.log_start_offset)
        self.delay(followed, now_ms)
        return None
