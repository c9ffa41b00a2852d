"""Somebody who changes the cluster while it is broken: what he asks for may fail, and must do no harm.

He asks any broker, makes, grows and drops a topic of his own, and moves replicas and leaders of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moldau.client.settings import Address
from moldau.metadata.image import ClusterImage, PartitionImage
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from moldau.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.simulation.calls import TOPIC, TROUBLE, ClientProcess, Cluster

if TYPE_CHECKING:
    from tests.simulation.world import World

PREFERRED, UNCLEAN = 0, 1
BROKER = 4
SIDE = "side"
PATIENCE_MS = 1000
WRITE_SECONDS = 0.3


class Admin:
    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address], world: World) -> None:
        self._process, self._cluster, self._world = process, Cluster(process, bootstrap), world
        self._bootstrap = bootstrap
        self._writer: SideWriter | None = None

    def move_leader(self, index: int, broker_id: int) -> None:
        self._process.run(self._quietly(self._move_leader(index, broker_id)))

    def run(self, errand: str, broker_id: int) -> None:
        self._process.run(self._quietly((ERRANDS | OF_COURSES)[errand](self, broker_id)))

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TROUBLE:
            self._process.scheduler.note("admin", "gave up")

    def _image(self) -> ClusterImage | None:
        image = self._world.promises.newest_image()
        return image if image is not None and TOPIC in image.topics else None

    def _anybody(self) -> Address:
        return self._process.scheduler.rng.choice(self._bootstrap)

    def _any_partition(self, image: ClusterImage) -> tuple[str, int, PartitionImage]:
        rng = self._process.scheduler.rng
        topic = image.topics[rng.choice(sorted(image.topics))]
        index = rng.randrange(len(topic.partitions))
        return topic.name, index, topic.partitions[index]

    # --- leaders ---

    async def _move_leader(self, index: int, broker_id: int) -> None:
        """Puts it at the head of the replicas, and asks for the preferred leader."""
        image = self._image()
        if image is None or image.controller is None or image.controller.id not in self._world.machines:
            return
        replicas = image.topics[TOPIC].partitions[index].replicas
        if broker_id not in replicas:
            return
        ordered = [broker_id, *(each for each in replicas if each != broker_id)]
        address = self._world.machines[image.controller.id].address
        await self._reassign(address, TOPIC, index, ordered)
        await self._elect(address, PREFERRED, [TopicPartitions(topic=TOPIC, partitions=[index])])

    async def _reassign(self, address: Address, topic: str, index: int, replicas: Sequence[int] | None) -> None:
        wanted = ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=PATIENCE_MS, topics=[ReassignableTopic(name=topic, partitions=[wanted])]
        )
        await self._cluster.call(address, request, AlterPartitionReassignmentsResponse)

    async def _elect(self, address: Address, kind: int, places: list[TopicPartitions] | None) -> None:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=places, timeout_ms=PATIENCE_MS)
        await self._cluster.call(address, request, ElectLeadersResponse)

    async def elect_preferred(self, _: int) -> None:
        await self._elect(self._anybody(), PREFERRED, None)

    async def elect_unclean(self, _: int) -> None:
        """Only where nothing is promised."""
        image = self._image()
        if image is not None and SIDE in image.topics:
            self._world.promises.elected_uncleanly.add(SIDE)
            places = list(range(len(image.topics[SIDE].partitions)))
            await self._elect(self._anybody(), UNCLEAN, [TopicPartitions(topic=SIDE, partitions=places)])

    # --- replicas ---

    async def reassign(self, broker_id: int) -> None:
        """Takes a replica away from a broker, or gives it one."""
        image = self._image()
        if image is None:
            return
        topic, index, state = self._any_partition(image)
        others = [each for each in state.replicas if each != broker_id]
        wanted = others if len(others) >= 2 else [*others, broker_id]
        await self._reassign(self._anybody(), topic, index, wanted)

    async def reassign_back(self, _: int) -> None:
        """All replicas everywhere, in any order."""
        image, rng = self._image(), self._process.scheduler.rng
        if image is not None:
            topic, index, _ = self._any_partition(image)
            await self._reassign(self._anybody(), topic, index, rng.sample(sorted(image.brokers), len(image.brokers)))

    async def narrow(self, broker_id: int) -> None:
        """Leaves the topic's first partition with one replica, and the others as they are."""
        await self._reassign(self._anybody(), TOPIC, 0, [broker_id])

    async def widen(self, broker_id: int) -> None:
        others = [each for each in sorted(self._world.machines) if each != broker_id]
        await self._reassign(self._anybody(), TOPIC, 0, [broker_id, *others])

    async def change_fetchers(self, _: int) -> None:
        """By how many connections a broker follows another one."""
        count = self._process.scheduler.rng.randint(1, 3)
        change = AlterableConfig(name="num.replica.fetchers", value=str(count))
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        await self._cluster.call(self._anybody(), request, IncrementalAlterConfigsResponse)

    async def cancel(self, _: int) -> None:
        image = self._image()
        for name, topic in () if image is None else sorted(image.topics.items()):
            for index, state in enumerate(topic.partitions):
                if state.adding or state.removing:
                    await self._reassign(self._anybody(), name, index, None)

    # --- a topic of his own ---

    async def make_topic(self, _: int) -> None:
        rng = self._process.scheduler.rng
        is_unclean = "true" if rng.random() < 0.5 else "false"
        await self._make(rng.randint(1, 2), rng.randint(2, 3), {"unclean.leader.election.enable": is_unclean})

    async def make_loose_topic(self, _: int) -> None:
        """One replica alone may take what is written to it, and lose it."""
        await self._make(4, len(self._world.machines), {"min.insync.replicas": "1"})

    async def _make(self, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
        wanted = CreatableTopic(name=SIDE, num_partitions=partitions, replication_factor=replicas, configs=configs)
        if self._writer is None:
            self._writer = SideWriter(self._process, Cluster(self._process, self._bootstrap, SIDE))
            self._world.writers.append(self._writer)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=PATIENCE_MS)
        await self._cluster.call(self._anybody(), request, CreateTopicsResponse)

    async def drop_topic(self, _: int) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=SIDE)], timeout_ms=PATIENCE_MS)
        await self._cluster.call(self._anybody(), request, DeleteTopicsResponse)

    async def make_topic_again(self, broker_id: int) -> None:
        await self.drop_topic(broker_id)
        await self.make_topic(broker_id)

    async def grow_topic(self, _: int) -> None:
        image = self._image()
        if image is not None and SIDE in image.topics:
            count = len(image.topics[SIDE].partitions) + 1
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=SIDE, count=count, assignments=None)], timeout_ms=PATIENCE_MS
            )
            await self._cluster.call(self._anybody(), request, CreatePartitionsResponse)

    async def delete_records(self, _: int) -> None:
        image = self._image()
        if image is None or SIDE not in image.topics:
            return
        await self._cluster.refresh()
        leader = image.topics[SIDE].partitions[0].leader
        if leader in self._world.machines:
            up_to_the_mark = DeleteRecordsPartition(partition_index=0, offset=-1)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=SIDE, partitions=[up_to_the_mark])], timeout_ms=PATIENCE_MS
            )
            await self._cluster.call(self._world.machines[leader].address, request, DeleteRecordsResponse)


