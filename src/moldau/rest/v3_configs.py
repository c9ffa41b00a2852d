"""v3: settings of topics, of brokers, and of all brokers together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from moldau.rest import common_configs, errors
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import (
    CONTROL,
    FLAG,
    JSON,
    PREFIX,
    TEXT,
    Context,
    body_of,
    listing,
    objects_of,
    text_of,
    thing,
)
from moldau.rest.v3_clusters import broker_of
from moldau.rest.v3_topics import topic_names
from moldau.web import ADMIN, Api, Call
from moldau.web.application import to_json

CONFIG: Final = {
    "name": TEXT,
    "value": {"type": ["string", "null"]},
    "is_default": FLAG,
    "is_read_only": FLAG,
    "is_sensitive": FLAG,
    "source": TEXT,
    "synonyms": {"type": "array"},
}
UPDATE: Final = {"type": "object", "properties": {"value": {"type": ["string", "null"]}}}
ENTRY: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "value": {"type": ["string", "null"]},
        "operation": {"type": "string", "enum": ["SET", "DELETE"]},
    },
}
BATCH: Final = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "array", "items": ENTRY}, "validate_only": FLAG},
}
TOPICS_ENTRY: Final = {
    "type": "object",
    "required": ["topic_name", "configs"],
    "properties": {"topic_name": TEXT, "configs": {"type": "array", "items": ENTRY}},
}
TOPICS_BATCH: Final = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "array", "items": TOPICS_ENTRY}, "validate_only": FLAG},
}
OPERATIONS: Final = ("SET", "DELETE")
SOURCES: Final = {
    "UNKNOWN_CONFIG": "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG": "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG": "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG": "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG": "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "GROUP_CONFIG": "DYNAMIC_GROUP_CONFIG",
}


class Owner(NamedTuple):
    """Whose settings they are."""

    kind: str
    """Kafka's type of resource."""
    name: str
    item: str
    """The kind in answers."""
    place: tuple[object, ...]
    crn: str
    fields: dict[str, Any]


def of_topic(name: str) -> Owner:
    return Owner(
        "TOPIC", name, "KafkaTopicConfig", ("topics", name, "configs"), f"topic={name}/config", {"topic_name": name}
    )


def of_broker(number: int) -> Owner:
    place = ("brokers", number, "configs")
    return Owner("BROKER", str(number), "KafkaBrokerConfig", place, f"broker={number}/config", {"broker_id": number})


OF_CLUSTER: Final = Owner(
    "BROKER", "", "KafkaClusterConfig", ("broker-configs",), "broker-config", {"config_type": "BROKER"}
)
Finding = Callable[[Context, Call], Awaitable[Owner]]


def add(api: Api, proxy: Proxy) -> None:
    async def topic(_context: Context, call: Call) -> Owner:
        return of_topic(call.path["topic_name"])

    async def broker(context: Context, call: Call) -> Owner:
        return of_broker((await broker_of(context, call)).id)

    async def cluster(_context: Context, _call: Call) -> Owner:
        return OF_CLUSTER

    add_owner(api, proxy, "/topics/{topic_name}/configs", "api.v3.topic-configs", topic)
    add_owner(api, proxy, "/brokers/{broker_id}/configs", "api.v3.broker-configs", broker)
    add_owner(api, proxy, "/broker-configs", "api.v3.cluster-configs", cluster)
    add_all(api, proxy)


def add_owner(api: Api, proxy: Proxy, path: str, name: str, owner_of: Finding) -> None:
    common: dict[str, Any] = {"produces": JSON, "consumes": JSON, "tag": "Configs"}
    whole_path = PREFIX + path

    @api.get(whole_path, name=f"{name}.list", answer=listing(CONFIG), errors=CONTROL, **common)
    async def configs(call: Call) -> object:
        """The settings"""
        context = await Context.of(proxy, call)
        owner = await owner_of(context, call)
        found = (await described(context, [owner]))[0]
        return context.listed(owner.item, context.url(*owner.place), as_list(context, owner, found))

    @api.get(whole_path + "/{name}", name=f"{name}.get", answer=thing(CONFIG), errors=CONTROL, **common)
    async def config(call: Call) -> object:
        """One setting"""
        context = await Context.of(proxy, call)
        owner = await owner_of(context, call)
        found = (await described(context, [owner]))[0].get(call.path["name"])
        if found is None:
            raise missing(context, owner, call.path["name"])
        return as_config(context, owner, found)

    writing = {**common, "role": ADMIN, "status": 204, "errors": (42206, *CONTROL)}

    @api.put(whole_path + "/{name}", name=f"{name}.update", body=UPDATE, **writing)
    async def update(call: Call) -> object:
        """Changes a setting"""
        context = await Context.of(proxy, call)
        owner = await owner_of(context, call)
        value = text_of(await body_of(call), "value")
        await known(context, owner, [call.path["name"]])
        await altered(context, owner, [(call.path["name"], value, "SET")], validate_only=False)
        return None

    @api.delete(whole_path + "/{name}", name=f"{name}.delete", **writing)
    async def reset(call: Call) -> object:
        """Puts a setting back to its default"""
        context = await Context.of(proxy, call)
        owner = await owner_of(context, call)
        await known(context, owner, [call.path["name"]])
        await altered(context, owner, [(call.path["name"], None, "DELETE")], validate_only=False)
        return None

    @api.post(f"{whole_path}:alter", name=f"{name}.alter", body=BATCH, **writing)
    async def alter(call: Call) -> object:
        """Changes several settings, all or none"""
        context = await Context.of(proxy, call)
        owner = await owner_of(context, call)
        body = await body_of(call)
        changes = read_changes(objects_of(body, "data", needed=True))
        await known(context, owner, [change[0] for change in changes])
        await altered(context, owner, changes, validate_only=body.get("validate_only") is True)
        return None


