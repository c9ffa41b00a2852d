"""Fetch, versions 4 to 18.

Long poll by min_bytes and max_wait_ms; fetch sessions (7+); isolation levels; preferred read replicas (11+); divergence
(12+); topic ids (13+). A follower's fetch acknowledges what it has; it is believed only from a broker. One whose epoch
is newer than ours waits for our image.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.replication.fetch_sessions import (
    FINAL_EPOCH,
    HURRY_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchTarget,
)
from moldau.replication.leader import UNKNOWN_BROKER_EPOCH
from moldau.replication.leases import NEVER
from moldau.security.context import RequestContext
from moldau.server.busy import Timed, timed
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.fetching import Fetched, FetchLimits, FetchRound, WaitingFetch, read_round
from moldau.server.registry import LARGE_REQUEST_BYTES, Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH
from moldau.wire.apis import ApiKey
from moldau.wire.codec import DecodeError, decode, decode_in_turns
from moldau.wire.fetch_answer import PREFERRED_REPLICA_FROM, TOPIC_IDS_FROM, NodeEndpoint, pack_fetch_answer
from moldau.wire.messages.fetch import FetchRequest
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin, run

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Frame, Slot

log = logging.getLogger("moldau.server.fetch")

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Fetch:
    """One request under way."""

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, slot: Slot) -> None:
        self.broker, self.context, self.request, self.slot = broker, context, request, slot
        self.started = perf_counter()
        #: When it began to wait for records, if it does.
        self.waits_since: float | None = None
        self.session: FetchSession | None = None
        self.is_incremental = False

    def go_on(self, work: Work[None]) -> None:
        begun = begin(timed(self.slot, work) if self.is_limited else work)
        if begun is not None:
            self.broker.start(self._finish(begun))

    async def _finish(self, begun: Awaitable[None]) -> None:
        try:
            await begun
        except Exception:
            log.exception("%s: closing: a fetch failed", self.context.client.address)
            self.slot.disconnect()

    def start(self) -> Work[None]:
        request = self.request
        if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            yield from self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if self.replica_id >= 0 and not acts_for_cluster(self.broker, self.context):
            yield from self.refuse_each(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
        if request.session_epoch == HURRY_EPOCH and self.context.client.broker_id == self.replica_id >= 0:
            self.broker.fetch_sessions.hurry(request.session_id)
            yield from self.respond(FetchRound([]))
            return
        try:
            targets = yield from self.targets()
        except KafkaError as error:
            version, correlation_id = self.context.api_version, self.context.correlation_id
            self.slot.answer((yield from pack_fetch_answer(version, correlation_id, (), error=error.code)))
            return
        limits = FetchLimits(
            replica_id=self.replica_id,
            read_committed=request.isolation_level == READ_COMMITTED,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, self.most_bytes()),
            max_bytes=self.most_bytes(),
            broker_epoch=UNKNOWN_BROKER_EPOCH if request.replica_state is None else request.replica_state.replica_epoch,
            leader_only=self.replica_id >= 0 or self.context.api_version < PREFERRED_REPLICA_FROM,
            rack=request.rack_id,
            # Anybody can call himself a replica: what he has counts only if he has introduced himself as that broker.
            tells_progress=self.context.client.broker_id == self.replica_id,
            followed_at=self.followed_at(),
        )
        fetch = yield from read_round(self.broker, self.context, targets, limits)
        limits.tells_progress = False
        if fetch.is_due(limits) or limits.max_wait_ms <= 0 or not targets or self.is_hurried():
            yield from self.respond(fetch)
            return
        fetch.release()
        if not self.slot.connection.open:
            return
        self.waits_since = perf_counter()
        waiting = WaitingFetch(self.broker, self.context, targets, limits, self.respond, self.go_on)
        self.slot.connection.waiting = waiting
        if self.session is not None:
            self.session.hurry = waiting.time_is_up
        yield from waiting.register()

    def most_bytes(self) -> int:
        """What this client may have at once; more than its quota gives in all windows would never be sent."""
        most = min(self.request.max_bytes, self.broker.config.fetch_max_bytes)
        if self.is_limited:
            quota = self.broker.quotas.most_fetched(self.context)
            most = most if quota is None else min(most, quota)
        return most

    @property
    def is_limited(self) -> bool:
        return self.broker.quotas.active and not (self.replica_id >= 0 and self.context.client.is_exempt)

    def throttle_ms(self, fetch: FetchRound) -> int:
        quotas = self.broker.quotas
        request_ms = quotas.handled(self.context, self.slot.take_busy_seconds())
        return max(request_ms, quotas.fetched(self.context, fetch.record_bytes))

    def send_away(self, fetch: FetchRound) -> Work[None]:
        """An answer without records, which says how long to wait; a session that was to be opened is not."""
        fetch.release()
        session_id = NO_SESSION
        if self.session is not None:
            if self.is_incremental:
                session_id = self.session.id
            else:
                self.broker.fetch_sessions.close(self.session.id)
        version, correlation_id = self.context.api_version, self.context.correlation_id
        self.slot.answer(
            (
                yield from pack_fetch_answer(
                    version, correlation_id, (), throttle_ms=self.slot.mute_ms, session_id=session_id
                )
            )
        )

    def followed_at(self) -> float:
        """A follower that goes on with its session has the answer to its last request, which we have taken up then."""
        if self.replica_id < 0 or self.session is None:
            return NEVER
        before, self.session.asked_at = self.session.asked_at, self.broker.boot_seconds()
        return before

    def is_hurried(self) -> bool:
        if self.session is None or not self.session.is_hurried:
            return False
        self.session.is_hurried = False
        return True

    @property
    def replica_id(self) -> int:
        state = self.request.replica_state
        return self.request.replica_id if state is None else state.replica_id

    def refuse_each(self, code: ErrorCode) -> Work[None]:
        targets = yield from requested(self.request, self.context.api_version >= TOPIC_IDS_FROM)
        fetch = FetchRound([(one, Fetched(one.key[1], code, aborted=())) for one in targets.values()])
        yield from self.respond(fetch)

    def refuse(self, code: ErrorCode) -> Work[None]:
        """As a whole; where topics have names, also one by one, as old clients expect it."""
        version = self.context.api_version
        topics = [
            (topic.topic, [Fetched(each.partition, code, aborted=()) for each in topic.partitions])
            for topic in self.request.topics
            if version < TOPIC_IDS_FROM
        ]
        session_id = self.request.session_id
        self.slot.answer(
            (
                yield from pack_fetch_answer(
                    version, self.context.correlation_id, topics, error=code, session_id=session_id
                )
            )
        )

    def targets(self) -> Work[list[FetchTarget]]:
        """The partitions of this fetch, after the session was opened, resumed or closed as the epoch says."""
        request, sessions = self.request, self.broker.fetch_sessions
        uses_ids = self.context.api_version >= TOPIC_IDS_FROM
        now_ms = self.broker.wall_ms()
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            sessions.close(request.session_id)
            targets = list((yield from requested(request, uses_ids)).values())
            if request.session_epoch == INITIAL_EPOCH:
                self.session = sessions.open(targets, uses_ids, now_ms)
            return targets
        self.session = sessions.resume(request.session_id, request.session_epoch, uses_ids, now_ms)
        self.is_incremental = True
        changed = yield from requested(request, uses_ids)
        self.session.change(changed.values(), forgotten(request, uses_ids))
        return list(self.session.targets.values())

    def respond(self, fetch: FetchRound) -> Work[None]:
        if self.session is not None:
            self.session.hurry = None
        if not self.slot.connection.open:
            fetch.release()
            self.slot.answer(())
            return
        if self.is_limited:
            self.slot.mute_ms = self.throttle_ms(fetch)
            if self.slot.mute_ms:
                self.broker.request_times.throttled("FetchConsumer", self.slot.mute_ms)
                yield from self.send_away(fetch)
                return
        answered = yield from self.worth_telling(fetch)
        paused = pauses()
        topics: dict[UUID | str, list[Fetched]] = {}
        for target, fetched in answered:
            topics.setdefault(target.key[0], []).append(fetched)
            if next(paused):
                yield
        pieces = yield from pack_fetch_answer(
            self.context.api_version,
            self.context.correlation_id,
            list(topics.items()),
            throttle_ms=self.slot.mute_ms,
            session_id=NO_SESSION if self.session is None else self.session.id,
            endpoints=self.endpoints(answered) if fetch.has_error else (),
        )
        now = perf_counter()
        waited = 0.0 if self.waits_since is None else now - self.waits_since
        self.broker.record_fetch(fetch, self.replica_id, now - self.started, waited)  # what is sent gets shorter
        if self.is_limited:
            self.broker.quotas.spent(self.context, self.slot.take_busy_seconds())
        self.slot.answer(pieces)

    def endpoints(self, answered: Sequence[tuple[FetchTarget, Fetched]]) -> list[NodeEndpoint]:
        """Where the leaders are that are told beside an error; followers know them anyway."""
        leaders = {fetched.current_leader[0] for _, fetched in answered if fetched.current_leader is not None}
        if not leaders or self.replica_id >= 0:
            return []
        nodes = self.broker.nodes(self.context.client.listener)
        return [
            NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes if node.node_id in leaders
        ]

    def worth_telling(self, fetch: FetchRound) -> Work[list[tuple[FetchTarget, Fetched]]]:
        """An incremental answer leaves out partitions of which there is nothing new."""
        if self.session is None:
            return fetch.results
        paused = pauses()
        news, served = [], []
        for target, fetched in fetch.results:
            length = 0 if fetched.records is None else fetched.records.length
            is_news = target.is_news(
                length, fetched.high_watermark, fetched.log_start_offset, fetched.error, fetched.diverging is not None
            )
            if is_news or not self.is_incremental:
                news.append((target, fetched))
            if length:
                served.append(target.key)
            if next(paused):
                yield
        self.session.rotate(served)
        return news


def requested(request: FetchRequest, uses_ids: bool) -> Work[dict[tuple[UUID | str, int], FetchTarget]]:
    paused = pauses()
    targets: dict[tuple[UUID | str, int], FetchTarget] = {}
    for topic in request.topics:
        name = topic.topic_id if uses_ids else topic.topic
        for wanted in topic.partitions:
            key = (name, wanted.partition)
            targets[key] = FetchTarget(
                key,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                max(wanted.current_leader_epoch, NO_EPOCH),
                max(wanted.last_fetched_epoch, NO_EPOCH),
                wanted.log_start_offset,
            )
            if next(paused):
                yield
    return targets


def forgotten(request: FetchRequest, uses_ids: bool) -> list[tuple[UUID | str, int]]:
    return [
        (topic.topic_id if uses_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def handle(broker: Broker, context: RequestContext, frame: Frame, body: int, slot: Slot) -> None:
    if not broker.quotas.active:
        begin_fetch(broker, context, frame, body, slot)
        return
    slot.begin_busy()
    try:
        begin_fetch(broker, context, frame, body, slot)
    finally:
        slot.end_busy()


def begin_fetch(broker: Broker, context: RequestContext, frame: Frame, body: int, slot: Slot) -> None:
    if frame.size < LARGE_REQUEST_BYTES:
        request, _ = decode(FetchRequest, context.api_version, frame.view, body)
        frame.release()
        fetch = Fetch(broker, context, request, slot)
        if fetch.replica_id < 0:
            fetch.go_on(fetch.start())
            return
        with slot.connection.host.gate.together():  # it may acknowledge what many produces wait for
            fetch.go_on(fetch.start())
    else:
        broker.start(handle_large(broker, context, frame, body, slot))


async def handle_large(broker: Broker, context: RequestContext, frame: Frame, body: int, slot: Slot) -> None:
    try:
        decoding = run(decode_in_turns(FetchRequest, context.api_version, frame.view, body))
        request, _ = await Timed(slot, decoding)
    except DecodeError as error:
        log.warning("%s: closing: a request cannot be read: %s", context.client.address, error)
        slot.disconnect()
        return
    finally:
        frame.release()
    fetch = Fetch(broker, context, request, slot)
    fetch.go_on(fetch.start())


API = Api(ApiKey.FETCH, 4, 18, FetchRequest, raw=handle)
