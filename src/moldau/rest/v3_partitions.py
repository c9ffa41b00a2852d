"""v3: partitions with their offsets, their replicas, and moves of replicas under way."""

from __future__ import annotations

from typing import Any, Final

from moldau.rest import errors
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import CONTROL, FLAG, JSON, NUMBER, PREFIX, TEXT, Context, listing, thing, whole
from moldau.rest.v3_clusters import broker_of
from moldau.rest.v3_topics import described, moves, partition_of, topic_names, topic_of
from moldau.web import Api, Call, text

PARTITION: Final = {"topic_name": TEXT, "partition_id": NUMBER, "leader": {"type": ["object", "null"]}}
OFFSETS: Final = {"topic_name": TEXT, "partition_id": NUMBER, "earliest_offset": NUMBER, "latest_offset": NUMBER}
REPLICA: Final = {
    "topic_name": TEXT,
    "partition_id": NUMBER,
    "broker_id": NUMBER,
    "is_leader": FLAG,
    "is_in_sync": FLAG,
}
NUMBERS: Final = {"type": "array", "items": NUMBER}
MOVE: Final = {"topic_name": TEXT, "partition_id": NUMBER, "adding_replicas": NUMBERS, "removing_replicas": NUMBERS}
BOTH: Final = "earliest_and_latest"
ONE: Final = PREFIX + "/topics/{topic_name}/partitions/{partition_id}"


def add(api: Api, proxy: Proxy) -> None:
    add_partitions(api, proxy)
    add_replicas(api, proxy)
    add_moves(api, proxy)


def add_partitions(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "tag": "Partition", "errors": (40402, 40403, *CONTROL)}

    @api.get(
        PREFIX + "/topics/{topic_name}/partitions", name="api.v3.partitions.list", answer=listing(PARTITION), **common
    )
    async def partitions(call: Call) -> object:
        """The partitions of a topic"""
        context = await Context.of(proxy, call)
        topic = await topic_of(context, call.path["topic_name"])
        url = context.url("topics", topic.name, "partitions")
        found = sorted(topic.partitions, key=lambda each: each.id)
        return context.listed("KafkaPartition", url, (as_partition(context, topic.name, each) for each in found))

    @api.get(ONE, name="api.v3.partitions.get", answer=thing(PARTITION), **common)
    async def partition(call: Call) -> object:
        """One partition"""
        context = await Context.of(proxy, call)
        topic, found = await partition_of(context, call)
        return as_partition(context, topic.name, found)

    kinds = (text("offset_type", BOTH, doc="earliest_and_latest"),)

    @api.get(f"{ONE}/offset", name="api.v3.partitions.list.offsets", query=kinds, answer=thing(OFFSETS), **common)
    async def offset(call: Call) -> object:
        """Where a partition begins and ends"""
        context = await Context.of(proxy, call)
        kind = call.query["offset_type"]
        if kind != BOTH:
            raise errors.bad_request(f"Bad Request: offset_type:{kind} is invalid")
        topic, found = await partition_of(context, call)
        beginning, end = await offsets(context, topic.name, found.id)
        return context.item(
            "KafkaPartitionWithOffsets",
            ("topics", topic.name, "partitions", found.id, "offset"),
            f"topic={topic.name}/partition={found.id}/offset_type={kind}",
            topic_name=topic.name,
            partition_id=found.id,
            earliest_offset=beginning,
            latest_offset=end,
        )


def add_replicas(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "tag": "Replica", "errors": (40402, 40403, *CONTROL)}

    @api.get(f"{ONE}/replicas", name="api.v3.replicas.list", answer=listing(REPLICA), **common)
    async def replicas(call: Call) -> object:
        """The replicas of a partition"""
        context = await Context.of(proxy, call)
        topic, found = await partition_of(context, call)
        url = context.url("topics", topic.name, "partitions", found.id, "replicas")
        nodes = found.replicas
        return context.listed("KafkaReplica", url, (as_replica(context, topic.name, found, node.id) for node in nodes))

    @api.get(ONE + "/replicas/{broker_id}", name="api.v3.replicas.get", answer=thing(REPLICA), **common)
    async def replica(call: Call) -> object:
        """One replica"""
        context = await Context.of(proxy, call)
        topic, found = await partition_of(context, call)
        wanted = whole(call.path["broker_id"], "Broker")
        if wanted not in {node.id for node in found.replicas}:
            raise errors.not_found(f"Replica {wanted} of {topic.name}-{found.id} cannot be found.")
        return as_replica(context, topic.name, found, wanted)

    @api.get(
        PREFIX + "/brokers/{broker_id}/partition-replicas",
        name="api.v3.replicas.search-by-broker",
        answer=listing(REPLICA),
        **common,
    )
    async def on_broker(call: Call) -> object:
        """The replicas on a broker"""
        context = await Context.of(proxy, call)
        broker = (await broker_of(context, call)).id
        found = [
            as_replica(context, topic.name, partition, broker)
            for topic in await described(context, await topic_names(context))
            for partition in sorted(topic.partitions, key=lambda each: each.id)
            if broker in {node.id for node in partition.replicas}
        ]
        return context.listed("KafkaReplica", context.url("brokers", broker, "partition-replicas"), found)


