"""One task that follows all partitions a broker leads, or a share of them.

Append, then ask for more: the next fetch is the acknowledgement. A leader holds a fetch while there is nothing new;
what comes up meanwhile (a new leader's partitions, a log that was cut) would wait for as long. So the fetch under way
is called back: a request on another connection makes the leader answer it at once. The session goes on, so that the
next fetch names what has changed and not thousands of partitions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.replication.fetch_sessions import HURRY_EPOCH, NO_SESSION
from moldau.replication.follower import Cut, FetchPlan, FetchSettings, Followed, Key, Phase, Restart, Take
from moldau.replication.partition import Partition
from moldau.replication.throttling import ReplicationQuota, names
from moldau.server.appends import RunBlocking
from moldau.server.nudge import Nudge
from moldau.server.peers.peer import Lane, Peer, PeerLostError, Peers
from moldau.storage.errors import LogIOError
from moldau.storage.log import PartitionLog
from moldau.types.errors import KafkaError
from moldau.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState

log = logging.getLogger("moldau.server.replicas")

FIRST_PAUSE_SECONDS = 0.01
#: Beyond the time for which the leader may hold a fetch: then it counts as dead.
PATIENCE_SECONDS = 30.0
#: How often somebody looks again whether what is throttled may go on.
THROTTLED_SECONDS = 0.1


class LogCuts(Protocol):
    """How a follower's log is cut where its leader's history is another."""

    async def truncate(self, partition_log: PartitionLog, offset: int, is_wanted: Callable[[], bool]) -> bool: ...

    async def restart_at(self, partition_log: PartitionLog, offset: int, is_wanted: Callable[[], bool]) -> bool: ...


@dataclass(frozen=True, slots=True)
class ReplicaTools:
    peers: Peers
    cuts: LogCuts
    log_failed: Callable[[PartitionLog, Exception], None]
    segment_rolled: Callable[[PartitionLog], None]
    run_blocking: RunBlocking
    monotonic: Callable[[], float]
    settings: Callable[[], FetchSettings]
    quota: ReplicationQuota
    counted: Callable[[Partition, int], None] = lambda _partition, _size: None


class ReplicaFetcher:
    def __init__(self, leader: int, index: int, tools: ReplicaTools) -> None:
        self.leader, self.index = leader, index
        self._tools = tools
        self._settings = tools.settings()
        self.plan = FetchPlan(self._settings, self._is_held_back)
        self._peer: Peer = tools.peers.get(leader)
        self._news = Nudge()
        self._is_asking = self._is_called_back = self._holds_back = False
        self._passing: set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"replica fetcher {leader}-{index}")

    def follow(self, partition: Partition) -> None:
        self.plan.follow(partition)
        self._has_news()

    def forget(self, key: Key) -> None:
        self.plan.forget(key)

    async def stop(self) -> None:
        tasks = (self._task, *self._passing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the loop ---

    async def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            self._news.forget()
            self._holds_back = False
            request = self.plan.next_request(self._now_ms())
            if request is None:
                await self._news.taken(self._seconds_to_wait())
                continue
            try:
                answer = await self._ask(request)
                await self._apply(answer)
                pause = FIRST_PAUSE_SECONDS
            except PeerLostError as error:
                log.info("broker %d cannot be followed: %s", self.leader, error)
                self.plan.lost()
                await self._news.taken(pause)
                pause = min(2 * pause, self._settings.max_backoff_ms / 1000)
            except Exception:
                log.exception("an answer of broker %d could not be dealt with", self.leader)
                self.plan.lost()
                await self._news.taken(self._settings.max_backoff_ms / 1000)

    def _now_ms(self) -> float:
        return self._tools.monotonic() * 1000

    def _seconds_to_wait(self) -> float | None:
        if self._holds_back:
            return THROTTLED_SECONDS
        retry_ms = self.plan.next_retry_ms()
        return None if retry_ms is None else max(0.0, retry_ms - self._now_ms()) / 1000

    async def _ask(self, request: FetchRequest) -> FetchResponse:
        self._is_asking, self._is_called_back = True, False
        wait = self._seconds_to_wait()
        timer = None if wait is None else asyncio.get_running_loop().call_later(wait, self._has_news)
        try:
            patience = request.max_wait_ms / 1000 + PATIENCE_SECONDS
            return await self._peer.call(request, FetchResponse, Lane.fetch(self.index), timeout_seconds=patience)
        finally:
            self._is_asking = False
            if timer is not None:
                timer.cancel()

    def _has_news(self) -> None:
        self._news.give()
        if self._is_asking and not self._is_called_back and self.plan.session_id != NO_SESSION:
            self._is_called_back = True
            self._start(self._call_back(self.plan.session_id))

    async def _call_back(self, session_id: int) -> None:
        settings = self._settings
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=settings.replica_id, replica_epoch=settings.broker_epoch()),
            session_id=session_id,
            session_epoch=HURRY_EPOCH,
        )
        with contextlib.suppress(PeerLostError):
            await self._peer.call(request, FetchResponse, Lane.CONTROL)

    def _is_held_back(self, followed: Followed) -> bool:
        if not self._is_throttled(followed.partition) or not self._tools.quota.is_exceeded():
            return False
        self._holds_back = True
        return True

    def _is_throttled(self, partition: Partition) -> bool:
        partition_log = partition.log
        if partition_log is None or partition.local_id in partition.in_sync:
            return False
        named = partition_log.config.follower_replication_throttled_replicas
        return names(named, partition.topic_partition.partition, partition.local_id)

    # --- answers ---

    async def _apply(self, answer: FetchResponse) -> None:
        unsynced: list[PartitionLog] = []
        for followed, action in self.plan.answered(answer, self._now_ms()):
            partition_log = followed.partition.log
            if partition_log is None:
                continue
            if not isinstance(action, Take):
                self._start(self._cut(followed, partition_log, action))
            elif self._take(followed, partition_log, action) and partition_log.flush_required():
                unsynced.append(partition_log)
        for partition_log in unsynced:
            await self._sync(partition_log)

    def _take(self, followed: Followed, partition_log: PartitionLog, action: Take) -> bool:
        partition = followed.partition
        try:
            if len(action.records):
                if partition_log.append_as_follower(action.records, followed.leader_epoch).rolled:
                    self._tools.segment_rolled(partition_log)
                self._tools.counted(partition, len(action.records))
                if self._is_throttled(partition):
                    self._tools.quota.record(len(action.records))
            partition.learn(action.high_watermark, action.log_start_offset)
        except LogIOError as error:
            self._tools.log_failed(partition_log, error)
            self.plan.delay(followed, self._now_ms())
            return False
        except KafkaError as error:
            log.warning("%s: what broker %d sent is refused: %s", partition.topic_partition, self.leader, error)
            self.plan.delay(followed, self._now_ms())
            return False
        return True

    async def _sync(self, partition_log: PartitionLog) -> None:
        """With `flush.messages` nothing is acknowledged that is not on disk, by a follower neither."""
        work = partition_log.flush_work()
        try:
            await self._tools.run_blocking(work)
        except (OSError, LogIOError) as error:
            self._tools.log_failed(partition_log, error)
        else:
            partition_log.flushed(work.up_to)

    async def _cut(self, followed: Followed, partition_log: PartitionLog, action: Cut | Restart) -> None:
        partition, epoch, end = followed.partition, followed.leader_epoch, partition_log.log_end_offset

        def is_wanted() -> bool:
            return (
                partition.log is partition_log
                and partition.leader == self.leader
                and partition.leader_epoch == epoch
                and partition_log.log_end_offset == end
                and followed.phase is Phase.CUTTING
                and self.plan.follows(followed)
            )

        try:
            cut = self._tools.cuts.truncate if isinstance(action, Cut) else self._tools.cuts.restart_at
            if await cut(partition_log, action.offset, is_wanted):
                log.info("%s is cut from %d to %d", partition.topic_partition, end, partition_log.log_end_offset)
                partition.log_truncated()
        except (OSError, LogIOError):
            self.plan.delay(followed, self._now_ms())  # the manager has taken the directory offline
            return
        self.plan.resume(followed)
        self._has_news()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