def add_all(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "consumes": JSON, "tag": "Configs"}

    @api.get(
        f"{PREFIX}/topics/-/configs",
        name="api.v3.topic-configs.list",
        answer=listing(CONFIG),
        errors=CONTROL,
        summary="The settings of all topics",
        **common,
    )
    async def of_topics(call: Call) -> object:
        context = await Context.of(proxy, call)
        owners = [of_topic(name) for name in await topic_names(context)]
        return await listed(context, owners, "KafkaTopicConfig", context.url("topics", "-", "configs"))

    @api.get(
        f"{PREFIX}/brokers/-/configs",
        name="api.v3.broker-configs.list",
        answer=listing(CONFIG),
        errors=CONTROL,
        summary="The settings of all brokers",
        **common,
    )
    async def of_brokers(call: Call) -> object:
        context = await Context.of(proxy, call)
        nodes = sorted(node.id for node in (await context.backend.cluster()).nodes)
        owners = [of_broker(number) for number in nodes]
        return await listed(context, owners, "KafkaBrokerConfig", context.url("brokers", "-", "configs"))

    @api.post(
        f"{PREFIX}/topics/-/configs:alter",
        name="api.v3.topic-configs.alter-multi",
        role=ADMIN,
        body=TOPICS_BATCH,
        status=207,
        answer={"type": "object"},
        errors=(42206, *CONTROL),
        summary="Changes settings of several topics; says what failed",
        **common,
    )
    async def alter_topics(call: Call) -> object:
        context = await Context.of(proxy, call)
        body = await body_of(call)
        failures = []
        for entry in objects_of(body, "data", needed=True):
            name = str(text_of(entry, "topic_name", needed=True))
            owner = of_topic(name)
            changes = read_changes(objects_of(entry, "configs", needed=True))
            try:
                await known(context, owner, [change[0] for change in changes])
                await altered(context, owner, changes, validate_only=body.get("validate_only") is True)
            except errors.RestError as error:
                failures.append({"topic_name": name, "error_code": error.code, "message": error.message})
        return Response(to_json({"failures": failures}), 207, media_type=JSON[0])


async def listed(context: Context, owners: Sequence[Owner], item: str, url: str) -> dict[str, Any]:
    found = await described(context, owners)
    data = [each for owner, entries in zip(owners, found, strict=True) for each in as_list(context, owner, entries)]
    return context.listed(item, url, data)


# -- asking ----------------------------------------------------------------------------------------------------------


async def described(context: Context, owners: Sequence[Owner]) -> list[dict[str, Any]]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    if not owners:
        return []
    if not owners[0].name:
        return [await context.backend.wire(common_configs.described())]
    resources = [ConfigResource(ResourceType[owner.kind], owner.name) for owner in owners]
    backend = context.backend
    found = await backend.ask_all(
        lambda: backend.admin.describe_configs(resources, request_timeout=backend.seconds), owners[0].name
    )
    return [found[resource] for resource in resources]


async def known(context: Context, owner: Owner, names: Sequence[str]) -> None:
    """Settings that do not exist are told, not set. The broker itself says so of all brokers' together."""
    if owner.name:
        found = (await described(context, [owner]))[0]
        for name in names:
            if name not in found:
                raise missing(context, owner, name)


def missing(context: Context, owner: Owner, name: str) -> errors.RestError:
    text = f"Config {name} cannot be found for {owner.kind} {owner.name or 'default'} in cluster {context.cluster_id}."
    return errors.not_found(text)


def read_changes(given: Sequence[dict[str, Any]]) -> list[tuple[str, str | None, str]]:
    changes = []
    for entry in given:
        operation = str(entry.get("operation") or "SET").upper()
        if operation not in OPERATIONS:
            raise errors.bad_request(f"operation {operation!r}: one of SET, DELETE")
        changes.append((str(text_of(entry, "name", needed=True)), text_of(entry, "value"), operation))
    if not changes:
        raise errors.no_data()
    return changes


async def altered(
    context: Context, owner: Owner, changes: Sequence[tuple[str, str | None, str]], *, validate_only: bool
) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    if not owner.name:
        await context.backend.wire(common_configs.altered(changes, validate_only=validate_only))
        return
    entries = [
        ConfigEntry(
            name, None if operation == "DELETE" else value or "", incremental_operation=AlterConfigOpType[operation]
        )
        for name, value, operation in changes
    ]
    resource = ConfigResource(ResourceType[owner.kind], owner.name, incremental_configs=entries)
    backend = context.backend
    await backend.ask_all(
        lambda: backend.admin.incremental_alter_configs(
            [resource], request_timeout=backend.seconds, validate_only=validate_only
        ),
        "settings not changed",
    )


# -- answers ---------------------------------------------------------------------------------------------------------


def as_list(context: Context, owner: Owner, entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [as_config(context, owner, entries[name]) for name in sorted(entries)]


def as_config(context: Context, owner: Owner, entry: Any) -> dict[str, Any]:
    synonyms = [
        {"name": each.name, "value": each.value, "source": source(each)} for each in (entry.synonyms or {}).values()
    ]
    return context.item(
        owner.item,
        (*owner.place, entry.name),
        f"{owner.crn}={entry.name}",
        **owner.fields,
        name=entry.name,
        value=entry.value,
        is_default=bool(entry.is_default),
        is_read_only=bool(entry.is_read_only),
        is_sensitive=bool(entry.is_sensitive),
        source=source(entry),
        synonyms=synonyms,
    )


def source(entry: Any) -> str:
    from confluent_kafka.admin import ConfigSource

    name = ConfigSource(entry.source).name if not isinstance(entry.source, ConfigSource) else entry.source.name
    return SOURCES.get(name, "UNKNOWN")
