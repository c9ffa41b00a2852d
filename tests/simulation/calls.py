"""What all simulated clients have: a process with a loop of its own, and connections to the brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from moldau.client.core import ClientCore, Introduction
from moldau.client.errors import ClientError
from moldau.client.settings import Address
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.peer import PeerLostError
from moldau.types.errors import ErrorCode
from moldau.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.records import Record, build_batch
from moldau.wire.schema import Message
from tests.simulation.network import Network
from tests.simulation.scheduler import WALL_MS, NodeLoop, Scheduler

TOPIC = "t"
CALL_SECONDS = 3.0
BACKOFF_SECONDS = 0.05
GROUP, TRANSACTION = 0, 1
TROUBLE = (PeerLostError, ClientError, OSError, TimeoutError)


class ClientProcess:
    """One machine of many: clients are never killed, so that all of them can share a loop."""

    def __init__(self, scheduler: Scheduler, network: Network, name: str, loop: NodeLoop) -> None:
        self.name, self.is_up = name, True
        self.loop = loop
        self.network, self.scheduler = network, scheduler

    def batch(self, values: Sequence[bytes], **stamps: Any) -> bytes:
        now_ms = WALL_MS + int(self.scheduler.now * 1000)
        return build_batch([Record(key=None, value=value, timestamp=now_ms) for value in values], **stamps)

    def run(self, work: Any) -> None:
        self.loop.call(lambda: self.loop.create_task(work))


class Cluster:
    """One client's way to the brokers: a connection to each, made when it is needed."""

    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address], topic: str = TOPIC) -> None:
        self._process, self.topic = process, topic
        self._bootstrap = tuple(bootstrap)
        self._connections: dict[Address, PeerConnection] = {}
        self.leaders: dict[int, Address] = {}
        self.topic_id = UUID(int=0)

    async def call(self, address: Address, request: Message, answer_class: Any, max_version: int | None = None) -> Any:
        async with asyncio.timeout(CALL_SECONDS):
            connection = self._connections.get(address)
            if connection is None or connection.lost is not None:
                connection = await self._open(address)
            try:
                return await connection.call(request, answer_class, max_version)
            except asyncio.CancelledError:
                connection.end("timed out")
                raise

    async def _open(self, address: Address) -> PeerConnection:
        connection = PeerConnection(ClientCore(address, Introduction(self._process.name)), lambda _: None)
        try:
            await self._process.network.dial(self._process, address, connection, None)
            await asyncio.sleep(0)
            opening = connection.core.opening(bytes)
            try:
                step = next(opening)
                while True:
                    step = opening.send(await connection.send(*step))
            except StopIteration:
                self._connections[address] = connection
                return connection
        except BaseException:
            connection.end("given up")
            raise

    async def ask_any(self, request: Message, answer_class: Any) -> Any:
        """Repeats until some broker answers."""
        while True:
            address = self._process.scheduler.rng.choice(self._bootstrap)
            try:
                return await self.call(address, request, answer_class)
            except TROUBLE:
                await asyncio.sleep(BACKOFF_SECONDS)

    async def coordinator(self, kind: int, key: str) -> Address:
        """Repeats until some broker knows it."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while True:
            answer: FindCoordinatorResponse = await self.ask_any(request, FindCoordinatorResponse)
            found = answer.coordinators[0]
            if found.error_code == 0:
                return Address(found.host, found.port)
            await asyncio.sleep(BACKOFF_SECONDS)

    def reads_from(self, index: int, *, anywhere: bool) -> Address | None:
        """Whom to ask for records: the leader, or any broker, which may have none. None where nothing is known."""
        leader = self.leaders.get(index)
        return self._process.scheduler.rng.choice(self._bootstrap) if anywhere and leader is not None else leader

    async def refresh(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        answer: MetadataResponse = await self.ask_any(request, MetadataResponse)
        addresses = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error_code == 0:
                self.topic_id = topic.topic_id
                self.leaders = {
                    each.partition_index: addresses[each.leader_id]
                    for each in topic.partitions
                    if each.leader_id in addresses
                }

    async def create_topic(self, partitions: int, replicas: int) -> None:
        wanted = CreatableTopic(name=self.topic, num_partitions=partitions, replication_factor=replicas)
        if replicas < len(self._bootstrap):
            wanted.num_partitions = wanted.replication_factor = -1
            wanted.assignments = await self._away_from_the_controller(partitions, replicas)
        while True:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=2000)
            answer: CreateTopicsResponse = await self.ask_any(request, CreateTopicsResponse)
            if answer.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await asyncio.sleep(BACKOFF_SECONDS)

    async def _away_from_the_controller(self, partitions: int, replicas: int) -> list[CreatableReplicaAssignment]:
        answer: MetadataResponse = await self.ask_any(MetadataRequest(topics=[]), MetadataResponse)
        brokers = sorted((each.node_id for each in answer.brokers), key=lambda each: each == answer.controller_id)
        return [
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers[:replicas][:: 1 - 2 * (index % 2)])
            for index in range(partitions)
        ]


def id_at(address: Address) -> int:
    return int(address.host.removeprefix("b"))
