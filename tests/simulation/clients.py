"""Clients on the simulated network: an idempotent producer that waits for all replicas and repeats until it is told of
success, and a reader. What they were told is compared with the logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from moldau.client.core import ClientCore, Introduction
from moldau.client.errors import ClientError
from moldau.client.settings import Address
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.peer import PeerLostError
from moldau.types.errors import ErrorCode
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.wire.records import Record, build_batch, iter_batches, iter_records
from moldau.wire.schema import Message
from tests.simulation.network import Network
from tests.simulation.scheduler import NodeLoop, Scheduler

TOPIC = "t"
REPLICAS = 3
CALL_SECONDS = 3.0
BACKOFF_SECONDS = 0.05
PACE_SECONDS = 0.1
NOISE_SECONDS = 0.4
NOISE = b"noise"
TROUBLE = (PeerLostError, ClientError, OSError, TimeoutError)

#: A producer that may repeat its batches has to expect these.
UNKNOWN_OUTCOME = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # Said by a deposed leader that cannot know that it is one, of what another has acknowledged meanwhile. A leader
        # that had really lost something would say it for ever, and the end of the run would tell.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)


class ClientProcess:
    def __init__(self, scheduler: Scheduler, network: Network, name: str) -> None:
        self.name, self.is_up = name, True
        self.loop = NodeLoop(scheduler, name)
        self.network, self.scheduler = network, scheduler

    def run(self, work: Any) -> None:
        self.loop.call(lambda: self.loop.create_task(work))


class Cluster:
    """One client's way to the brokers: a connection to each, made when it is needed."""

    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address]) -> None:
        self._process = process
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

    async def refresh(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
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

    async def create_topic(self, partitions: int) -> None:
        # Records carry virtual times, which begin at 0: retention would take them for old.
        for_ever = [CreatableTopicConfig(name="retention.ms", value="-1")]
        wanted = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=REPLICAS, configs=for_ever)
        while True:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=2000)
            answer: CreateTopicsResponse = await self.ask_any(request, CreateTopicsResponse)
            if answer.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await asyncio.sleep(BACKOFF_SECONDS)


@dataclass(slots=True)
class Told:
    """What clients know: values that were acknowledged, in order, and what stood at which offset when it was read."""

    acknowledged: dict[int, list[bytes]] = field(default_factory=dict)
    offsets: dict[tuple[int, int], bytes] = field(default_factory=dict)
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)


