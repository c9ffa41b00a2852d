"""v2: consumer instances, and v1's forms of them.

v1 has no subscriptions: reading a topic subscribes to it. Differences to Confluent's proxy, all on the safe side: the
first record is returned even if it alone is larger than `max_bytes`; commits are of what was returned, not of what was
read ahead; a record that its format cannot read is told with its offset, after those before it were returned.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from starlette.responses import Response

from moldau.clients.records import ConsumerRecord, OffsetAndMetadata, TopicPartition
from moldau.rest import errors, formats, v1
from moldau.rest.instances import Instance, InstanceConfig
from moldau.rest.preparing import read_time
from moldau.rest.proxy import Proxy, joined
from moldau.rest.reading import in_format
from moldau.rest.schemas import head_of
from moldau.rest.settings import RestSettings
from moldau.rest.v2 import CONTROL, EMBEDDED, ERRORS, FORMATS, PLACE, V2, answer_type, body_of, is_v1, places_of
from moldau.rest.v3 import list_of, number_of, text_of
from moldau.web import READ, Api, ApiError, Call, long, text
from moldau.web.application import accepted, to_json
from moldau.web.streams import gone

ONE: Final = "/consumers/{group}/instances/{instance}"
CONFIG: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "format": {"type": "string", "enum": [name.lower() for name in FORMATS]},
        "auto.offset.reset": {"type": "string", "enum": ["earliest", "latest", "none", "smallest", "largest"]},
        "auto.commit.enable": {"type": ["string", "boolean"]},
        "fetch.min.bytes": {"type": "integer"},
        "consumer.request.timeout.ms": {"type": "integer"},
    },
}
PLACES: Final = {"type": "object", "properties": {"partitions": {"type": "array", "items": PLACE}}}
OFFSET: Final = {**PLACE, "required": ["topic", "partition", "offset"]}
OFFSETS: Final = {"type": "object", "properties": {"offsets": {"type": "array", "items": OFFSET}}}
SUBSCRIPTION: Final = {
    "type": "object",
    "properties": {"topics": {"type": "array", "items": {"type": "string"}}, "topic_pattern": {"type": "string"}},
}
RECORD: Final = {
    "type": "object",
    "properties": {"topic": {"type": "string"}, "key": {}, "value": {}, "partition": {"type": "integer"}},
}
READS: Final = tuple(EMBEDDED)
RESETS: Final = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "none",
    "smallest": "earliest",
    "largest": "latest",
}
MOST_FETCH_BYTES: Final = 10_000_000


def add(api: Api, proxy: Proxy) -> None:
    add_instances(api, proxy)
    add_subscriptions(api, proxy)
    add_assignments(api, proxy)
    add_positions(api, proxy)
    add_offsets(api, proxy)
    add_records(api, proxy)


def common(**more: Any) -> dict[str, Any]:
    """What all paths of consumers share."""
    shared: dict[str, Any] = {"produces": CONTROL, "consumes": CONTROL, "role": READ, "tag": "v2 consumers"}
    return {**shared, "errors": (40403, *ERRORS), **more}


async def found(proxy: Proxy, call: Call) -> Instance:
    return proxy.instances.find(await proxy.backend(call), call.path["group"], call.path["instance"])


def add_instances(api: Api, proxy: Proxy) -> None:
    made = {"type": "object", "properties": {"instance_id": {"type": "string"}, "base_uri": {"type": "string"}}}
    refusals = (*ERRORS, 40001, 40902, 42204)

    @api.post(
        "/consumers/{group}",
        name="api.v2.consumers.create",
        answer=made,
        **{**common(body=CONFIG), "errors": refusals, "consumes": (*CONTROL, *EMBEDDED)},
    )
    async def create(call: Call) -> object:
        """Makes a consumer instance, which lives here until it is deleted or nobody uses it for long"""
        backend = await proxy.backend(call)
        config = read_config(await body_of(call, needed=False))
        instance = await proxy.instances.create(backend, call.path["group"], config)
        uri = joined(proxy.base(call), ("consumers", instance.group, "instances", instance.name))
        return {"instance_id": instance.name, "base_uri": uri}

    @api.delete(
        ONE,
        name="api.v2.consumers.delete",
        **{**common(status=204), "consumes": (*CONTROL, *EMBEDDED), "produces": ("*/*",)},
    )
    async def delete(call: Call) -> object:
        """Deletes it; the group rebalances"""
        await proxy.instances.delete(await proxy.backend(call), call.path["group"], call.path["instance"])
        return None


def read_config(body: dict[str, Any]) -> InstanceConfig:
    format_ = (text_of(body, "format") or formats.BINARY).upper()
    if format_ not in FORMATS:
        raise ApiError(422, "Invalid format type.")
    reset = text_of(body, "auto.offset.reset")
    if reset is not None and reset.lower() not in RESETS:
        names = "earliest, latest, none"
        raise errors.invalid_consumer(f"Invalid value {reset} for configuration auto.offset.reset: one of {names}")
    commits = str(body.get("auto.commit.enable", "true")).lower()
    if commits not in ("true", "false"):
        raise errors.invalid_consumer(f"Invalid value {commits} for configuration enable.auto.commit: true or false")
    least = number_of(body, "fetch.min.bytes" if "fetch.min.bytes" in body else "responseMinBytes")
    if least is not None and least != -1 and not 1 <= least <= MOST_FETCH_BYTES:
        text = "Invalid consumer configuration. It does not abide by the constraints: fetch.min.bytes"
        raise errors.RestError(40001, f"{text} is {least}; -1, or 1 to {MOST_FETCH_BYTES}", 422)
    wait = number_of(body, "consumer.request.timeout.ms" if "consumer.request.timeout.ms" in body else "requestWaitMs")
    if wait is not None and wait < 0:
        raise errors.invalid_consumer(f"consumer.request.timeout.ms is {wait}")
    return InstanceConfig(
        format_,
        text_of(body, "name"),
        text_of(body, "id"),
        RESETS[reset.lower()] if reset is not None else None,
        commits == "true",
        least,
        wait,
    )


# -- what it reads ---------------------------------------------------------------------------------------------------


def add_subscriptions(api: Api, proxy: Proxy) -> None:
    path = f"{ONE}/subscription"

    @api.post(
        path,
        name="api.v2.consumers.subscribe",
        **{**common(body=SUBSCRIPTION, status=204), "errors": (40403, 40903, *ERRORS)},
    )
    async def subscribe(call: Call) -> object:
        """Subscribes to topics, or to those that match a pattern, in place of those before"""
        instance = await found(proxy, call)
        wanted = read_subscription(await body_of(call))
        await proxy.instances.use(instance, lambda: instance.consumer.subscribe(wanted, instance))
        return None

    @api.get(path, name="api.v2.consumers.get-subscription", answer=SUBSCRIPTION, **common())
    async def subscription(call: Call) -> object:
        """What it is subscribed to"""
        instance = await found(proxy, call)
        return {"topics": await proxy.instances.use(instance, instance.consumer.subscription)}

    @api.delete(path, name="api.v2.consumers.unsubscribe", **common(status=204))
    async def unsubscribe(call: Call) -> object:
        """Leaves the group's partitions"""
        instance = await found(proxy, call)
        await proxy.instances.use(instance, instance.unsubscribe)
        return None


