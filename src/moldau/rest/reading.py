"""Reading a partition without a consumer of one's own: from an offset or a time on, so many records.

Ours, beside v3. Consumers are lent from a small store for each read; nothing is remembered between two reads, and a
link says where to go on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from moldau.rest import errors, formats
from moldau.rest.backend import Backend
from moldau.rest.preparing import iso, read_time
from moldau.rest.proxy import Proxy
from moldau.rest.readers import failure_of, lent
from moldau.rest.schemas import FORMAT_OF, Schemas, head_of
from moldau.rest.v3 import CONTROL, JSON, NUMBER, PREFIX, TEXT, Context, listing, whole
from moldau.rest.v3_topics import partition_of
from moldau.schemas.framing import PREFIX as FRAME
from moldau.web import Api, Call, long, number, text
from moldau.web.application import to_json

if TYPE_CHECKING:
    from confluent_kafka import Message

AUTO: Final = "AUTO"
KNOWN: Final = (AUTO, *formats.FORMATS)
RECORD: Final = {
    "topic_name": TEXT,
    "partition_id": NUMBER,
    "offset": NUMBER,
    "timestamp": TEXT,
    "headers": {"type": "array"},
    "key": {"type": ["object", "null"]},
    "value": {"type": ["object", "null"]},
}
SHAPES: Final = (
    text("key_format", AUTO, "auto, or one of binary, json, string, avro, jsonschema, protobuf."),
    text("value_format", AUTO, "The same for values."),
)
ASKS: Final = (
    long("offset", doc="The first offset; negative ones count from the end. The beginning by default."),
    text("timestamp", doc="Or the first record from this time on: ISO 8601, or milliseconds since 1970."),
    number("limit", 100, "How many records at most."),
    long("max_bytes", 1 << 20, "How many bytes of keys and values at most; the first record always comes."),
    long("timeout", 0, "How many milliseconds to wait for records where there are none yet."),
    *SHAPES,
)


class Shape(NamedTuple):
    key: str
    value: str

    @classmethod
    def of(cls, call: Call) -> Shape:
        found = [str(call.query[name] or AUTO).upper() for name in ("key_format", "value_format")]
        for each in found:
            if each not in KNOWN:
                raise errors.bad_request(f"Bad Request: {each!r} is no format: one of {', '.join(KNOWN).lower()}")
        return cls(*found)


class Start(NamedTuple):
    offset: int | None
    time: int | None


def add(api: Api, proxy: Proxy) -> None:
    answer = listing(RECORD)
    more = {"beginning_offset": NUMBER, "end_offset": NUMBER, "next_offset": NUMBER}
    answer = {**answer, "properties": {**answer["properties"], **more}}

    @api.get(
        PREFIX + "/topics/{topic_name}/partitions/{partition_id}/records",
        name="api.v3.records.list",
        query=ASKS,
        answer=answer,
        produces=JSON,
        tag="Records",
        errors=(400, 40402, 40403, *CONTROL),
    )
    async def records(call: Call) -> object:
        """Records of a partition from an offset or a time on; ours, not Confluent's"""
        context = await Context.of(proxy, call)
        whole(call.path["partition_id"], "Partition")
        topic, partition = await partition_of(context, call)
        start = Start(call.query["offset"], read_start_time(call.query["timestamp"]))
        limit = call.query["limit"]
        if not 1 <= limit <= proxy.settings.number("read.max.records"):
            raise errors.bad_request(f"Bad Request: limit: 1 to {proxy.settings.number('read.max.records')}")
        if start.offset is not None and start.time is not None:
            raise errors.bad_request("Bad Request: offset or timestamp, not both")
        reading = Reading(proxy, context.backend, topic.name, partition.id, limit, call)
        found = await context.backend.in_thread(lambda: reading.read(start, Shape.of(call)))
        body = await context.backend.in_thread(lambda: to_json(reading.answer(context, call, found)))
        return Response(body, media_type=JSON[0])


def read_start_time(given: str | None) -> int | None:
    if given is None or given == "":
        return None
    return read_time(int(given) if given.isascii() and given.isdigit() and len(given) < 19 else given)


