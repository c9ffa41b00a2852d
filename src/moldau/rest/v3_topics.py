"""v3: topics, partitions, replicas, and moves of replicas under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from moldau.rest import errors
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import (
    CONTROL,
    FLAG,
    JSON,
    NUMBER,
    PREFIX,
    TEXT,
    Context,
    body_of,
    list_of,
    listing,
    number_of,
    objects_of,
    text_of,
    thing,
    whole,
)
from moldau.web import ADMIN, Api, Call, flag
from moldau.web.application import to_json

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

TOPIC: Final = {
    "topic_name": TEXT,
    "is_internal": FLAG,
    "replication_factor": NUMBER,
    "partitions_count": NUMBER,
    "partitions": {"type": "object"},
    "configs": {"type": "object"},
    "partition_reassignments": {"type": "object"},
    "authorized_operations": {"type": "array", "items": TEXT},
}
NEW_TOPIC: Final = {
    "type": "object",
    "required": ["topic_name"],
    "properties": {
        "topic_name": TEXT,
        "partitions_count": NUMBER,
        "replication_factor": NUMBER,
        "replicas_assignments": {"type": "array", "items": {"type": "object"}},
        "configs": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": TEXT}}},
        "validate_only": FLAG,
    },
}
COUNT: Final = {"type": "object", "required": ["partitions_count"], "properties": {"partitions_count": NUMBER}}


def add(api: Api, proxy: Proxy) -> None:
    add_reading(api, proxy)
    add_writing(api, proxy)


def add_reading(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "consumes": JSON, "tag": "Topic", "errors": (40403, *CONTROL)}
    operations = (flag("include_authorized_operations", doc="Whether to say what the user may do with them."),)

    @api.get(f"{PREFIX}/topics", name="api.v3.topics.list", query=operations, answer=listing(TOPIC), **common)
    async def topics(call: Call) -> object:
        """The topics"""
        context = await Context.of(proxy, call)
        allowed = call.query["include_authorized_operations"]
        found = await described(context, await topic_names(context), allowed=allowed)
        return context.listed("KafkaTopic", context.url("topics"), (as_topic(context, each) for each in found))

    @api.get(PREFIX + "/topics/{topic_name}", name="api.v3.topics.get", query=operations, answer=thing(TOPIC), **common)
    async def topic(call: Call) -> object:
        """One topic"""
        context = await Context.of(proxy, call)
        allowed = call.query["include_authorized_operations"]
        return as_topic(context, await topic_of(context, call.path["topic_name"], allowed=allowed))


def add_writing(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {
        "produces": JSON,
        "consumes": JSON,
        "tag": "Topic",
        "role": ADMIN,
        "errors": (40403, 42206, *CONTROL),
    }

    @api.post(
        f"{PREFIX}/topics", name="api.v3.topics.create", body=NEW_TOPIC, answer=thing(TOPIC), status=201, **common
    )
    async def create(call: Call) -> object:
        """Creates a topic; validate_only only says whether it could be"""
        context = await Context.of(proxy, call)
        body = await body_of(call)
        name = str(text_of(body, "topic_name", needed=True))
        await created(context, name, body)
        if body.get("validate_only") is True:
            shown = as_topic_not_made(context, name, body)
            return Response(to_json(shown), 200, media_type=JSON[0])
        found = as_topic(context, await topic_of(context, name, made=True))
        return Response(to_json(found), 201, {"Location": found["metadata"]["self"]}, JSON[0])

    @api.patch(PREFIX + "/topics/{topic_name}", name="api.v3.topics.patch", body=COUNT, answer=thing(TOPIC), **common)
    async def grow(call: Call) -> object:
        """Raises the number of partitions"""
        from confluent_kafka.admin import NewPartitions

        context = await Context.of(proxy, call)
        count = number_of(await body_of(call), "partitions_count", needed=True) or 0
        name = call.path["topic_name"]
        await topic_of(context, name)
        backend = context.backend
        await backend.ask_all(
            lambda: backend.admin.create_partitions([NewPartitions(name, count)], request_timeout=backend.seconds)
        )
        found = await topic_of(context, name)
        return {**as_topic(context, found), "partitions_count": max(len(found.partitions), count)}

    @api.delete(PREFIX + "/topics/{topic_name}", name="api.v3.topics.delete", status=204, **common)
    async def delete(call: Call) -> object:
        """Deletes a topic"""
        context = await Context.of(proxy, call)
        backend = context.backend
        name = call.path["topic_name"]
        await backend.ask_all(
            lambda: backend.admin.delete_topics(
                [name], operation_timeout=backend.seconds, request_timeout=backend.seconds
            )
        )
        if backend.has_sender:
            (await backend.sender()).forget(name)
        return None


# -- asking ----------------------------------------------------------------------------------------------------------


async def topic_names(context: Context) -> list[str]:
    import asyncio

    from confluent_kafka import KafkaException

    backend = context.backend
    try:
        found = await asyncio.to_thread(lambda: backend.admin.list_topics(timeout=backend.seconds))
    except KafkaException as error:
        raise errors.of_kafka(error) from None
    return sorted(found.topics)


async def described(context: Context, names: Sequence[str], *, allowed: bool = False, gone: bool = True) -> list[Any]:
    """`gone`: those that vanish meanwhile are left out."""
    from confluent_kafka import TopicCollection

    if not names:
        return []
    backend = context.backend
    found = await backend.ask_each(
        lambda: backend.admin.describe_topics(
            TopicCollection(list(names)), request_timeout=backend.seconds, include_authorized_operations=allowed
        )
    )
    for answer in found.values():
        if isinstance(answer, errors.RestError) and not (gone and answer.code == 40403):
            raise answer
    return [found[name] for name in names if not isinstance(found[name], errors.RestError)]


async def topic_of(context: Context, name: str, *, allowed: bool = False, made: bool = False) -> Any:
    """`made`: it was created this moment, and brokers may not know it yet."""
    import asyncio

    for _ in range(50 if made else 1):
        found = await described(context, [name], allowed=allowed, gone=made)
        if found and (not made or found[0].partitions):
            return found[0]
        await asyncio.sleep(0.1)
    raise errors.RestError(40403, "This server does not host this topic-partition.")


async def partition_of(context: Context, call: Call) -> tuple[Any, Any]:
    """Topic and partition."""
    number = whole(call.path["partition_id"], "Partition")
    topic = await topic_of(context, call.path["topic_name"])
    for partition in topic.partitions:
        if partition.id == number:
            return topic, partition
    raise errors.partition_not_found()


async def created(context: Context, name: str, body: dict[str, Any]) -> None:
    from confluent_kafka.admin import NewTopic

    layout: dict[str, Any] = {}
    assignments = read_assignments(body)
    if assignments:
        layout = {"num_partitions": len(assignments), "replica_assignment": assignments}
    else:
        layout["num_partitions"] = number_of(body, "partitions_count") or -1
        layout["replication_factor"] = number_of(body, "replication_factor", bits=16) or -1
    configs = {
        str(text_of(each, "name", needed=True)): text_of(each, "value") or "" for each in objects_of(body, "configs")
    }
    backend = context.backend

    def call() -> Any:
        return backend.admin.create_topics(
            [NewTopic(name, config=configs, **layout)],
            operation_timeout=backend.seconds,
            request_timeout=backend.seconds,
            validate_only=body.get("validate_only") is True,
        )

    await backend.ask_all(call)


def read_assignments(body: dict[str, Any]) -> list[list[int]]:
    """Confluent's own form is an array of `{"partition_id", "broker_ids"}`, or an object of arrays by partition."""
    given = body.get("replicas_assignments")
    if isinstance(given, dict):
        pairs = [(str(partition), brokers) for partition, brokers in given.items()]
    else:
        pairs = [
            (str(number_of(each, "partition_id", needed=True)), list_of(each, "broker_ids", needed=True))
            for each in objects_of(body, "replicas_assignments")
        ]
    found: dict[int, list[int]] = {}
    for partition, brokers in pairs:
        if not partition.isdigit() or not isinstance(brokers, list) or not all(type(each) is int for each in brokers):
            raise errors.bad_request("replicas_assignments: brokers by partition are expected")
        found[int(partition)] = brokers
    if sorted(found) != list(range(len(found))):
        raise errors.RestError(40002, "replicas_assignments: partitions are numbered from 0 without a gap")
    return [found[number] for number in range(len(found))]


