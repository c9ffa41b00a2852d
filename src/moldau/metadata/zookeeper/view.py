"""The nodes that Kafka kept in ZooKeeper, for people and tools who look there: a view, written behind the commits and
read by nobody here.

    /controller                              ephemeral  {"version":1,"brokerid":1,"timestamp":"…"}
    /controller_epoch                        3
    /cluster/id                              {"version":"1","id":"…"}
    /brokers/topics/T                        {"version":3,"topic_id":"…","partitions":{"0":[1,2]},…}
    /brokers/topics/T/partitions/P/state     {"controller_epoch":3,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}
    /config/topics/T, /config/brokers/1      {"version":1,"config":{…}}; <default> in place of 1 for all brokers
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau.metadata.image import ClusterImage, PartitionImage, TopicImage
from moldau.metadata.zookeeper.layout import Layout, parents_of
from moldau.metadata.zookeeper.port import NodeExistsError, NoNodeError, OnEvent, Port
from moldau.types.uuid_text import encode_uuid

CONTROLLER: Final = "/controller"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
ALL_BROKERS: Final = "<default>"

Nodes = Iterator[tuple[str, bytes]]


def common_nodes(image: ClusterImage) -> Nodes:
    """What belongs to no topic, but for /controller."""
    epoch = image.controller.epoch if image.controller is not None else 0
    yield "/controller_epoch", str(epoch).encode()
    yield "/cluster/id", _json({"version": "1", "id": image.cluster_id})
    for broker, settings in image.broker_settings.items():
        yield f"{BROKER_CONFIGS}/{broker}", _config(settings.values)
    yield f"{BROKER_CONFIGS}/{ALL_BROKERS}", _config(image.default_broker_settings.values)


def topic_nodes(topic: TopicImage) -> Nodes:
    yield f"{TOPIC_CONFIGS}/{topic.name}", _config(topic.configs)
    yield topic_path(topic.name), _json(assignment(topic))


def partition_node(topic: str, index: int, partition: PartitionImage, controller_epoch: int) -> tuple[str, bytes]:
    return f"{topic_path(topic)}/partitions/{index}/state", _json(state(partition, controller_epoch))


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def controller_node(broker_id: int, wall_ms: int) -> bytes:
    return _json({"version": 1, "brokerid": broker_id, "timestamp": str(wall_ms)})


def assignment(topic: TopicImage) -> dict[str, Any]:
    moving = {str(index): each for index, each in enumerate(topic.partitions) if each.adding or each.removing}
    return {
        "version": 3,
        "topic_id": encode_uuid(topic.id),
        "partitions": {str(index): list(each.replicas) for index, each in enumerate(topic.partitions)},
        "adding_replicas": {index: list(each.adding) for index, each in moving.items()},
        "removing_replicas": {index: list(each.removing) for index, each in moving.items()},
    }


def state(partition: PartitionImage, controller_epoch: int) -> dict[str, Any]:
    return {
        "controller_epoch": controller_epoch,
        "leader": partition.leader,
        "version": 1,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
    }


def _config(values: Mapping[str, str]) -> bytes:
    return _json({"version": 1, "config": dict(values)})


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


class ViewWriter:
    """Puts nodes where they belong, below the chroot. Every call may raise PortError."""

    def __init__(self, port: Port, layout: Layout) -> None:
        self._port = port
        self._chroot = layout.chroot

    async def put(self, path: str, value: bytes) -> None:
        whole = self._chroot + path
        try:
            await self._set(whole, value)
        except NoNodeError:
            *above, _ = parents_of(path)
            for parent in above:
                await self._create(self._chroot + parent)
            await self._create(whole, value)
            await self._set(whole, value)

    async def put_ephemeral(self, path: str, value: bytes) -> None:
        """In place of whatever is there: it ends with this session."""
        await self.remove(path)
        await self._port.create(self._chroot + path, value, ephemeral=True)

    async def watch(self, path: str, on_event: OnEvent) -> bool:
        """Whether it is there; `on_event` hears of its next change, on this connection."""
        return await self._port.exists(self._chroot + path, on_event)

    async def remove(self, path: str) -> None:
        """With all below."""
        whole = self._chroot + path
        try:
            for child in await self._port.children(whole):
                await self.remove(f"{path}/{child}")
            await self._port.delete(whole)
        except NoNodeError:
            return

    async def names_below(self, path: str) -> list[str]:
        """So that what was deleted while nobody wrote can be removed."""
        try:
            return await self._port.children(self._chroot + path)
        except NoNodeError:
            return []

    async def _set(self, path: str, value: bytes) -> None:
        node = await self._port.get(path)
        if node is None:
            raise NoNodeError(path)
        if node.value != value:
            await self._port.set(path, value, node.version)

    async def _create(self, path: str, value: bytes = b"") -> None:
        try:
            await self._port.create(path, value)
        except NodeExistsError:
            return
