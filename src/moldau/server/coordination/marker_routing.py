"""Brings transaction markers to the leaders of their partitions, wherever they are, and insists until all are written.

Markers for other brokers are collected: one request per leader is under way, and what comes meanwhile goes with the
next. What cannot be written now waits for the next image, since a new leader is what it mostly waits for. A topic that
was deleted needs no marker, nor does one that was made again under the same name. Whatever else is answered, the marker
is sent again: without it the last stable offset of its partition would stand still for good. Where another coordinator
has taken over, the life of the shard that asks ends soon, and its sending with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from moldau.coordinators.transactions.machine import Markers
from moldau.metadata.image import NO_LEADER, ClusterImage
from moldau.server.coordination.markers import by_topic
from moldau.server.peers.peer import Lane, PeerLostError, Peers
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = logging.getLogger("moldau.server.coordination")

LONGEST_WAIT_SECONDS: Final = 0.5
"""Some reasons pass without a new image: a replica that catches up, a folder that is made writable again."""
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 15.0
"""Between attempts where somebody has to do something about the reason."""
#: With INVALID_PRODUCER_EPOCH the producer has gone on there: that transaction has its end.
DONE: Final = frozenset((ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH))
#: What a marker cannot be written for now, but perhaps soon.
PASSING: Final = frozenset((
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
))  # fmt: skip


class LocalMarkers(Protocol):
    async def write(self, markers: Markers, topic_partition: TopicPartition) -> ErrorCode: ...


class Sent(NamedTuple):
    """One marker on its way to another broker."""

    markers: Markers
    partition: TopicPartition
    code: asyncio.Future[ErrorCode]


class MarkerRouter:
    def __init__(
        self,
        broker_id: int,
        local: LocalMarkers,
        image: Callable[[], ClusterImage],
        next_image: Callable[[], Awaitable[object]],
        peers: Peers | None = None,
    ) -> None:
        """`next_image` waits until the image has changed. Without `peers` this broker leads everything."""
        self._broker_id = broker_id
        self._local = local
        self._image = image
        self._next_image = next_image
        self._peers = peers
        self._collected: dict[int, list[Sent]] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}

    async def write(self, markers: Markers, topic_partition: TopicPartition) -> ErrorCode:
        """Here, on behalf of another coordinator."""
        return await self._local.write(markers, topic_partition)

    async def write_all(self, markers: Markers) -> None:
        """Returns when every partition that still exists has its marker."""
        topics = self._image().topics
        known = {topic: topics[topic].id for topic in {each.topic for each in markers.partitions} if topic in topics}
        insisting = [
            asyncio.ensure_future(self._insist(markers, partition, known.get(partition.topic)))
            for partition in markers.partitions
        ]
        try:
            await asyncio.gather(*insisting)
        finally:
            for each in insisting:
                each.cancel()

    async def _insist(self, markers: Markers, partition: TopicPartition, topic_id: UUID | None) -> None:
        pause = FIRST_PAUSE_SECONDS
        while topic_id is not None and self._exists(partition, topic_id):
            # Begun before the attempt: an image that comes meanwhile counts.
            changed = asyncio.ensure_future(self._next_image())
            try:
                code = await self._attempt(markers, partition)
                if code in DONE:
                    if code is not ErrorCode.NONE:
                        log.warning("%s: no marker for %s: %s", partition, markers.transactional_id, code.name)
                    return
                if code in PASSING:
                    await asyncio.wait((changed,), timeout=LONGEST_WAIT_SECONDS)
                    continue
                told = "%s: no marker for %s, whose transaction stays open there: %s; it is sent again in %g s"
                level = logging.INFO if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED else logging.ERROR
                log.log(level, told, partition, markers.transactional_id, code.name, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            finally:
                changed.cancel()

    async def something_changes(self) -> None:
        """Returns with the next image, or after a while."""
        changed = asyncio.ensure_future(self._next_image())
        try:
            await asyncio.wait((changed,), timeout=LONGEST_WAIT_SECONDS)
        finally:
            changed.cancel()

    def _exists(self, partition: TopicPartition, topic_id: UUID) -> bool:
        topic = self._image().topics.get(partition.topic)
        return topic is not None and topic.id == topic_id and partition.partition < len(topic.partitions)

    async def _attempt(self, markers: Markers, partition: TopicPartition) -> ErrorCode:
        found = self._image().partition(*partition)
        leader = NO_LEADER if found is None else found.leader
        if leader == self._broker_id or self._peers is None:
            return await self._write_here(markers, partition)
        if leader == NO_LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        sent = Sent(markers, partition, asyncio.get_running_loop().create_future())
        self._collected.setdefault(leader, []).append(sent)
        if leader not in self._sending:
            self._sending[leader] = asyncio.get_running_loop().create_task(self._send_collected(leader, self._peers))
        return await sent.code

    async def _write_here(self, markers: Markers, partition: TopicPartition) -> ErrorCode:
        try:
            return await self._local.write(markers, partition)
        except Exception:
            log.exception("%s: no marker for %s", partition, markers.transactional_id)
            return ErrorCode.UNKNOWN_SERVER_ERROR

    # --- to other brokers ---

    async def _send_collected(self, leader: int, peers: Peers) -> None:
        # Markers that are asked for in the same turn of the loop go together.
        await asyncio.sleep(0)
        try:
            while batch := self._next_batch(leader):
                codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
                try:
                    codes = await self._send(leader, peers, batch)
                finally:
                    for sent in batch:
                        if not sent.code.done():
                            sent.code.set_result(codes.get(named(sent), UNANSWERED))
        finally:
            del self._sending[leader]

    def _next_batch(self, leader: int) -> list[Sent]:
        """Each producer's partition once: answers are told apart by these, and two terms of one coordinator may end
        the same transaction."""
        batch: dict[tuple[int, TopicPartition], Sent] = {}
        waiting = [sent for sent in self._collected.pop(leader, ()) if not sent.code.done()]
        later = [sent for sent in waiting if batch.setdefault(named(sent), sent) is not sent]
        if later:
            self._collected[leader] = later
        return list(batch.values())

    async def _send(
        self, leader: int, peers: Peers, batch: Sequence[Sent]
    ) -> dict[tuple[int, TopicPartition], ErrorCode]:
        try:
            answer = await peers.get(leader).call(as_request(batch), WriteTxnMarkersResponse, Lane.MARKERS)
        except PeerLostError as error:
            log.info("%d markers for broker %d will be sent again: %s", len(batch), leader, error)
            return {}
        except Exception:
            log.exception("%d markers for broker %d will be sent again", len(batch), leader)
            return {}
        return {
            (marker.producer_id, TopicPartition(topic.name, each.partition_index)): ErrorCode(each.error_code)
            for marker in answer.markers
            for topic in marker.topics
            for each in topic.partitions
        }


UNANSWERED: Final = ErrorCode.NETWORK_EXCEPTION


def named(sent: Sent) -> tuple[int, TopicPartition]:
    return sent.markers.producer_id, sent.partition


def as_request(batch: Sequence[Sent]) -> WriteTxnMarkersRequest:
    together: dict[int, tuple[Markers, list[TopicPartition]]] = {}
    for sent in batch:
        together.setdefault(id(sent.markers), (sent.markers, []))[1].append(sent.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(partitions).items()
                ],
                coordinator_epoch=markers.coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
            for markers, partitions in together.values()
        ]
    )