def moves(places: dict[str, list[int]] | None) -> Any:
    """What asks for moves of replicas: of these partitions, or of all."""
    from moldau.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        ListPartitionReassignmentsTopics,
    )

    def asked(cluster: Cluster) -> list[tuple[str, Any]]:
        topics = None
        if places is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=each) for name, each in places.items()
            ]
        answer = cluster.any(ListPartitionReassignmentsRequest(topics=topics), ListPartitionReassignmentsResponse)
        if answer.error_code:
            from moldau.types.errors import ErrorCode

            raise errors.of_name(ErrorCode(answer.error_code).name, answer.error_message or "", False)
        return [(topic.name, each) for topic in answer.topics for each in topic.partitions]

    return asked


# -- answers ---------------------------------------------------------------------------------------------------------


def as_topic(context: Context, found: Any) -> dict[str, Any]:
    place = ("topics", found.name)
    return context.item(
        "KafkaTopic",
        place,
        f"topic={found.name}",
        topic_name=found.name,
        is_internal=bool(found.is_internal),
        replication_factor=len(found.partitions[0].replicas) if found.partitions else 0,
        partitions_count=len(found.partitions),
        partitions=context.related(*place, "partitions"),
        configs=context.related(*place, "configs"),
        partition_reassignments=context.related(*place, "partitions", "-", "reassignment"),
        authorized_operations=sorted(each.name for each in found.authorized_operations or ()),
    )


def as_topic_not_made(context: Context, name: str, body: dict[str, Any]) -> dict[str, Any]:
    place = ("topics", name)
    assignments = read_assignments(body)
    return context.item(
        "KafkaTopic",
        place,
        f"topic={name}",
        topic_name=name,
        is_internal=False,
        replication_factor=len(assignments[0]) if assignments else number_of(body, "replication_factor") or 0,
        partitions_count=len(assignments) or number_of(body, "partitions_count") or 0,
        partitions=context.related(*place, "partitions"),
        configs=context.related(*place, "configs"),
        partition_reassignments=context.related(*place, "partitions", "-", "reassignment"),
        authorized_operations=[],
    )
