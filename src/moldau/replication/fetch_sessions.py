"""Fetch sessions (KIP-227): a client names its partitions once and later only what changed; answers hold only what is
new.

Pure: the cache takes the time and the random id as arguments. One session belongs to one client; a request must carry
the epoch that follows the last one, so that a lost or repeated request is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from moldau.replication.leases import NEVER
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicId

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
#: Ours, between brokers: a fetch of the session that waits is answered now.
HURRY_EPOCH = -2
MAX_EPOCH = 2**31 - 1
EVICTION_MS = 120_000

#: (topic id or name, partition): the form that the client's version uses.
PartitionKey = tuple[TopicId | str, int]


@dataclass(slots=True)
class FetchTarget:
    """A partition that is asked for, and what the client was last told of it."""

    key: PartitionKey
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    #: Where a follower's log begins.
    log_start_offset: int = -1
    #: Of a topic asked for by id, once it is known: what is then said of a topic that was deleted depends on it.
    name: str | None = None
    told_high_watermark: int = -1
    told_log_start: int = -1

    def update(self, other: FetchTarget) -> None:
        if other.leader_epoch != self.leader_epoch:
            # What was told to who followed in another epoch by then was not heeded.
            self.told_high_watermark = -1
        self.fetch_offset, self.max_bytes = other.fetch_offset, other.max_bytes
        self.leader_epoch, self.last_fetched_epoch = other.leader_epoch, other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset

    def is_news(self, record_bytes: int, high_watermark: int, log_start: int, error: int, diverged: bool) -> bool:
        news = record_bytes > 0 or diverged or error != 0
        if high_watermark != self.told_high_watermark:
            self.told_high_watermark, news = high_watermark, True
        if log_start != self.told_log_start:
            self.told_log_start, news = log_start, True
        if error or diverged:
            # Told again when that is over, even if nothing else changed: who hears of it has no use for the mark.
            self.told_high_watermark = -1
        return news


@dataclass(slots=True)
class FetchSession:
    id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    epoch: int = 1
    targets: dict[PartitionKey, FetchTarget] = field(default_factory=dict)
    hurry: Callable[[], None] | None = None
    """Ends the wait of a fetch of this session that finds too little."""
    asked_at: float = NEVER
    """When its last request was taken up, in seconds of the lease's clock: the next one is sent by somebody who has the
    answer."""
    is_hurried: bool = False
    """The next fetch that finds too little is answered all the same."""

    def change(self, wanted: Iterable[FetchTarget], forgotten: Iterable[PartitionKey]) -> None:
        for target in wanted:
            known = self.targets.get(target.key)
            if known is None:
                self.targets[target.key] = target
            else:
                known.update(target)
        for key in forgotten:
            self.targets.pop(key, None)

    def rotate(self, served: Iterable[PartitionKey]) -> None:
        """Partitions that gave data go to the end, so that a small max_bytes does not starve those behind them."""
        for key in served:
            target = self.targets.pop(key, None)
            if target is not None:
                self.targets[key] = target


class FetchSessions:
    def __init__(self, slots: int, next_id: Callable[[], int]) -> None:
        self._slots = slots
        self._next_id = next_id
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def open(self, targets: Iterable[FetchTarget], uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session, or None when the cache is full of sessions in use: the client then goes on without one."""
        wanted = {target.key: target for target in targets}
        if not self._make_room(len(wanted), now_ms):
            return None
        session_id = self._next_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._next_id()
        session = FetchSession(session_id, uses_topic_ids, now_ms, now_ms, targets=wanted)
        self._sessions[session_id] = session
        return session

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.last_used_ms = now_ms
        return session

    def hurry(self, session_id: int) -> None:
        """A fetch of it that waits is answered now, or the next one as soon as it comes; the session goes on."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        if session.hurry is None:
            session.is_hurried = True
        else:
            session.hurry()

    def close(self, session_id: int) -> None:
        """A fetch of it that still waits is answered now."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.hurry is not None:
            session.hurry()

    def _make_room(self, size: int, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        stalest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - stalest.last_used_ms <= EVICTION_MS:
            smallest = min(self._sessions.values(), key=lambda session: len(session.targets))
            if len(smallest.targets) >= size or now_ms - smallest.created_ms <= EVICTION_MS:
                return False
            stalest = smallest
        self.close(stalest.id)
        return True
