"""The short way of a produce request that looks like an earlier one of its connection.

A client repeats the same bytes in each request: client id, acks, topic, partition. A route remembers them, with the
partition they led to and the answer but for its offsets; if the next request begins with the same bytes, nothing is
parsed but the batch itself. With acks=all the answer waits for the replicas, as on the normal way. Whatever else
happens (a changed leader, too few replicas in sync, a batch that is not in order) takes the normal way, which gives the
same answer at its own pace.

Layout of what is remembered (the correlation id and what follows the head differ from request to request):
    request:  api key, version | correlation id | head: client id … partition index | records length, records | tags
    answer:   size, correlation id | start: (tags) topic, partition, no error | offset, append time, log start | end
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.replication.partition import Partition
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.producing import ALL, TOPIC_IDS_FROM, Produce
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_OFFSET, NO_TIMESTAMP
from moldau.wire.batch import TRANSACTIONAL_BIT
from moldau.wire.codec import encode
from moldau.wire.framing import frame_response
from moldau.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from moldau.wire.primitives import read_uvarint, uvarint

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Connection, Frame, Slot

Respond = Callable[[Produce], None]

HEADER = Struct(">hhi")
HEAD_AT = HEADER.size
INT32 = Struct(">i")
SIZE_AND_CORRELATION = Struct(">ii")
OFFSETS = Struct(">qqq")
OFFSETS_WITHOUT_START = Struct(">qq")
LOG_START_FROM = 5
MAX_ROUTES = 1024
LONGEST_HEAD_BYTES = 1024
FLEXIBLE_FROM = ProduceRequest.FLEXIBLE_FROM
#: Behind the records of a flexible request: no tags of the partition, of the topic, of the request.
NO_TAGS = b"\x00\x00\x00"
#: Values that stand in a sample answer where the real ones will be; unlikely to occur elsewhere in it.
SAMPLE = (0x1122334455667788, 0x2233445566778811, 0x3344556677881122)


class ProduceRoute:
    __slots__ = (
        "_respond", "answer_end", "answer_size", "answer_start", "context", "for_all", "head", "head_end", "key",
        "offsets", "partition", "timeout_seconds", "version",
    )  # fmt: skip

    def __init__(
        self,
        context: RequestContext,
        head: bytes,
        partition: Partition,
        key: UUID | str,
        for_all: bool,
        timeout_ms: int,
        respond: Respond,
    ) -> None:
        """`for_all`: the answer is due when all replicas in sync have the batch, or the time is up."""
        self._respond = respond
        self.for_all = for_all
        self.timeout_seconds = timeout_ms / 1000
        version = context.api_version
        self.version = version
        self.context = context
        self.key = key
        self.head = head
        self.head_end = HEAD_AT + len(head)
        self.partition = partition
        self.offsets = OFFSETS if version >= LOG_START_FROM else OFFSETS_WITHOUT_START
        self.answer_start, self.answer_end = answer_around_offsets(version, partition.topic_partition.partition, key)
        self.answer_size = len(self.answer_start) + self.offsets.size + len(self.answer_end) + 4

    def answer(self, correlation_id: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> bytes:
        offsets = self.offsets
        if offsets is OFFSETS:
            packed = OFFSETS.pack(base_offset, append_time_ms, log_start_offset)
        else:
            packed = OFFSETS_WITHOUT_START.pack(base_offset, append_time_ms)
        head = SIZE_AND_CORRELATION.pack(self.answer_size, correlation_id)
        return head + self.answer_start + packed + self.answer_end

    def refuse(
        self, broker: Broker, slot: Slot, frame: Frame, correlation_id: int, started: float, error: KafkaError
    ) -> None:
        context = replace(self.context, correlation_id=correlation_id)
        produce = Produce(broker, context, frame, slot, 1, 0, self._respond, started)
        produce.explain(self.key, self.partition.topic_partition.partition, self.partition, error)
        produce.staged()


def whole_answer(version: int, correlation_id: int, key: UUID | str, partition: PartitionProduceResponse) -> bytes:
    topic = TopicProduceResponse(partition_responses=[partition])
    if isinstance(key, UUID):
        topic.topic_id = key
    else:
        topic.name = key
    return frame_response(correlation_id, version >= FLEXIBLE_FROM, encode(ProduceResponse(responses=[topic]), version))


def answer_around_offsets(version: int, index: int, key: UUID | str) -> tuple[bytes, bytes]:
    partition = PartitionProduceResponse(
        index=index, base_offset=SAMPLE[0], log_append_time_ms=SAMPLE[1], log_start_offset=SAMPLE[2]
    )
    whole = whole_answer(version, 0, key, partition)
    offsets = OFFSETS.pack(*SAMPLE) if version >= LOG_START_FROM else OFFSETS_WITHOUT_START.pack(*SAMPLE[:2])
    start, end = whole[SIZE_AND_CORRELATION.size :].split(offsets)
    return start, end


class QuickAppend:
    """One batch on the short way, until it is written, or held by all replicas in sync."""

    __slots__ = (
        "_append_time_ms", "_base_offset", "_broker", "_correlation_id", "_epoch", "_frame", "_log_start",
        "_required_offset", "_route", "_slot", "_started", "_timer", "_waits_since",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, route: ProduceRoute, slot: Slot, frame: Frame, correlation_id: int, started: float
    ) -> None:
        self._broker, self._route, self._slot, self._frame = broker, route, slot, frame
        self._correlation_id, self._started = correlation_id, started
        self._base_offset, self._append_time_ms = NO_OFFSET, NO_TIMESTAMP
        self._required_offset, self._log_start = NO_OFFSET, 0
        self._epoch = route.partition.leader_epoch
        self._timer: asyncio.TimerHandle | None = None
        self._waits_since = 0.0

    def expect(self, partition: Partition, base_offset: int, required_offset: int, append_time_ms: int) -> None:
        self._base_offset, self._append_time_ms = base_offset, append_time_ms
        self._required_offset = required_offset

    def written(self) -> None:
        route = self._route
        partition = route.partition
        if partition.leader_epoch != self._epoch or (
            partition.rivals and not route.for_all and not partition.holds_lease()
        ):  # the term has ended while the batch was brought to disk, or may have ended
            self.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if partition.log is not None:
            self._log_start = partition.log.log_start_offset
        self._frame.release()
        if route.for_all and partition.high_watermark < self._required_offset:
            partition.produce_waits.add(self._required_offset, self)
            self._waits_since = perf_counter()
            self._timer = asyncio.get_running_loop().call_later(route.timeout_seconds, self._time_is_up)
        else:
            self._answer()

    def failed(self, code: ErrorCode) -> None:
        self.refuse(KafkaError(code))

    def reached(self) -> None:
        self._stop_waiting()
        self._answer()

    def ended(self, code: ErrorCode) -> None:
        self._stop_waiting()
        self.refuse(KafkaError(code))

    def starved(self) -> bool:
        self.ended(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def refuse(self, error: KafkaError) -> None:
        self._route.refuse(self._broker, self._slot, self._frame, self._correlation_id, self._started, error)

    def _answer(self) -> None:
        answer = self._route.answer(self._correlation_id, self._base_offset, self._append_time_ms, self._log_start)
        self._broker.producing.count_answer(self._started)
        self._slot.answer((answer,))

    def _time_is_up(self) -> None:
        self._route.partition.produce_waits.discard(self._required_offset, self)
        self._stop_waiting()
        self.refuse(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def _stop_waiting(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._broker.producing.count_wait(self._waits_since)


class ProduceRoutes:
    """The shortcut of a connection: a client that writes to many partitions sends a request for each in turn.

    Where a head ends is not known before it is parsed, but the heads of one client and topic are equally long.
    """

    __slots__ = ("_broker", "_by_end", "_count")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_end: dict[int, dict[bytes, ProduceRoute]] = {}
        self._count = 0

    def add(self, route: ProduceRoute) -> None:
        if self._count >= MAX_ROUTES:
            self._by_end.clear()
            self._count = 0
        self._by_end.setdefault(route.head_end, {})[route.head] = route
        self._count += 1

    def _find(self, view: memoryview) -> ProduceRoute | None:
        for end, routes in self._by_end.items():
            route = routes.get(view[HEAD_AT:end].tobytes())
            if route is not None:
                return route
        return None

    def take(self, connection: Connection, frame: Frame) -> bool:
        """Whether the request was taken; if not, nothing of it was touched."""
        started = perf_counter()
        view = frame.view
        if frame.size < HEAD_AT or view[0] or view[1]:
            return False
        route = self._find(view)
        if route is None:
            return False
        _, version, correlation_id = HEADER.unpack_from(view, 0)
        partition = route.partition
        log = partition.log
        if version != route.version or log is None or partition.leader != partition.local_id:
            return False
        if route.for_all and not partition.has_enough_in_sync(log.config.min_insync_replicas):
            return False
        if partition.rivals and not route.for_all and not partition.holds_lease():
            return False
        broker, topic = self._broker, partition.topic_partition.topic
        if broker.quotas.limits(route.context) or not broker.authorizer.allows(
            route.context, Operation.WRITE, Resource.TOPIC, topic, audited=False
        ):
            return False  # the normal way refuses it, and tells the audit log
        records = records_of(view, version, route.head_end)
        if records is None:
            return False
        producing = broker.producing
        now_ms = producing.wall_ms()
        try:
            batch, info = producing.judge(partition, log, records, version, now_ms)
        except KafkaError:
            return False
        if info.attributes & TRANSACTIONAL_BIT:
            return False
        # From here on there is no way back: the batch may have got its append time, and cannot be judged again.
        producing.count_request(version)
        append = QuickAppend(broker, route, connection.reserve(), frame, correlation_id, started)
        try:
            producing.stage(partition, log, batch, info, now_ms, append)
        except KafkaError as error:
            append.refuse(error)
            broker.traffic.refused(error.code, len(records))
        return True


def records_of(view: memoryview, version: int, at: int) -> memoryview | None:
    """The records behind a head that ends at `at`, if nothing but the usual end follows them."""
    if version >= FLEXIBLE_FROM:
        length, start = read_uvarint(view, at)
        end = start + length - 1
        return view[start:end] if view[end:] == NO_TAGS else None
    (length,) = INT32.unpack_from(view, at)
    start = at + 4
    end = start + length
    return view[start:end] if end == len(view) else None


def remember(
    broker: Broker,
    connection: Connection,
    frame: Frame,
    context: RequestContext,
    request: ProduceRequest,
    respond: Respond,
) -> None:
    """Makes the route for the requests that follow, if this one is of the kind that can have one."""
    version = context.api_version
    if request.transactional_id is not None or request.acks not in (ALL, 1) or len(request.topic_data) != 1:
        return
    (topic,) = request.topic_data
    if len(topic.partition_data) != 1 or topic.partition_data[0].records is None:
        return
    wanted = topic.partition_data[0]
    key: UUID | str = topic.name
    name = topic.name
    if version >= TOPIC_IDS_FROM:
        key = topic.topic_id
        found = broker.image.topics_by_id.get(topic.topic_id)
        name = "" if found is None else found.name
    partition = broker.partitions.find(name, wanted.index)
    if partition is None or partition.log is None:
        return
    size = len(wanted.records or b"")
    length_field, tail = (uvarint(size + 1), NO_TAGS) if version >= FLEXIBLE_FROM else (INT32.pack(size), b"")
    head_end = frame.size - len(tail) - size - len(length_field)
    if head_end - HEAD_AT > LONGEST_HEAD_BYTES:
        return  # a name without end: each route would keep it
    if frame.view[head_end : head_end + len(length_field)] == length_field:
        routes = connection.shortcut
        if not isinstance(routes, ProduceRoutes):
            routes = connection.shortcut = ProduceRoutes(broker)
        head = bytes(frame.view[HEAD_AT:head_end])
        routes.add(ProduceRoute(context, head, partition, key, request.acks == ALL, request.timeout_ms, respond))