ERRANDS: dict[str, Callable[[Admin, int], Coroutine[Any, Any, None]]] = {
    "elect preferred": Admin.elect_preferred,
    "elect unclean": Admin.elect_unclean,
    "reassign": Admin.reassign,
    "reassign back": Admin.reassign_back,
    "cancel": Admin.cancel,
    "make topic": Admin.make_topic,
    "drop topic": Admin.drop_topic,
    "make topic again": Admin.make_topic_again,
    "grow topic": Admin.grow_topic,
    "delete records": Admin.delete_records,
}
#: What only some courses of events ask for.
OF_COURSES: dict[str, Callable[[Admin, int], Coroutine[Any, Any, None]]] = {
    "narrow": Admin.narrow,
    "widen": Admin.widen,
    "change fetchers": Admin.change_fetchers,
    "make loose topic": Admin.make_loose_topic,
}


class SideWriter:
    """Writes to the topic that comes and goes, with any acks, and does not ask what became of it."""

    def __init__(self, process: ClientProcess, cluster: Cluster) -> None:
        self._process, self._cluster = process, cluster
        self.is_stopping = False
        self.active = 1
        asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        rng, number = self._process.scheduler.rng, 0
        while not self.is_stopping:
            if not self._cluster.leaders:
                await self._cluster.refresh()
            for index, address in sorted(self._cluster.leaders.items()):
                number += 1
                await self._write(index, address, number, rng.choice((1, -1)))
            await asyncio.sleep(WRITE_SECONDS * rng.random())
        self.active -= 1

    async def _write(self, index: int, address: Address, number: int, acks: int) -> None:
        written = PartitionProduceData(index=index, records=bytes(self._process.batch([b"side-%d" % number])))
        topic = TopicProduceData(name=SIDE, partition_data=[written])
        request = ProduceRequest(acks=acks, timeout_ms=PATIENCE_MS, topic_data=[topic])
        try:
            answer: ProduceResponse = await self._cluster.call(address, request, ProduceResponse, 12)
        except TROUBLE:
            self._cluster.leaders.clear()
            return
        if answer.responses[0].partition_responses[0].error_code:
            self._cluster.leaders.clear()
