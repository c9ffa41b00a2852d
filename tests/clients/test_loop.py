"""No request and no duty holds the event loop for long, however many partitions it is about.

Counted in lines of Python per callback (tests/support/loop_watch.py), not in time. What is done in slices stays far
below the bound whatever the number of partitions; what goes over all of them at once is far above it.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moldau.config.broker import BrokerConfig
from moldau.server import node as node_module
from moldau.server.handlers import list_offsets
from moldau.server.handlers.catalogue import APIS
from moldau.server.node import BrokerNode
from moldau.wire import messages
from moldau.wire.apis import CLASSES, ApiKey
from moldau.wire.codec import decode, encode
from moldau.wire.framing import response_has_tags
from moldau.wire.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_groups,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)
from moldau.wire.messages import list_offsets as list_offsets_messages
from moldau.wire.records import Record, build_batch
from moldau.wire.schema import Message
from moldau.work.slices import at_once
from tests.support.compacted import UnsyncedFiles
from tests.support.loop_watch import LoopWatch, watch_loop

PARTITIONS = 2000
TOPICS = 100
GROUPS = 300
#: A few milliseconds. Slices take less; a handler that did with all partitions at once what it does with one of them
#: takes several times as much.
MOST_LINES = 12_000
SECONDS = 150.0


class Client:
    """A blocking client for a thread beside the loop: any request at its highest version."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)

    def call(self, request: Message, version: int | None = None) -> Any:
        key = request.API_KEY
        version = APIS[key].last if version is None else version
        flexible = version >= request.FLEXIBLE_FROM
        body = struct.pack(">hhih", key, version, 7, 4) + b"test" + (b"\0" if flexible else b"")
        body += encode(request, version)
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        answer = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        module, _, name = CLASSES[key]
        cls = getattr(importlib.import_module(f"{messages.__name__}.{module}"), name)
        return decode(cls, version, answer, 5 if response_has_tags(key, flexible) else 4)[0]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(1 << 20, size - len(data)))
            if not piece:
                raise ConnectionError("closed instead of an answer")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


@dataclass(slots=True)
class Busy:
    """A broker on this loop, a client in a thread, and the lines that the broker's callbacks take."""

    node: BrokerNode
    client: Client
    watch: LoopWatch

    async def ask(self, request: Message, version: int | None = None) -> Any:
        return await asyncio.to_thread(self.client.call, request, version)

    async def check(self, request: Message, version: int | None = None) -> Any:
        """Twice: the first time also pays for what is made once, as the codec of a message."""
        await self.ask(request, version)
        self.watch.reset()
        answer = await self.ask(request, version)
        self.must_be_brief(type(request).__name__)
        return answer

    def must_be_brief(self, what: str) -> None:
        assert self.watch.worst <= MOST_LINES, f"{what}: {self.watch.worst} lines in one go: {self.watch.where}"
        self.watch.reset()


@asynccontextmanager
async def busy_broker(tmp_path: Path, watch: LoopWatch) -> AsyncIterator[Busy]:
    config = BrokerConfig.load({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    node = BrokerNode(config)
    ready = await node.start()
    client = await asyncio.to_thread(Client, int(ready.split(" in ")[0].rsplit(":", 1)[1]))
    try:
        yield Busy(node, client, watch)
    finally:
        client.close()
        await node.stop()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> LoopWatch:
    monkeypatch.setattr(node_module, "OsFiles", UnsyncedFiles)
    return watch_loop(monkeypatch)


def no_errors(answer: Any) -> None:
    assert not any(topic.error_code for topic in getattr(answer, "topics", ()) or getattr(answer, "responses", ()))


async def create(busy: Busy, topics: dict[str, int]) -> Any:
    wanted = [
        create_topics.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics.items()
    ]
    answer = await busy.ask(create_topics.CreateTopicsRequest(topics=wanted, timeout_ms=1000))
    no_errors(answer)
    return answer


def questions(many: UUID) -> Iterator[tuple[Message, int | None]]:
    """What is asked about all partitions, at the newest version and, where answers are packed otherwise, at an old
    one."""
    everything = range(PARTITIONS)
    yield metadata.MetadataRequest(topics=None), None
    yield metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True), 8
    yield metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="many")]), 1
    topics = [describe_topic_partitions.TopicRequest(name="many")]
    yield describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics), None
    wanted = [list_offsets_messages.ListOffsetsPartition(partition_index=at, timestamp=-1) for at in everything]
    offsets_topic = list_offsets_messages.ListOffsetsTopic(name="many", partitions=wanted)
    yield list_offsets_messages.ListOffsetsRequest(topics=[offsets_topic]), None
    ends = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=at) for at in everything]
    epoch_topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="many", partitions=ends)
    yield offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[epoch_topic]), None
    producers = describe_producers.TopicRequest(name="many", partition_indexes=list(everything))
    yield describe_producers.DescribeProducersRequest(topics=[producers]), None
    yield describe_log_dirs.DescribeLogDirsRequest(topics=None), None
    removed = [delete_records.DeleteRecordsPartition(partition_index=at, offset=0) for at in everything]
    records_topic = delete_records.DeleteRecordsTopic(name="many", partitions=removed)
    yield delete_records.DeleteRecordsRequest(topics=[records_topic], timeout_ms=1000), None
    resources = [
        describe_configs.DescribeConfigsResource(resource_type=2, resource_name=f"t{at}", configuration_keys=None)
        for at in range(TOPICS)
    ]
    yield describe_configs.DescribeConfigsRequest(resources=resources, include_documentation=True), None