class Reading:
    """One read; in a thread."""

    def __init__(self, proxy: Proxy, backend: Backend, topic: str, partition: int, limit: int, call: Call) -> None:
        self._proxy = proxy
        self._backend = backend
        self._topic = topic
        self._partition = partition
        self._limit = limit
        self._most = max(1, min(call.query["max_bytes"], proxy.settings.number("consumer.request.max.bytes")))
        self._patience = min(max(call.query["timeout"], 0) / 1000, backend.seconds)
        self._bounds = 0, 0
        self._next = 0

    def read(self, start: Start, shape: Shape) -> list[dict[str, Any]]:
        from confluent_kafka import KafkaException, TopicPartition

        with lent(self._backend) as consumer:
            try:
                place = TopicPartition(self._topic, self._partition)
                self._bounds = consumer.get_watermark_offsets(place, timeout=self._backend.seconds)
                self._next = self._first(consumer, start)
                if self._next >= self._bounds[1] and not self._patience:
                    return []
                consumer.assign([TopicPartition(self._topic, self._partition, self._next)])
                return self._taken(consumer, shape)
            except KafkaException as error:
                raise errors.of_kafka(error, f"{self._topic}-{self._partition}") from None

    def _first(self, consumer: Any, start: Start) -> int:
        from confluent_kafka import TopicPartition

        beginning, end = self._bounds
        if start.time is not None:
            asked = [TopicPartition(self._topic, self._partition, start.time)]
            found = consumer.offsets_for_times(asked, timeout=self._backend.seconds)[0]
            if found.error is not None:
                raise errors.of_kafka(found.error, f"{self._topic}-{self._partition}")
            return int(found.offset) if found.offset >= 0 else end
        if start.offset is None:
            return beginning
        if start.offset < 0:
            return max(beginning, end + start.offset)
        if start.offset > end:
            raise errors.RestError(40002, f"offset {start.offset} is beyond the end, {end}")
        return max(beginning, start.offset)

    def _taken(self, consumer: Any, shape: Shape) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        size = 0
        deadline = self._proxy.monotonic() + max(self._patience, self._backend.seconds)
        waits_until = self._proxy.monotonic() + self._patience
        while len(found) < self._limit and self._proxy.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                at_end = failure_of(message, f"{self._topic}-{self._partition}")
                self._next = max(self._next, at_end)
                if found or self._proxy.monotonic() >= waits_until:
                    break
                continue
            size += len(message.key() or b"") + len(message.value() or b"")
            if found and size > self._most:
                break
            found.append(as_record(self._proxy.schemas, message, shape))
            self._next = message.offset() + 1
        self._proxy.consumed.value += len(found)
        return found

    def answer(self, context: Context, call: Call, found: list[dict[str, Any]]) -> dict[str, Any]:
        place = ("topics", self._topic, "partitions", self._partition, "records")
        url = context.url(*place)
        query = dict(call.request.query_params)
        kept = {name: value for name, value in query.items() if name not in ("offset", "timestamp")}
        data = [
            context.item(
                "KafkaRecord",
                (*place[:-1], "records"),
                f"topic={self._topic}/partition={self._partition}/offset={each['offset']}",
                topic_name=self._topic,
                **each,
            )
            for each in found
        ]
        answer = context.listed("KafkaRecord", f"{url}?{urlencode(query)}" if query else url, data)
        answer["metadata"]["next"] = f"{url}?{urlencode({**kept, 'offset': self._next})}"
        beginning, end = self._bounds
        return {**answer, "beginning_offset": beginning, "end_offset": max(end, self._next), "next_offset": self._next}


# -- records as JSON -------------------------------------------------------------------------------------------------


def as_record(schemas: Schemas, message: Message, shape: Shape) -> dict[str, Any]:
    """A value that its format cannot read is told in its place: a reader has to get past it."""
    _, timestamp = message.timestamp()
    headers = headers_of(message)
    heads = head_of(headers, is_key=True), head_of(headers, is_key=False)
    where = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
    return {
        "partition_id": message.partition(),
        "offset": message.offset(),
        "timestamp": iso(max(0, timestamp)),
        "headers": [
            {"name": name, "value": formats.decode(formats.BINARY, as_bytes(value), where)} for name, value in headers
        ],
        "key": as_part(schemas, message.key(), heads[0], shape.key, f"the key of {where}"),
        "value": as_part(schemas, message.value(), heads[1], shape.value, f"the value of {where}"),
    }


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    found: Any = message.headers()
    return list(found or ())


def as_bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def as_part(schemas: Schemas, data: bytes | str | None, head: bytes, format_: str, where: str) -> dict[str, Any] | None:
    """`head`: what names the schema in the record's headers."""
    raw = as_bytes(data)
    if raw is None:
        return None
    size = len(raw)
    if format_ == AUTO:
        return {**guessed(schemas, raw, head, where), "size": size}
    try:
        return {"type": format_, "data": in_format(schemas, format_, raw, head, where), "size": size}
    except errors.RestError as error:
        return {
            "type": formats.BINARY,
            "data": formats.decode(formats.BINARY, raw, where),
            "size": size,
            "error": error.message,
        }


def guessed(schemas: Schemas, data: bytes, head: bytes, where: str) -> dict[str, Any]:
    """What begins like a registered value and is one; else JSON, text, or bytes."""
    if schemas.known and (head or (len(data) > FRAME.size and data[0] == 0)):
        try:
            schema, value = schemas.decode(head + data, None, where)
        except errors.RestError as error:
            return {"type": formats.BINARY, "data": formats.decode(formats.BINARY, data, where), "error": error.message}
        named = {"schema_id": schema.schema_id} if schema.schema_id else {"schema_guid": schema.guid}
        return {"type": FORMAT_OF[schema.kind], **named, "data": value}
    kind, value = formats.guess(data)
    return {"type": kind, "data": value}


def in_format(schemas: Schemas, format_: str, data: bytes | None, head: bytes, where: str) -> Any:
    if data is None:
        return None
    if format_ in formats.WITH_SCHEMA:
        return schemas.decode(head + data, format_, where)[1]
    return formats.decode(format_, data, where)


def compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
