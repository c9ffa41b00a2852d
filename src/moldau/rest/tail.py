"""Following a topic over server-sent events, as a browser's EventSource does: records as they come, and progress.

    event: record      data: one record; id: where to go on after it, `partition:offset,…`
    event: progress    data: {"partitions": [{"partition_id", "position", "end_offset"}], "scanned", "matched"}
    event: error       data: {"error_code", "message"}; the stream ends
    event: end         data: {"reason"}; the stream ends, and a client that is done closes it, else it comes again

A client that comes again with `Last-Event-ID` (EventSource does so by itself) goes on after the last record that it has
seen: each comes once. `filter` is a JMESPath expression over the record:
`value.data.price > \\`100\\` && key.data == 'a'`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.rest import errors
from moldau.rest.backend import Backend
from moldau.rest.preparing import read_time
from moldau.rest.proxy import Proxy
from moldau.rest.readers import failure_of, made
from moldau.rest.reading import SHAPES, Shape, as_record, compact
from moldau.rest.v3 import CONTROL, PREFIX, Context
from moldau.rest.v3_topics import topic_of
from moldau.web import Api, ApiError, Call, number, text
from moldau.web.streams import Stream

if TYPE_CHECKING:
    from confluent_kafka import Message

    from moldau.rest.filters import Filter

EVENTS: Final = ("text/event-stream",)
HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
BATCH: Final = 500
POLL_SECONDS: Final = 0.2
NEW_PARTITIONS_SECONDS: Final = 10.0
ASKS: Final = (
    text("from", "end", "end, beginning, or a time: ISO 8601, or milliseconds since 1970."),
    number("partition", doc="One partition alone."),
    text("filter", doc="A JMESPath expression: only records for which it holds."),
    number("limit", doc="Ends after so many records."),
    text("last_event_id", doc="As the header Last-Event-ID, which wins."),
    *SHAPES,
)
BEGINNING: Final = -2
END: Final = -1


def add(api: Api, proxy: Proxy) -> None:
    threads = ThreadPoolExecutor(proxy.settings.number("tail.max"), "rest-tail")

    @api.get(
        PREFIX + "/topics/{topic_name}/records:tail",
        name="api.v3.records.tail",
        query=ASKS,
        answer={"type": "string"},
        produces=EVENTS,
        tag="Records",
        errors=(400, 40402, 40403, *CONTROL),
    )
    async def tail(call: Call) -> object:
        """Follows a topic over server-sent events; ours, not Confluent's"""
        context = await Context.of(proxy, call)
        topic = await topic_of(context, call.path["topic_name"])
        wanted = read_wanted(call, topic)
        if proxy.following >= proxy.settings.number("tail.max"):
            raise ApiError(503, "too many follow topics already (tail.max)", headers={"Retry-After": "5"})
        following = Following(proxy, context.backend, wanted, Shape.of(call))
        return Stream(followed(proxy, context, following, threads), EVENTS[0], HEADERS, watches=True)


@dataclass(slots=True)
class Wanted:
    topic: str
    only: int | None
    starts: dict[int, int]
    """The offset of each partition; -1 is its end, -2 its beginning."""
    time: int | None
    filter: Filter | None
    limit: int | None


def read_wanted(call: Call, topic: Any) -> Wanted:
    query = call.query
    partitions = sorted(each.id for each in topic.partitions)
    only = query["partition"]
    if only is not None:
        if only not in partitions:
            raise errors.partition_not_found()
        partitions = [only]
    if query["limit"] is not None and query["limit"] < 1:
        raise errors.bad_request("Bad Request: limit: 1 or more")
    begin, time = str(query["from"] or "end").lower(), None
    if begin not in ("end", "beginning"):
        given = str(query["from"])
        time = read_time(int(given) if given.isascii() and given.isdigit() and len(given) < 19 else given)
    starts = dict.fromkeys(partitions, BEGINNING if begin == "beginning" else END)
    last = call.request.headers.get("last-event-id") or query["last_event_id"]
    if last:
        # Partitions that it does not name are younger than it is.
        known = read_id(last)
        starts = {number: known.get(number, BEGINNING) for number in partitions}
        time = None
    return Wanted(topic.name, only, starts, time, wanted_filter(query["filter"]), query["limit"])


def wanted_filter(given: str | None) -> Filter | None:
    if not given:
        return None
    from moldau.rest.filters import Filter

    return Filter(given)


def read_id(given: str) -> dict[int, int]:
    found = {}
    for part in given.split(","):
        number, _, offset = part.partition(":")
        if not (number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit() and len(offset) < 19):
            raise errors.bad_request(f"Bad Request: Last-Event-ID {given!r} is not like 0:12,1:7")
        found[int(number[:10])] = int(offset)
    return found


@dataclass(slots=True)
class Found:
    """What one look brought."""

    records: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


