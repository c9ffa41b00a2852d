"""The way of a leader's proposals to the controller, and the look at the followers that makes some of them.

One request at a time, with all that is proposed by then. Its answer tells refusals; what was accepted comes with the
image. Without an answer the proposal is sent again: it may or may not have been carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from moldau.metadata.image import ClusterImage
from moldau.metrics import Counter
from moldau.replication.leader import IsrChange, Neighbours
from moldau.replication.leases import Lease
from moldau.replication.partition import Partition
from moldau.server.mishaps import Mishaps
from moldau.server.peers.peer import PeerLostError
from moldau.types.errors import ErrorCode
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

log = logging.getLogger("moldau.server.replicas")

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0

#: Asks the controller; gives its code for each, in order. Raises PeerLostError if there is no answer.
AlterPartitions = Callable[[Sequence[IsrChange]], Awaitable[Sequence[ErrorCode]]]


class IsrChanges:
    def __init__(self, alter_partitions: AlterPartitions, partitions: Iterable[Partition], refused: Counter) -> None:
        self._refused = refused
        self._alter_partitions = alter_partitions
        self._partitions = partitions
        self._waiting: dict[Partition, IsrChange] = {}
        self._task: asyncio.Task[None] | None = None
        self._mishaps = Mishaps(log, "the proposal of in-sync sets")

    def propose(self, partition: Partition, change: IsrChange) -> None:
        self._waiting[partition] = change
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all(), name="in-sync sets")

    async def look_at_followers(self) -> None:
        """To be called at every half of `replica.lag.time.max.ms`."""
        await run(self._look())

    def _look(self) -> Work[None]:
        paused = pauses()
        for partition in tuple(self._partitions):
            change = partition.look_at_followers()
            if change is not None:
                self.propose(partition, change)
            if next(paused):
                yield

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _send_all(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        try:
            while self._waiting:
                proposed = [(one, change) for one, change in self._waiting.items() if is_pending(one, change)]
                self._waiting.clear()
                if not proposed or await self._send(proposed):
                    pause = FIRST_PAUSE_SECONDS
                else:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        finally:
            self._task = None

    async def _send(self, proposed: Sequence[tuple[Partition, IsrChange]]) -> bool:
        """Whether all of it is decided."""
        try:
            codes = await self._alter_partitions([change for _, change in proposed])
        except Exception as error:
            if isinstance(error, PeerLostError):
                log.info("the controller does not answer: %s", error)
            else:
                self._mishaps.happened(error)
            for partition, change in proposed:
                partition.isr_unanswered(change)
                self._waiting.setdefault(partition, change)
            return False
        self._mishaps.over()
        is_decided = True
        for (partition, change), code in zip(proposed, codes, strict=True):
            if code is not ErrorCode.NONE:
                self._refused.value += 1
                log.info("%s: in-sync set %s: %s", partition.topic_partition, change.isr, code.name)
            if partition.isr_answered(change, code):
                self._waiting.setdefault(partition, change)
                is_decided = False
        return is_decided


def is_pending(partition: Partition, change: IsrChange) -> bool:
    return partition.leadership is not None and partition.leadership.pending is change


def neighbours_in(
    image: Callable[[], ClusterImage], monotonic: Callable[[], float], max_lag_ms: Callable[[], int], lease: Lease
) -> Neighbours:
    """The other brokers, as the image knows them."""

    def registered_epoch(broker_id: int) -> int | None:
        broker = image().brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.is_active else None

    def is_alive(broker_id: int) -> bool:
        broker = image().brokers.get(broker_id)
        return broker is not None and not broker.fenced

    return Neighbours(lambda: monotonic() * 1000, registered_epoch, is_alive, max_lag_ms, lease)
