"""v2 and v1: brokers, topics, partitions, and producing to them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.responses import Response

from moldau.rest import errors, formats
from moldau.rest.backend import Backend
from moldau.rest.producing import Outgoing, Refused, Stored
from moldau.rest.proxy import Proxy
from moldau.rest.schemas import Chosen, Wanted
from moldau.rest.v2 import CONTROL, EMBEDDED, ERRORS, answer_type, body_of, partition_number
from moldau.rest.v3 import Context, number_of, text_of
from moldau.rest.v3_configs import described as described_configs
from moldau.rest.v3_configs import of_topic
from moldau.rest.v3_partitions import offsets
from moldau.rest.v3_topics import topic_names, topic_of
from moldau.web import READ, WRITE, Api, ApiError, Call
from moldau.web.application import to_json

RECORD: Final = {"type": "object", "properties": {"key": {}, "value": {}, "partition": {"type": ["integer", "null"]}}}
PRODUCE: Final = {
    "type": "object",
    "required": ["records"],
    "properties": {
        "records": {"type": "array", "items": RECORD, "minItems": 1},
        "key_schema": {"type": ["string", "null"]},
        "key_schema_id": {"type": ["integer", "null"]},
        "value_schema": {"type": ["string", "null"]},
        "value_schema_id": {"type": ["integer", "null"]},
    },
}
PARTITION: Final = {
    "type": "object",
    "properties": {"partition": {"type": "integer"}, "leader": {"type": "integer"}, "replicas": {"type": "array"}},
}
CONSUMES: Final = (*EMBEDDED, *CONTROL, "application/octet-stream")


def add(api: Api, proxy: Proxy) -> None:
    add_reading(api, proxy)
    add_partitions(api, proxy)
    add_producing(api, proxy)


def add_reading(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": CONTROL, "role": READ, "tag": "v2", "errors": ERRORS}
    nothing: dict[str, Any] = {"produces": CONTROL, "tag": "v2", "answer": {"type": "object"}}

    @api.get("/", name="api.v2.root.get", **nothing)
    async def root(call: Call) -> object:
        """Nothing, kindly"""
        return {}

    @api.post("/", name="api.v2.root.post", **nothing)
    async def root_post(call: Call) -> object:
        """Nothing, kindly"""
        return {}

    @api.get("/brokers", name="api.v2.brokers.list", answer={"type": "object"}, **common)
    async def brokers(call: Call) -> object:
        """The ids of the brokers"""
        backend = await proxy.backend(call)
        return {"brokers": sorted(node.id for node in (await backend.cluster()).nodes)}

    names = {"type": "array", "items": {"type": "string"}}

    @api.get("/topics", name="api.v2.topics.list", answer=names, **common)
    async def topics(call: Call) -> object:
        """The names of the topics"""
        return await topic_names(await context_of(proxy, call))

    @api.get("/topics/{topic}", name="api.v2.topics.get", answer={"type": "object"}, **common)
    async def topic(call: Call) -> object:
        """A topic with its settings and partitions"""
        context = await context_of(proxy, call)
        found = await existing(context, call)
        (configs,) = await described_configs(context, [of_topic(found.name)])
        return {
            "name": found.name,
            "configs": {name: configs[name].value for name in sorted(configs)},
            "partitions": [as_partition(each) for each in sorted(found.partitions, key=lambda each: each.id)],
        }


def add_partitions(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": CONTROL, "tag": "v2", "errors": ERRORS}
    path = "/topics/{topic}/partitions"

    @api.get(path, name="api.v2.partitions.list", answer={"type": "array", "items": PARTITION}, **common)
    async def partitions(call: Call) -> object:
        """The partitions of a topic"""
        found = await existing(await context_of(proxy, call), call)
        return [as_partition(each) for each in sorted(found.partitions, key=lambda each: each.id)]

    @api.get(path + "/{partition}", name="api.v2.partitions.get", answer=PARTITION, **common)
    async def partition(call: Call) -> object:
        """One partition"""
        return as_partition(one_of(await existing(await context_of(proxy, call), call), call))

    @api.get(path + "/{partition}/offsets", name="api.v2.partitions.get-offsets", answer={"type": "object"}, **common)
    async def ends(call: Call) -> object:
        """Where a partition begins and ends"""
        context = await context_of(proxy, call)
        topic = await existing(context, call)
        try:
            beginning, end = await offsets(context, topic.name, one_of(topic, call).id)
        except errors.RestError as error:
            raise errors.of_v2(error) from None
        return {"beginning_offset": beginning, "end_offset": end}


def add_producing(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {
        "produces": CONTROL,
        "consumes": CONSUMES,
        "role": WRITE,
        "tag": "v2",
        "body": PRODUCE,
        "answer": {"type": "object"},
        "errors": (*ERRORS, 40801, 42201, 42202, 42203, 42205, 42207),
    }

    @api.post("/topics/{topic}", name="api.v2.produce-to-topic", **common)
    async def produce(call: Call) -> object:
        """Produces records; the content type says their format, and the partition is theirs or any"""
        return await produced(proxy, call, None)

    @api.post("/topics/{topic}/partitions/{partition}", name="api.v2.produce-to-partition", **common)
    async def produce_to(call: Call) -> object:
        """Produces records to one partition"""
        return await produced(proxy, call, partition_number(call.path["partition"]))


async def context_of(proxy: Proxy, call: Call) -> Context:
    """v2 names no cluster."""
    return Context(proxy, await proxy.backend(call), "", proxy.base(call))


async def existing(context: Context, call: Call) -> Any:
    try:
        return await topic_of(context, call.path["topic"])
    except errors.RestError as error:
        raise errors.of_v2(error) from None


def one_of(topic: Any, call: Call) -> Any:
    number = partition_number(call.path["partition"])
    for partition in topic.partitions:
        if partition.id == number:
            return partition
    raise errors.partition_not_found()


def as_partition(found: Any) -> dict[str, Any]:
    leader = found.leader.id if found.leader is not None else -1
    in_sync = {node.id for node in found.isr}
    replicas = [
        {"broker": node.id, "leader": node.id == leader, "in_sync": node.id in in_sync} for node in found.replicas
    ]
    return {"partition": found.id, "leader": leader, "replicas": replicas}


# -- producing -------------------------------------------------------------------------------------------------------


async def produced(proxy: Proxy, call: Call, partition: int | None) -> object:
    kind = call.request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in ("", *CONSUMES):
        raise ApiError(415, f"HTTP 415 Unsupported Media Type: {kind}; such as application/vnd.kafka.json.v2+json")
    # Without a format in the content type it is binary, as with Confluent's proxy.
    format_ = EMBEDDED.get(kind, formats.BINARY)
    backend = await proxy.backend(call)
    body = await body_of(call)
    records = body.get("records")
    if not isinstance(records, list) or not records or not all(isinstance(each, dict) for each in records):
        raise ApiError(422, "records must not be empty: an array of objects with `key` and `value` is expected")
    topic = call.path["topic"]
    count = await partitions_of(backend, topic)
    if partition is not None and partition >= count:
        raise errors.partition_not_found()
    if format_ in formats.WITH_SCHEMA or len(records) > 1000:
        encoded = await asyncio.to_thread(encode, proxy, topic, format_, body, records, partition)
    else:
        encoded = encode(proxy, topic, format_, body, records, partition)
    outgoing, schemas = encoded
    if any((each.partition or 0) >= count for each in outgoing):
        raise errors.partition_not_found()
    fates = await (await (await backend.sender()).send(topic, outgoing)).finished()
    proxy.produced.value += sum(isinstance(fate, Stored) for fate in fates)
    proxy.refused.value += sum(isinstance(fate, Refused) for fate in fates)
    ids = {f"{part}_schema_id": chosen.schema.schema_id if chosen else None for part, chosen in schemas.items()}
    offsets_ = [as_offset(fate) for fate in fates]
    refusals = {each["error_code"] for each in offsets_} & {40101, 40301}
    status = min(refusals) // 100 if refusals else 200
    return Response(to_json({"offsets": offsets_, **ids}), status, media_type=answer_type(call))


async def partitions_of(backend: Backend, topic: str) -> int:
    try:
        return await (await backend.sender()).partitions(topic)
    except errors.RestError as error:
        raise errors.of_v2(error) from None


def encode(
    proxy: Proxy, topic: str, format_: str, body: dict[str, Any], records: list[dict[str, Any]], partition: int | None
) -> tuple[list[Outgoing], dict[str, Chosen | None]]:
    chosen: dict[str, Chosen | None] = {"key": None, "value": None}
    if format_ in formats.WITH_SCHEMA:
        chosen = {part: chosen_for(proxy, topic, format_, body, part) for part in chosen}
    outgoing = []
    for record in records:
        given = number_of(record, "partition")
        if given is not None and given < 0:
            raise ApiError(422, f"partition {given} must be greater than or equal to 0")
        key, value = (one_part(proxy, format_, chosen[part], record.get(part), part) for part in ("key", "value"))
        outgoing.append(Outgoing(key, value, partition if given is None else given))
    return outgoing, chosen


def chosen_for(proxy: Proxy, topic: str, format_: str, body: dict[str, Any], part: str) -> Chosen | None:
    schema_id, text = number_of(body, f"{part}_schema_id"), text_of(body, f"{part}_schema")
    if schema_id is None and text is None:
        return None
    text = None if schema_id is not None else text
    return proxy.schemas.choose(Wanted(topic, part == "key", format_, None, None, schema_id, None, text))


def one_part(proxy: Proxy, format_: str, chosen: Chosen | None, data: Any, part: str) -> bytes | None:
    if format_ not in formats.WITH_SCHEMA:
        return formats.encode(format_, data)
    if data is None and (chosen is None or proxy.settings.flag("null.request.body.always.publishes.empty.record")):
        return None
    if chosen is None:
        raise errors.schema_missing(part)
    try:
        return proxy.schemas.encode(chosen, data)
    except errors.RestError as error:
        raise (errors.conversion_failed(error.message) if error.code == 400 else error) from None


def as_offset(fate: Stored | Refused) -> dict[str, Any]:
    if isinstance(fate, Stored):
        return {"partition": fate.partition, "offset": fate.offset, "error_code": None, "error": None}
    code = errors.delivery_code(fate.name, fate.retriable)
    return {"partition": None, "offset": None, "error_code": code, "error": f"{fate.text} [{fate.name}]"}
