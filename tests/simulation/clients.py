"""Clients on the simulated network: an idempotent producer that waits for all replicas and repeats until it is told of
success, and a reader. What they were told is compared with the logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.client.settings import Address
from moldau.types.errors import ErrorCode
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.wire.records import iter_batches, iter_records
from tests.simulation.calls import BACKOFF_SECONDS, TOPIC, TROUBLE, ClientProcess, Cluster, id_at

PACE_SECONDS = 0.1
NOISE_SECONDS = 0.4
NOISE = b"noise"
LATEST = -1

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
    )
)


class Answered(NamedTuple):
    """An answer that only who leads may give, and when it was asked for."""

    asked_at: float
    topic: str
    partition: int
    broker_id: int
    what: str


@dataclass(slots=True)
class Told:
    """What clients know: values that were acknowledged, in order, and what stood at which offset when it was read."""

    acknowledged: dict[int, list[bytes]] = field(default_factory=dict)
    offsets: dict[tuple[int, int], bytes] = field(default_factory=dict)
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    read_anywhere: dict[int, int] = field(default_factory=dict)
    answered: list[Answered] = field(default_factory=list)


class Producer:
    def __init__(
        self, process: ClientProcess, bootstrap: Sequence[Address], partitions: int, replicas: int, told: Told
    ) -> None:
        self._process, self._cluster = process, Cluster(process, bootstrap)
        self._partitions, self._replicas, self._told = partitions, replicas, told
        self.is_stopping = False
        self.active = 0
        self.is_started = False
        process.run(self._run())

    async def _run(self) -> None:
        await self._cluster.create_topic(self._partitions, self._replicas)
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
            batch = self._process.batch(
                values, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
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
            asked_at = self._process.scheduler.now
            try:
                answer: ProduceResponse = await self._cluster.call(address, request, ProduceResponse, 12)
            except TROUBLE:
                self._cluster.leaders.pop(index, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            told = answer.responses[0].partition_responses[0]
            if told.error_code == 0:
                return told.base_offset
            if told.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._told.answered.append(
                    Answered(asked_at, TOPIC, index, id_at(address), "refused a sequence number")
                )
            elif told.error_code not in UNKNOWN_OUTCOME:
                code = ErrorCode(told.error_code).name
                self._process.scheduler.problems.append(f"the producer was told {code} for {TOPIC}-{index}")
            self._cluster.leaders.pop(index, None)
            await asyncio.sleep(BACKOFF_SECONDS)


class Noise:
    """Writes that nobody waits for: they make the logs of deposed leaders differ. And questions for the last offset."""

    def __init__(self, process: ClientProcess, bootstrap: Sequence[Address], partitions: int, told: Told) -> None:
        self._process, self._cluster, self._told = process, Cluster(process, bootstrap), told
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
            records = self._process.batch([b"%s-%d" % (NOISE, number)] * rng.randint(1, 4))
            number += 1
            written = PartitionProduceData(index=index, records=bytes(records))
            topic = TopicProduceData(name=TOPIC, partition_data=[written])
            asked_at = self._process.scheduler.now
            try:
                answer: ProduceResponse = await self._cluster.call(
                    address, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), ProduceResponse, 12
                )
                if answer.responses[0].partition_responses[0].error_code:
                    self._cluster.leaders.pop(index, None)
                else:
                    self._told.answered.append(Answered(asked_at, TOPIC, index, id_at(address), "took a write"))
                    await self._ask_for_the_end(index, address)
            except TROUBLE:
                self._cluster.leaders.pop(index, None)
            await asyncio.sleep(rng.random() * NOISE_SECONDS)
        self.active -= 1

    async def _ask_for_the_end(self, index: int, address: Address) -> None:
        asked_at = self._process.scheduler.now
        wanted = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
        answer: ListOffsetsResponse = await self._cluster.call(address, request, ListOffsetsResponse)
        if answer.topics[0].partitions[0].error_code == 0:
            self._told.answered.append(Answered(asked_at, TOPIC, index, id_at(address), "told the last offset"))


class Reader:
    """`anywhere`: it asks any broker that may have a replica, as consumers do that look for one nearby (KIP-392)."""

    def __init__(
        self,
        process: ClientProcess,
        bootstrap: Sequence[Address],
        partitions: int,
        told: Told,
        *,
        anywhere: bool = False,
    ) -> None:
        self._process, self._cluster, self._told = process, Cluster(process, bootstrap), told
        self._anywhere = anywhere
        self._positions = told.read_anywhere if anywhere else told.read
        for index in range(partitions):
            process.run(self._read(index))

    async def _read(self, index: int) -> None:
        offset = 0
        while True:
            self._positions[index] = offset
            address = self._cluster.reads_from(index, anywhere=self._anywhere)
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