class Producer:
    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address], partitions: int, told: Told) -> None:
        self._process, self._cluster = process, Cluster(process, bootstrap)
        self._partitions, self._told = partitions, told
        self.is_stopping = False
        self.active = 0
        self.is_started = False
        process.run(self._run())

    async def _run(self) -> None:
        await self._cluster.create_topic(self._partitions)
        while True:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer: InitProducerIdResponse = await self._cluster.ask_any(request, InitProducerIdResponse)
            if answer.error_code == 0:
                break
            await asyncio.sleep(BACKOFF_SECONDS)
        self.is_started = True
        for index in range(self._partitions):
            self.active += 1
            asyncio.get_running_loop().create_task(self._produce(index, answer.producer_id, answer.producer_epoch))

    async def _produce(self, index: int, producer_id: int, producer_epoch: int) -> None:
        rng, sequence = self._process.scheduler.rng, 0
        acknowledged = self._told.acknowledged.setdefault(index, [])
        sent = self._told.sent.setdefault(index, [])
        while not self.is_stopping:
            values = [b"%d-%d" % (index, sequence + number) for number in range(rng.randint(1, 3))]
            now_ms = int(self._process.scheduler.now * 1000)
            batch = build_batch(
                [Record(key=None, value=value, timestamp=now_ms) for value in values],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
            )
            sent += values
            offset = await self._until_acknowledged(index, bytes(batch))
            self._process.scheduler.note("acknowledged", index, sequence, offset)
            acknowledged += values
            for number, value in enumerate(values):
                self._told.offsets[index, offset + number] = value
            sequence += len(values)
            await asyncio.sleep(rng.random() * PACE_SECONDS)
        self.active -= 1

    async def _until_acknowledged(self, index: int, batch: bytes) -> int:
        while True:
            address = self._cluster.leaders.get(index)
            if address is None:
                await self._cluster.refresh()
                if index not in self._cluster.leaders:
                    await asyncio.sleep(BACKOFF_SECONDS)
                continue
            request = ProduceRequest(
                acks=-1,
                timeout_ms=2000,
                topic_data=[
                    TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=index, records=batch)])
                ],
            )
            try:
                answer: ProduceResponse = await self._cluster.call(address, request, ProduceResponse, 12)
            except TROUBLE:
                self._cluster.leaders.pop(index, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            told = answer.responses[0].partition_responses[0]
            if told.error_code == 0:
                return told.base_offset
            if told.error_code not in UNKNOWN_OUTCOME:
                code = ErrorCode(told.error_code).name
                self._process.scheduler.problems.append(f"the producer was told {code} for {TOPIC}-{index}")
            self._cluster.leaders.pop(index, None)
            await asyncio.sleep(BACKOFF_SECONDS)


class Noise:
    """Writes that nobody waits for: they make the logs of deposed leaders differ."""

    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address], partitions: int) -> None:
        self._process, self._cluster = process, Cluster(process, bootstrap)
        self.is_stopping = False
        self.active = partitions
        for index in range(partitions):
            process.run(self._write(index))

    async def _write(self, index: int) -> None:
        rng, number = self._process.scheduler.rng, 0
        while not self.is_stopping:
            address = self._cluster.leaders.get(index)
            if address is None:
                await self._cluster.refresh()
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            records = [Record(key=None, value=b"%s-%d" % (NOISE, number)) for _ in range(rng.randint(1, 4))]
            number += 1
            written = PartitionProduceData(index=index, records=bytes(build_batch(records)))
            topic = TopicProduceData(name=TOPIC, partition_data=[written])
            try:
                answer: ProduceResponse = await self._cluster.call(
                    address, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), ProduceResponse, 12
                )
                if answer.responses[0].partition_responses[0].error_code:
                    self._cluster.leaders.pop(index, None)
            except TROUBLE:
                self._cluster.leaders.pop(index, None)
            await asyncio.sleep(rng.random() * NOISE_SECONDS)
        self.active -= 1


class Reader:
    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address], partitions: int, told: Told) -> None:
        self._process, self._cluster, self._told = process, Cluster(process, bootstrap), told
        for index in range(partitions):
            process.run(self._read(index))

    async def _read(self, index: int) -> None:
        offset = 0
        while True:
            self._told.read[index] = offset
            address = self._cluster.leaders.get(index)
            if address is None:
                await self._cluster.refresh()
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 16)
            request = FetchRequest(
                max_wait_ms=200,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[FetchTopic(topic=TOPIC, topic_id=self._cluster.topic_id, partitions=[wanted])],
            )
            try:
                answer: FetchResponse = await self._cluster.call(address, request, FetchResponse, 12)
            except TROUBLE:
                self._cluster.leaders.pop(index, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            data = answer.responses[0].partitions[0]
            if data.error_code:
                self._cluster.leaders.pop(index, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            offset = self._take(index, offset, bytes(data.records or b""))

    def _take(self, index: int, offset: int, records: bytes) -> int:
        """A record that was read is there for good."""
        for batch in iter_batches(records):
            for record in iter_records(batch):
                if record.offset >= offset:
                    known = self._told.offsets.setdefault((index, record.offset), record.value or b"")
                    if known != record.value:
                        self._process.scheduler.problems.append(
                            f"{TOPIC}-{index} offset {record.offset} was {known!r} and reads {record.value!r}"
                        )
                    if record.offset != offset:
                        self._process.scheduler.problems.append(f"{TOPIC}-{index}: the reader skipped {offset}")
                    offset = record.offset + 1
        return offset