def read_subscription(body: dict[str, Any]) -> list[str] | re.Pattern[str]:
    topics, pattern = list_of(body, "topics"), text_of(body, "topic_pattern")
    if not all(isinstance(each, str) and each for each in topics):
        raise ApiError(422, "topics: an array of names is expected")
    if topics and pattern is not None:
        raise errors.illegal_state("Subscription to topics, partitions and pattern are mutually exclusive")
    if pattern is None:
        return topics
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ApiError(422, f"topic_pattern: {error}") from None


def add_assignments(api: Api, proxy: Proxy) -> None:
    path = f"{ONE}/assignments"

    @api.post(
        path, name="api.v2.consumers.assign", **{**common(body=PLACES, status=204), "errors": (40403, 40903, *ERRORS)}
    )
    async def assign(call: Call) -> object:
        """Reads these partitions, without the group's help"""
        instance = await found(proxy, call)
        wanted = [place_of(each) for each in places_of(await body_of(call))]
        await proxy.instances.use(instance, lambda: instance.assign(wanted))
        return None

    @api.get(path, name="api.v2.consumers.get-assignments", answer=PLACES, **common())
    async def assignments(call: Call) -> object:
        """The partitions that it reads"""
        instance = await found(proxy, call)
        places = sorted(await proxy.instances.use(instance, instance.consumer.assignment))
        return {"partitions": [{"topic": place.topic, "partition": place.partition} for place in places]}


