"""v3: the cluster and its brokers."""

from __future__ import annotations

from typing import Any

from moldau.rest import errors
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import CONTROL, JSON, NUMBER, PREFIX, TEXT, Context, listing, thing, whole
from moldau.web import Api, Call

CLUSTER = {"controller": {"type": ["object", "null"]}, "brokers": {"type": "object"}, "topics": {"type": "object"}}
BROKER = {"broker_id": NUMBER, "host": TEXT, "port": NUMBER, "rack": {"type": ["string", "null"]}}


def add(api: Api, proxy: Proxy) -> None:
    common = {"produces": JSON, "tag": "Cluster", "errors": CONTROL}

    @api.get("/v3/clusters", name="api.v3.clusters.list", answer=listing(CLUSTER), **common)
    async def clusters(call: Call) -> object:
        """The clusters: always one"""
        context = await Context.of(proxy, call)
        return context.listed("KafkaCluster", context.clusters_url(), [as_cluster(context, await described(context))])

    @api.get(PREFIX, name="api.v3.clusters.get", answer=thing(CLUSTER), **common)
    async def cluster(call: Call) -> object:
        """The cluster"""
        context = await Context.of(proxy, call)
        return as_cluster(context, await described(context))

    common = {"produces": JSON, "tag": "Broker", "errors": CONTROL}

    @api.get(f"{PREFIX}/brokers", name="api.v3.brokers.list", answer=listing(BROKER), **common)
    async def brokers(call: Call) -> object:
        """The brokers"""
        context = await Context.of(proxy, call)
        nodes = sorted((await described(context)).nodes, key=lambda node: node.id)
        return context.listed("KafkaBroker", context.url("brokers"), (as_broker(context, node) for node in nodes))

    @api.get(PREFIX + "/brokers/{broker_id}", name="api.v3.brokers.get", answer=thing(BROKER), **common)
    async def broker(call: Call) -> object:
        """One broker"""
        context = await Context.of(proxy, call)
        return as_broker(context, await broker_of(context, call))


async def described(context: Context) -> Any:
    return await context.backend.cluster()


async def broker_of(context: Context, call: Call) -> Any:
    wanted = whole(call.path["broker_id"], "Broker")
    for node in (await described(context)).nodes:
        if node.id == wanted:
            return node
    raise errors.not_found(f"Broker {wanted} cannot be found.")


def as_cluster(context: Context, found: Any) -> dict[str, Any]:
    return context.item(
        "KafkaCluster",
        (),
        "",
        controller=context.related("brokers", found.controller.id) if found.controller else None,
        acls=context.related("acls"),
        brokers=context.related("brokers"),
        broker_configs=context.related("broker-configs"),
        consumer_groups=context.related("consumer-groups"),
        topics=context.related("topics"),
        partition_reassignments=context.related("topics", "-", "partitions", "-", "reassignment"),
    )


def as_broker(context: Context, node: Any) -> dict[str, Any]:
    return context.item(
        "KafkaBroker",
        ("brokers", node.id),
        f"broker={node.id}",
        broker_id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        configs=context.related("brokers", node.id, "configs"),
        partition_replicas=context.related("brokers", node.id, "partition-replicas"),
    )