def add_moves(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "tag": "Reassignment", "errors": (40402, 40403, *CONTROL)}

    @api.get(
        f"{PREFIX}/topics/-/partitions/-/reassignment",
        name="api.v3.partition-reassignments.list",
        answer=listing(MOVE),
        **common,
    )
    async def everywhere(call: Call) -> object:
        """The partitions that are being moved"""
        context = await Context.of(proxy, call)
        found = await context.backend.wire(moves(None))
        url = context.url("topics", "-", "partitions", "-", "reassignment")
        return context.listed("KafkaReassignment", url, (as_move(context, *each) for each in found))

    @api.get(
        PREFIX + "/topics/{topic_name}/partitions/-/reassignment",
        name="api.v3.partition-reassignments.search-by-topic",
        answer=listing(MOVE),
        **common,
    )
    async def of_topic(call: Call) -> object:
        """Those of one topic"""
        context = await Context.of(proxy, call)
        topic = await topic_of(context, call.path["topic_name"])
        found = await context.backend.wire(moves({topic.name: [each.id for each in topic.partitions]}))
        url = context.url("topics", topic.name, "partitions", "-", "reassignment")
        return context.listed("KafkaReassignment", url, (as_move(context, *each) for each in found))

    @api.get(f"{ONE}/reassignment", name="api.v3.partition-reassignments.get", answer=thing(MOVE), **common)
    async def of_partition(call: Call) -> object:
        """The move of one partition; 404 where there is none"""
        context = await Context.of(proxy, call)
        topic, partition = await partition_of(context, call)
        found = await context.backend.wire(moves({topic.name: [partition.id]}))
        if not found:
            raise errors.not_found(f"{topic.name}-{partition.id} is not being reassigned.")
        return as_move(context, *found[0])


async def offsets(context: Context, topic: str, partition: int) -> tuple[int, int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    backend = context.backend
    found = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        place = TopicPartition(topic, partition)
        answers = await backend.ask_all(
            lambda place=place, spec=spec: backend.admin.list_offsets(  # type: ignore[misc]
                {place: spec}, request_timeout=backend.seconds
            )
        )
        found += [each.offset for each in answers.values()]
    return found[0], found[1]


def as_partition(context: Context, topic: str, found: Any) -> dict[str, Any]:
    place = ("topics", topic, "partitions", found.id)
    leader = found.leader.id if found.leader is not None and found.leader.id >= 0 else None
    return context.item(
        "KafkaPartition",
        place,
        f"topic={topic}/partition={found.id}",
        topic_name=topic,
        partition_id=found.id,
        leader=context.related(*place, "replicas", leader) if leader is not None else None,
        replicas=context.related(*place, "replicas"),
        reassignment=context.related(*place, "reassignment"),
    )


def as_replica(context: Context, topic: str, partition: Any, broker: int) -> dict[str, Any]:
    place = ("topics", topic, "partitions", partition.id, "replicas", broker)
    return context.item(
        "KafkaReplica",
        place,
        f"topic={topic}/partition={partition.id}/replica={broker}",
        topic_name=topic,
        partition_id=partition.id,
        broker_id=broker,
        is_leader=partition.leader is not None and partition.leader.id == broker,
        is_in_sync=broker in {node.id for node in partition.isr},
        broker=context.related("brokers", broker),
    )


def as_move(context: Context, topic: str, found: Any) -> dict[str, Any]:
    number = found.partition_index
    place = ("topics", topic, "partitions", number)
    return context.item(
        "KafkaReassignment",
        (*place, "reassignment"),
        f"topic={topic}/partition={number}/reassignment",
        topic_name=topic,
        partition_id=number,
        adding_replicas=list(found.adding_replicas),
        removing_replicas=list(found.removing_replicas),
        replicas=context.related(*place, "replicas"),
    )