def fetches(many: UUID) -> Iterator[fetch.FetchRequest]:
    partitions = [fetch.FetchPartition(partition=at, partition_max_bytes=1 << 20) for at in range(PARTITIONS)]
    topic = fetch.FetchTopic(topic_id=many, partitions=partitions)
    # Without a session, one that waits in vain, and one that opens a session.
    for session_epoch, max_wait_ms, min_bytes in ((-1, 0, 1), (-1, 20, 1 << 30), (0, 0, 1)):
        yield fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            session_epoch=session_epoch,
            topics=[topic],
        )


def written(many: UUID, value: bytes) -> produce.ProduceRequest:
    batch = build_batch([Record(value=value, timestamp=1)])
    partitions = [produce.PartitionProduceData(index=at, records=batch) for at in range(PARTITIONS)]
    topic = produce.TopicProduceData(topic_id=many, partition_data=partitions)
    return produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


@pytest.mark.timeout(600)
def test_requests_about_thousands_of_partitions_let_others_be_served(tmp_path: Path, watch: LoopWatch) -> None:
    async def scenario() -> None:
        async with busy_broker(tmp_path, watch) as busy:
            await create(busy, {"warm": 200})
            await create(busy, {f"warm{at}": 1 for at in range(40)})
            watch.reset()
            many = (await create(busy, {"many": PARTITIONS})).topics[0].topic_id
            busy.must_be_brief("CreateTopics of one large topic")
            await create(busy, {f"t{at}": 1 for at in range(TOPICS)})
            busy.must_be_brief("CreateTopics of many topics")
            for request, version in questions(many):
                await busy.check(request, version)
            for request in fetches(many):
                await busy.check(request)
            answer = await busy.check(written(many, b"x"))
            assert not any(each.error_code for each in answer.responses[0].partition_responses)
            more = [create_partitions.CreatePartitionsTopic(name="warm", count=1500, assignments=None)]
            await busy.ask(create_partitions.CreatePartitionsRequest(topics=more, timeout_ms=1000))
            busy.must_be_brief("CreatePartitions")
            await check_settings(busy)
            await check_duties(busy)
            gone = [delete_topics.DeleteTopicState(name=name) for name in ("many", *(f"t{at}" for at in range(TOPICS)))]
            await busy.ask(delete_topics.DeleteTopicsRequest(topics=gone, timeout_ms=1000))
            busy.must_be_brief("DeleteTopics")

    asyncio.run(scenario())


async def check_settings(busy: Busy) -> None:
    def change(kind: int, name: str, setting: str, value: str) -> incremental_alter_configs.AlterConfigsResource:
        config = incremental_alter_configs.AlterableConfig(name=setting, config_operation=0, value=value)
        return incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])

    topics = ["many", *(f"t{at}" for at in range(TOPICS))]
    resources = [change(2, name, "retention.ms", "86400000") for name in topics]
    for wanted in (resources, [change(4, "", "log.retention.ms", "86400001")]):
        busy.watch.reset()
        answer = await busy.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=wanted))
        no_errors(answer)
        busy.must_be_brief("IncrementalAlterConfigs")