def place_of(given: dict[str, Any]) -> TopicPartition:
    return TopicPartition(str(given["topic"]), int(given["partition"]))


def add_positions(api: Api, proxy: Proxy) -> None:
    refusals = {"errors": (40403, 40903, *ERRORS)}

    @api.post(
        f"{ONE}/positions", name="api.v2.consumers.seek-to-offset", **{**common(body=OFFSETS, status=204), **refusals}
    )
    async def seek(call: Call) -> object:
        """Goes on reading at these offsets, or at the first records from these times on"""
        instance = await found(proxy, call)
        body = await body_of(call)
        offsets = [(place_of(each), offset_of(each)) for each in places_of(body, "offsets")]
        times = [(place_of(each), time_of(each)) for each in places_of(body, "timestamps")]

        def move() -> None:
            for place, _ in [*offsets, *times]:
                instance.check_assigned(place)
            for place, offset in offsets:
                instance.seek(place, lambda place=place, offset=offset: instance.consumer.seek(place, offset))  # type: ignore[misc]
            for place, at in times:
                instance.seek(place, lambda place=place, at=at: instance.consumer.seek_to_time(at, place))  # type: ignore[misc]

        await proxy.instances.use(instance, move)
        return None

    for where in ("beginning", "end"):
        add_ends(api, proxy, where, refusals)


def add_ends(api: Api, proxy: Proxy, where: str, refusals: dict[str, Any]) -> None:
    @api.post(
        f"{ONE}/positions/{where}",
        name=f"api.v2.consumers.seek-to-{where}",
        summary=f"Goes on reading at the {where}",
        **{**common(body=PLACES, status=204), **refusals},
    )
    async def seek(call: Call) -> object:
        instance = await found(proxy, call)
        places = [place_of(each) for each in places_of(await body_of(call))]
        consumer = instance.consumer
        how = consumer.seek_to_beginning if where == "beginning" else consumer.seek_to_end

        def move() -> None:
            for place in places:
                instance.check_assigned(place)
            for place in places:
                instance.seek(place, lambda place=place: how(place))  # type: ignore[misc]

        await proxy.instances.use(instance, move)
        return None


def offset_of(given: dict[str, Any]) -> int:
    offset = number_of(given, "offset", needed=True, bits=64)
    if offset is None or offset < 0:
        raise ApiError(422, f"offset {offset} must be greater than or equal to 0")
    return offset


def time_of(given: dict[str, Any]) -> int:
    found = read_time(given.get("timestamp"))
    if found is None:
        raise ApiError(422, "timestamps: each needs `timestamp`, such as 2026-01-31T12:00:00Z")
    return found


# -- what it has read ------------------------------------------------------------------------------------------------


def add_offsets(api: Api, proxy: Proxy) -> None:
    path = f"{ONE}/offsets"
    asks = (text("async", doc="Accepted; commits are always waited for."),)

    @api.post(
        path,
        name="api.v2.consumers.commit-offsets",
        query=asks,
        answer={"type": "array"},
        **{**common(), "consumes": (*CONTROL, *EMBEDDED)},
    )
    async def commit(call: Call) -> object:
        """Commits what was read, or the records at these offsets"""
        instance = await found(proxy, call)
        body = await body_of(call, needed=False)
        wanted = None
        if "offsets" in body:
            wanted = {
                place_of(each): OffsetAndMetadata(offset_of(each) + 1, text_of(each, "metadata") or "")
                for each in places_of(body, "offsets")
            }
        await proxy.instances.use(instance, lambda: instance.commit(wanted))
        if not is_v1(call):
            return []
        positions = await proxy.instances.use(instance, instance.positions)
        return v1.committed(positions)

    @api.get(path, name="api.v2.consumers.get-committed-offsets", answer=OFFSETS, **common())
    async def committed(call: Call) -> object:
        """What the group has committed for the partitions in the body (of a GET)"""
        instance = await found(proxy, call)
        body = await body_of(call, needed=False)
        if not body:
            raise errors.partition_not_found()
        wanted = [place_of(each) for each in places_of(body)]
        offsets = await proxy.instances.use(instance, lambda: instance.consumer.committed(wanted)) if wanted else {}
        data = [
            {"topic": place.topic, "partition": place.partition, "offset": each.offset, "metadata": each.metadata}
            for place, each in offsets.items()
            if each is not None
        ]
        return {"offsets": data}