class Following:
    """One that follows; its calls are made in one thread at a time."""

    def __init__(self, proxy: Proxy, backend: Backend, wanted: Wanted, shape: Shape) -> None:
        self._proxy = proxy
        self._backend = backend
        self._wanted = wanted
        self._shape = shape
        self._consumer: Any = None
        self._looked_for_new = proxy.monotonic()
        self.positions: dict[int, int] = {}
        self.scanned = 0
        self.matched = 0

    def open(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        wanted = self._wanted
        try:
            self._consumer = made(self._backend)
            places = [TopicPartition(wanted.topic, number, at) for number, at in wanted.starts.items()]
            if wanted.time is not None:
                asked = [TopicPartition(wanted.topic, number, wanted.time) for number in wanted.starts]
                places = self._consumer.offsets_for_times(asked, timeout=self._backend.seconds)
            for place in places:
                self.positions[place.partition] = place.offset = self._first(place)
            self._consumer.assign(places)
        except KafkaException as error:
            raise errors.of_kafka(error, wanted.topic) from None

    def _first(self, place: Any) -> int:
        """A number that can be told, and gone on from."""
        low, high = self._consumer.get_watermark_offsets(place, timeout=self._backend.seconds)
        if place.offset == BEGINNING:
            return int(low)
        return int(high) if place.offset < 0 else min(max(low, place.offset), high)

    def look(self) -> Found:
        """What has come; waits a little for the first."""
        found = Found()
        first = self._consumer.poll(POLL_SECONDS)
        for message in [first, *self._consumer.consume(BATCH - 1, 0)] if first is not None else ():
            self._take(message, found)
            if self.done:
                break
        if self._wanted.only is None and self._proxy.monotonic() - self._looked_for_new > NEW_PARTITIONS_SECONDS:
            self._take_new_partitions()
        return found

    @property
    def done(self) -> bool:
        return self._wanted.limit is not None and self.matched >= self._wanted.limit

    def _take(self, message: Message, found: Found) -> None:
        if message.error() is not None:
            at_end = failure_of(message, self._wanted.topic)
            number = message.partition()
            assert number is not None
            self.positions[number] = max(self.positions.get(number, 0), at_end)
            return
        self.scanned += 1
        record = as_record(self._proxy.schemas, message, self._shape)
        self.positions[record["partition_id"]] = record["offset"] + 1
        if self._matches(record):
            self.matched += 1
            found.records.append({"topic_name": self._wanted.topic, **record})
            found.ids.append(self.id)

    def _matches(self, record: dict[str, Any]) -> bool:
        return self._wanted.filter is None or self._wanted.filter.holds(record)

    @property
    def id(self) -> str:
        return ",".join(f"{number}:{offset}" for number, offset in sorted(self.positions.items()))

    def _take_new_partitions(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        self._looked_for_new = self._proxy.monotonic()
        topic = self._wanted.topic
        try:
            known = self._consumer.list_topics(topic, timeout=self._backend.seconds).topics[topic]
        except KafkaException:  # the brokers are away; they are asked again
            return
        if known.error is not None:
            raise errors.of_kafka(known.error, topic)
        fresh = [number for number in known.partitions if number not in self.positions]
        if fresh:
            self.positions |= dict.fromkeys(fresh, 0)
            self._consumer.incremental_assign([TopicPartition(topic, number, BEGINNING) for number in fresh])

    def progress(self) -> dict[str, Any]:
        from confluent_kafka import TopicPartition

        partitions = []
        for partition, position in sorted(self.positions.items()):
            # What the last answer to a fetch said; nobody is asked.
            bounds = self._consumer.get_watermark_offsets(TopicPartition(self._wanted.topic, partition), cached=True)
            end = max(position, bounds[1] if bounds else 0)
            partitions.append({"partition_id": partition, "position": position, "end_offset": end})
        return {"partitions": partitions, "scanned": self.scanned, "matched": self.matched}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


async def followed(
    proxy: Proxy, context: Context, following: Following, threads: ThreadPoolExecutor
) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    proxy.following += 1
    context.backend.busy += 1
    until = proxy.monotonic() + proxy.settings.seconds("streaming.connection.max.duration.ms")
    every = proxy.settings.seconds("tail.progress.ms")
    told_at = float("-inf")
    try:
        await loop.run_in_executor(threads, following.open)
        yield b"retry: 2000\n\n"
        while True:
            if proxy.monotonic() - told_at >= every:
                told_at = proxy.monotonic()
                yield event("progress", await loop.run_in_executor(threads, following.progress), following.id)
            if following.done or proxy.closing.is_set() or proxy.monotonic() > until:
                reason = "limit" if following.done else "stopping" if proxy.closing.is_set() else "duration"
                yield event("end", {"reason": reason}, following.id)
                return
            found = await loop.run_in_executor(threads, following.look)
            proxy.consumed.value += len(found.records)
            if found.records:
                pairs = zip(found.records, found.ids, strict=True)
                yield b"".join([event("record", record, at) for record, at in pairs])
    except errors.RestError as error:
        yield event("error", error.body, following.id)
    finally:
        proxy.following -= 1
        context.backend.busy -= 1
        threads.submit(following.close)


def event(kind: str, data: object, at: str) -> bytes:
    text = f"event: {kind}\nid: {at}\ndata: {compact(data)}\n\n" if at else f"event: {kind}\ndata: {compact(data)}\n\n"
    return text.encode("utf-8", "surrogatepass")