async def check_duties(busy: Busy) -> None:
    logs = busy.node.core.logs
    now_ms = node_module.wall_ms()
    duties: list[Callable[[], Awaitable[object]]] = [
        lambda: logs.retaining.run(now_ms),
        lambda: logs.removal.run_due(now_ms),
        lambda: logs.flushes.flush_due(now_ms),
        lambda: logs.expire_producers(now_ms),
        logs.checkpoints.write_recovery_points,
        logs.checkpoints.write_start_offsets,
        logs.checkpoints.write_high_watermarks,
    ]
    for duty in duties:
        busy.watch.reset()
        await asyncio.ensure_future(duty())
        busy.must_be_brief("a duty")


@pytest.mark.timeout(600)
def test_requests_about_thousands_of_offsets_and_groups_let_others_be_served(tmp_path: Path, watch: LoopWatch) -> None:
    async def scenario() -> None:
        async with busy_broker(tmp_path, watch) as busy:
            await create(busy, {"many": PARTITIONS, "others": PARTITIONS})
            await busy.ask(find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            many = busy.node.core.images.image.topics["many"].id
            await busy.check(committing("g", many, range(PARTITIONS)))
            await commit_in_a_transaction(busy, "others")
            for topics in (None, [offset_fetch.OffsetFetchRequestTopics(name="many", topic_id=many)]):
                if topics is not None:
                    topics[0].partition_indexes = list(range(PARTITIONS))
                group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=topics)
                answer = await busy.check(offset_fetch.OffsetFetchRequest(groups=[group]))
                found = answer.groups[0].topics[0].partitions
                assert [each.committed_offset for each in found] == [5] * PARTITIONS
            groups = [f"group-{at}" for at in range(GROUPS)]
            for name in groups:
                await busy.ask(committing(name, many, range(1)))
            listed = await busy.check(list_groups.ListGroupsRequest())
            assert len(listed.groups) == GROUPS + 2
            await busy.check(describe_groups.DescribeGroupsRequest(groups=groups), 5)
            busy.watch.reset()
            gone = [delete_topics.DeleteTopicState(name="many")]
            await busy.ask(delete_topics.DeleteTopicsRequest(topics=gone, timeout_ms=1000))
            busy.must_be_brief("DeleteTopics, and what was committed for them")

    asyncio.run(scenario())


def committing(group: str, topic_id: UUID, partitions: range) -> offset_commit.OffsetCommitRequest:
    offsets = [
        offset_commit.OffsetCommitRequestPartition(partition_index=at, committed_offset=5, committed_metadata="")
        for at in partitions
    ]
    topic = offset_commit.OffsetCommitRequestTopic(topic_id=topic_id, partitions=offsets)
    return offset_commit.OffsetCommitRequest(group_id=group, topics=[topic])


async def commit_in_a_transaction(busy: Busy, topic: str) -> None:
    await busy.ask(find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]))
    begin = init_producer_id.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    owner = await busy.ask(begin)
    offsets = [
        txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=at, committed_offset=5, committed_metadata="")
        for at in range(PARTITIONS)
    ]
    request = txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="another",
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=topic, partitions=offsets)],
    )
    answer = await busy.check(request)
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


@pytest.mark.timeout(600)
def test_a_handler_that_does_all_at_once_is_noticed(
    tmp_path: Path, watch: LoopWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard itself: ListOffsets as somebody might write it."""

    def handle(*arguments: Any) -> Any:
        return at_once(list_offsets.respond(*arguments))

    async def scenario() -> None:
        async with busy_broker(tmp_path, watch) as busy:
            many = (await create(busy, {"many": PARTITIONS})).topics[0].topic_id
            request = next(
                request
                for request, _ in questions(many)
                if isinstance(request, list_offsets_messages.ListOffsetsRequest)
            )
            await busy.check(request)
            monkeypatch.setitem(APIS, ApiKey.LIST_OFFSETS, replace(list_offsets.API, handle=handle))
            with pytest.raises(AssertionError, match="in one go"):
                await busy.check(request)

    asyncio.run(scenario())