def add_records(api: Api, proxy: Proxy) -> None:
    asks = (
        long(
            "timeout",
            -1,
            "Milliseconds, at most what consumer.request.timeout.ms says, the instance's own or the proxy's.",
        ),
        long("max_bytes", -1),
    )
    reading = {
        **common(query=asks, answer={"type": "array", "items": RECORD}),
        "produces": (*READS, V2, "application/json"),
        "errors": (40403, 40601, 40801, 40901, *ERRORS),
    }

    @api.get(f"{ONE}/records", name="api.v2.consumers.consume", **reading)
    async def records(call: Call) -> object:
        """Records; the type that is accepted says the format, which has to be the instance's"""
        instance = await found(proxy, call)
        check_format(call, instance)
        return await read(proxy, call, instance, with_topic=True)

    @api.get(ONE + "/topics/{topic}", name="api.v1.consumers.consume", **reading)
    async def topic_records(call: Call) -> object:
        """v1: records of a topic, to which it subscribes the first time"""
        instance = await found(proxy, call)
        check_format(call, instance)
        topic = call.path["topic"]
        subscribed = await proxy.instances.use(instance, instance.consumer.subscription)
        if subscribed and subscribed != [topic]:
            raise errors.already_subscribed()
        if not subscribed:
            await v1.begin(proxy, call, instance, topic)
        return await read(proxy, call, instance, with_topic=False)


def check_format(call: Call, instance: Instance) -> None:
    """Whoever accepts anything gets binary, as with Confluent's proxy."""
    kind = accepted(call.request.headers.get("accept"), (*READS, V2, "application/json")) or READS[0]
    if EMBEDDED.get(kind, formats.BINARY) != instance.config.format:
        raise errors.format_mismatch()


def patience_ms(settings: RestSettings, config: InstanceConfig) -> int:
    """An instance may ask for more than the default, but each read that waits holds one of consumer.threads."""
    default = settings.number("consumer.request.timeout.ms")
    if config.wait_ms is None:
        return default
    return min(config.wait_ms, max(default, settings.number("consumer.request.timeout.max.ms")))


async def read(proxy: Proxy, call: Call, instance: Instance, *, with_topic: bool) -> Response:
    settings = proxy.settings
    config = instance.config
    longest = patience_ms(settings, config)
    asked = call.query["timeout"]
    seconds = (min(asked, longest) if asked > 0 else longest) / 1000
    limit = settings.number("consumer.request.max.bytes")
    most = min(call.query["max_bytes"], limit) if call.query["max_bytes"] > 0 else limit
    least = config.least_bytes if config.least_bytes is not None else settings.number("fetch.min.bytes")

    watching = asyncio.ensure_future(gone(call.request.receive))

    def taken() -> tuple[bytes, int]:
        records = instance.read(seconds, most, least, lambda: watching.done() or proxy.closing.is_set())
        if watching.done():
            instance.give_back(records)
            return b"", 0
        data = []
        for number, record in enumerate(records):
            try:
                data.append(as_record(proxy, config.format, record, with_topic=with_topic))
            except errors.RestError:
                instance.give_back(records[number:])
                if not data:
                    raise
                break
        return to_json(data), len(data)

    try:
        body, count = await proxy.instances.use(instance, taken)
    finally:
        watching.cancel()
    proxy.consumed.value += count
    return Response(body, media_type=answer_type(call))


def as_record(proxy: Proxy, format_: str, record: ConsumerRecord, *, with_topic: bool) -> dict[str, Any]:
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    headers = record.headers if format_ in formats.WITH_SCHEMA else []
    key, value = (
        in_format(proxy.schemas, format_, data, head_of(headers, is_key=part == "key"), f"the {part} of {where}")
        for part, data in (("key", record.key), ("value", record.value))
    )
    shown = {"topic": record.topic} if with_topic else {}
    return {**shown, "key": key, "value": value, "partition": record.partition, "offset": record.offset}
