"""Fetch, versions 4 to 18.

Long poll by min_bytes and max_wait_ms; fetch sessions (7+); isolation levels; divergence (12+); topic ids (13+).
Not here yet: fetches of followers move no in-sync set (replication comes with the cluster), preferred read replicas,
node endpoints beside an error (16+: there is only one node to name).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchTarget
from moldau.security.context import RequestContext
from moldau.server.answers import Piece
from moldau.server.fetching import READ_COMMITTED, Fetched, FetchLimits, FetchRound, WaitingFetch, read_round
from moldau.server.registry import Api
from moldau.types.errors import KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.codec import decode
from moldau.wire.fetch_answer import TOPIC_IDS_FROM, pack_fetch_answer
from moldau.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Frame, Slot


class Fetch:
    """One request under way."""

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, slot: Slot) -> None:
        self.broker, self.context, self.request, self.slot = broker, context, request, slot
        self.started = perf_counter()
        self.session: FetchSession | None = None
        self.is_incremental = False

    def start(self) -> None:
        request = self.request
        try:
            targets = self.targets()
        except KafkaError as error:
            self.send(pack_fetch_answer(self.context.api_version, self.context.correlation_id, (), error=error.code))
            return
        state = request.replica_state
        limits = FetchLimits(
            replica_id=state.replica_id if state is not None else request.replica_id,
            read_committed=request.isolation_level == READ_COMMITTED,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, self.broker.config.fetch_max_bytes),
            max_bytes=min(request.max_bytes, self.broker.config.fetch_max_bytes),
        )
        fetch = read_round(self.broker, self.context, targets, limits)
        if fetch.record_bytes >= limits.min_bytes or fetch.has_error or limits.max_wait_ms <= 0 or not targets:
            self.respond(fetch)
        else:
            fetch.release()
            waiting = WaitingFetch(self.broker, self.context, targets, limits, self.respond)
            self.slot.connection.waiting = waiting

    def targets(self) -> list[FetchTarget]:
        """The partitions of this fetch, after the session was opened, resumed or closed as the epoch says."""
        request, sessions = self.request, self.broker.fetch_sessions
        uses_ids = self.context.api_version >= TOPIC_IDS_FROM
        now_ms = self.broker.wall_ms()
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            sessions.close(request.session_id)
            targets = list(requested(request, uses_ids).values())
            if request.session_epoch == INITIAL_EPOCH:
                self.session = sessions.open(targets, uses_ids, now_ms)
            return targets
        self.session = sessions.resume(request.session_id, request.session_epoch, uses_ids, now_ms)
        self.is_incremental = True
        self.session.change(requested(request, uses_ids).values(), forgotten(request, uses_ids))
        return list(self.session.targets.values())

    def respond(self, fetch: FetchRound) -> None:
        if not self.slot.connection.open:
            fetch.release()
            self.send(())
            return
        answered = self.worth_telling(fetch)
        if self.session is not None:
            self.session.rotate([target.key for target, fetched in fetch.results if fetched.records is not None])
        topics: dict[UUID | str, list[Fetched]] = {}
        for target, fetched in answered:
            topics.setdefault(target.key[0], []).append(fetched)
        self.send(
            pack_fetch_answer(
                self.context.api_version,
                self.context.correlation_id,
                list(topics.items()),
                throttle_ms=self.slot.mute_ms,
                session_id=NO_SESSION if self.session is None else self.session.id,
            )
        )
        self.broker.record_fetch(fetch, perf_counter() - self.started)

    def worth_telling(self, fetch: FetchRound) -> list[tuple[FetchTarget, Fetched]]:
        """An incremental answer leaves out partitions of which there is nothing new."""
        if self.session is None:
            return fetch.results
        news = []
        for target, fetched in fetch.results:
            length = 0 if fetched.records is None else fetched.records.length
            is_news = target.is_news(
                length, fetched.high_watermark, fetched.log_start_offset, fetched.error, fetched.diverging is not None
            )
            if is_news or not self.is_incremental:
                news.append((target, fetched))
        return news

    def send(self, pieces: Sequence[Piece]) -> None:
        self.slot.answer(pieces)


def requested(request: FetchRequest, uses_ids: bool) -> dict[tuple[UUID | str, int], FetchTarget]:
    targets: dict[tuple[UUID | str, int], FetchTarget] = {}
    for topic in request.topics:
        name = topic.topic_id if uses_ids else topic.topic
        for wanted in topic.partitions:
            key = (name, wanted.partition)
            targets[key] = FetchTarget(
                key,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                wanted.current_leader_epoch,
                wanted.last_fetched_epoch,
            )
    return targets


def forgotten(request: FetchRequest, uses_ids: bool) -> list[tuple[UUID | str, int]]:
    return [
        (topic.topic_id if uses_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def handle(broker: Broker, context: RequestContext, frame: Frame, body: int, slot: Slot) -> None:
    request, _ = decode(FetchRequest, context.api_version, frame.view, body)
    frame.release()
    Fetch(broker, context, request, slot).start()


API = Api(ApiKey.FETCH, 4, 18, FetchRequest, raw=handle)
