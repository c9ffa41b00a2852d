"""A produce request: each batch gets its own fate, the buffer goes back when all are written, the answer comes when all
are decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metrics import Metrics
from moldau.replication.leader import NO_NEIGHBOURS
from moldau.replication.leases import Lease
from moldau.replication.partition import Partition
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.server.appends import AppendQueue
from moldau.server.connection import AnswerGate
from moldau.server.producing import ALL, WRITE_AT_ONCE_BYTES, PartitionResult, Produce, Producing
from moldau.server.traffic import Traffic
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from tests.fakes.unlimited import Unlimited
from tests.support.logs import NOW, batch, open_log, settings, values_from
from tests.support.terms import term

CONTEXT = RequestContext(ClientIdentity(ANONYMOUS, "PLAINTEXT", "client"), "", ApiKey.PRODUCE, 12, 1)
T_ID, GONE_ID = UUID(int=7), UUID(int=8)
LEASE_SECONDS = 10.0
EPOCH = 3
LATER_MS = 5000


class Request:
    """What became of one."""

    def __init__(self) -> None:
        self.released = 0
        self.answers: list[Produce] = []
        self.size = 1000

    def release(self) -> None:
        self.released += 1

    @property
    def results(self) -> list[PartitionResult]:
        (answer,) = self.answers
        return answer.results


class World:
    """A broker with two partitions of `t` that it leads; batches are written when the test says so."""

    def __init__(self, folder: Path, replicas: tuple[int, ...] = (1,), **config: object) -> None:
        self.now = 0.0
        self.now_ms = NOW
        self.hidden: set[str] = set()
        lease = Lease(LEASE_SECONDS, lambda: self.now, lambda: 0.0)
        neighbours = replace(NO_NEIGHBOURS, lease=lease)
        self.parts = []
        for index in range(2):
            path = folder / str(index)
            path.mkdir()
            one = Partition(TopicPartition("t", index), T_ID, 1, neighbours)
            one.log = open_log(str(path), config=settings(**config))
            one.lead(term(1, epoch=EPOCH, replicas=replicas, isr=replicas))
            self.parts.append(one)
        metrics = self.metrics = Metrics()
        nothing = cast(Any, lambda *_: None)
        self.traffic = Traffic(metrics, self.parts)
        self.appends = AppendQueue(nothing, nothing, nothing, nothing, AnswerGate(), self.traffic.committed)
        self.producing = Producing(lambda: self.now_ms, self.appends, metrics)
        self.partitions = self.authorizer = self
        self.image = SimpleNamespace(topics_by_id={T_ID: SimpleNamespace(name="t")})
        self.quotas = Unlimited()

    def get(self, topic: str, index: int) -> Partition:
        if topic != "t" or index >= len(self.parts):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.parts[index]

    def allows(self, _context: RequestContext, _operation: Operation, _kind: Resource, name: str) -> bool:
        return name not in self.hidden

    def values(self, index: int) -> list[bytes | None]:
        log = self.parts[index].log
        assert log is not None
        return [value for _, value in values_from(log)]

    def counted(self, name: str) -> float:
        return sum(cast(float, value) for metric, value in self.metrics.snapshot() if metric.name == name)

    def request(self, *batches: tuple[UUID | str, int, bytes], acks: int = ALL, timeout_ms: int = 1 << 30) -> Request:
        request = Request()
        produce = Produce(
            cast(Any, self), CONTEXT, cast(Any, request), cast(Any, None), acks, timeout_ms, request.answers.append, 0.0
        )
        for key, index, records in batches:
            produce.append(key, index, cast(Any, memoryview(bytearray(records))))
        produce.staged()
        return request


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def codes(request: Request) -> list[int]:
    return [result.error for result in request.results]


def idempotent(value: bytes, sequence: int) -> bytes:
    return bytes(batch(value, producer_id=9, producer_epoch=0, base_sequence=sequence))


def on_a_loop(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


# -- one broker -------------------------------------------------------------------------------------------------------


def test_nothing_is_answered_before_all_is_written(world: World) -> None:
    request = world.request(("t", 0, batch(b"a")), ("t", 1, batch(b"b")))
    world.appends.flush_partition(world.parts[0])
    assert (request.answers, request.released) == ([], 0)
    world.appends.flush()
    assert (codes(request), request.released) == ([0, 0], 1)
    assert (world.values(0), world.values(1)) == ([b"a"], [b"b"])


def test_what_is_refused_leaves_the_rest_alone(world: World) -> None:
    world.hidden = {"hidden"}
    broken = bytearray(batch(b"x"))
    broken[-1] ^= 1
    request = world.request(
        ("hidden", 0, batch()), ("none", 0, batch()), ("t", 5, batch()), (GONE_ID, 0, batch()),
        ("t", 0, bytes(broken)), (T_ID, 1, batch(b"kept")),
    )  # fmt: skip
    world.appends.flush()
    assert codes(request) == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.CORRUPT_MESSAGE, 0,
    ]  # fmt: skip
    assert all((each.base_offset, each.log_start_offset) == (-1, -1) for each in request.results[:-1])
    assert (world.values(0), world.values(1)) == ([], [b"kept"])
    assert world.counted("FailedProduceRequestsPerSec") == 1, "one request, however many of its batches"
    assert world.counted("TotalProduceRequestsPerSec") == len(request.results)


def test_a_large_batch_is_written_at_once(world: World) -> None:
    small = world.request(("t", 0, batch(b"small")))
    assert world.values(0) == []
    large = world.request(("t", 0, batch(b"x" * WRITE_AT_ONCE_BYTES)))
    assert codes(small) == codes(large) == [0]
    assert len(world.values(0)) == 2


def test_a_batch_that_comes_again_is_told_where_it_stands(world: World) -> None:
    """TXN-01."""
    world.request(("t", 0, batch(b"before")), ("t", 0, idempotent(b"a", 0)))
    world.appends.flush()
    again = world.request(("t", 0, idempotent(b"a", 0)), ("t", 0, idempotent(b"gap", 5)))
    world.appends.flush()
    told = {(each.error, each.base_offset) for each in again.results}
    assert told == {(ErrorCode.NONE, 1), (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)}
    assert world.values(0) == [b"before", b"a"]


def test_where_the_log_says_when_its_records_came(tmp_path: Path) -> None:
    world = World(tmp_path, message_timestamp_type="LogAppendTime")
    world.now_ms += LATER_MS
    request = world.request(("t", 0, batch(b"a")))
    world.appends.flush()
    assert [each.log_append_time_ms for each in request.results] == [NOW + LATER_MS]


# -- several brokers --------------------------------------------------------------------------------------------------


def test_the_answer_waits_for_replicas_but_the_buffer_does_not(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path, replicas=(1, 2))
        request = world.request(("t", 0, batch(b"a")), ("t", 1, batch(b"b")))
        world.appends.flush()
        assert (request.answers, request.released) == ([], 1)
        world.parts[0].fetched_by(2, 1, 0)
        assert request.answers == []
        world.parts[1].fetched_by(2, 1, 0)
        assert codes(request) == [0, 0]

    on_a_loop(scene())


def test_who_asks_for_less_is_answered_when_it_is_written(tmp_path: Path) -> None:
    world = World(tmp_path, replicas=(1, 2))
    request = world.request(("t", 0, batch(b"a")), acks=1)
    assert request.answers == []
    world.appends.flush()
    assert codes(request) == [0]


def test_too_few_in_sync_are_told_before_anything_is_staged(tmp_path: Path) -> None:
    world = World(tmp_path, replicas=(1, 2), min_insync_replicas=2)
    world.parts[0].lead(term(1, epoch=EPOCH, replicas=(1, 2), isr=(1,), partition_epoch=1))
    request = world.request(("t", 0, batch(b"a")))
    (result,) = request.results
    assert (result.error, result.base_offset, result.log_start_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1, 0)
    assert not world.parts[0].staged


def test_when_the_time_is_up_only_what_is_not_replicated_is_refused(tmp_path: Path) -> None:
    """PCF-20."""

    async def scene() -> None:
        world = World(tmp_path, replicas=(1, 2))
        request = world.request(("t", 0, batch(b"a")), ("t", 1, batch(b"b")), timeout_ms=0)
        world.appends.flush()
        world.parts[1].fetched_by(2, 1, 0)
        while not request.answers:  # noqa: ASYNC110  the loop's timer fires in one of its next turns
            await asyncio.sleep(0)
        assert [(each.error, each.base_offset) for each in request.results] == [
            (ErrorCode.REQUEST_TIMED_OUT, -1),
            (0, 0),
        ]
        assert not world.parts[0].produce_waits
        world.parts[0].fetched_by(2, 1, 0)
        assert len(request.answers) == 1, "nobody is answered twice"

    on_a_loop(scene())


def test_another_leader_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, replicas=(1, 2))
    world.parts[0].follow(term(2, epoch=EPOCH + 1, replicas=(1, 2)))
    (result,) = world.request(("t", 0, batch(b"a"))).results
    assert (result.error, result.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, EPOCH + 1))


class TestWithoutALease:
    """A leader that may have been deposed promises nothing that no follower confirms, and blames no producer."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return World(tmp_path, replicas=(1, 2))

    def test_writes_that_nobody_else_confirms_are_refused(self, world: World) -> None:
        world.now = LEASE_SECONDS + 1
        assert codes(world.request(("t", 0, batch(b"a")), acks=1)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert not world.parts[0].staged

    def test_and_so_are_those_that_were_staged_before(self, world: World) -> None:
        request = world.request(("t", 0, batch(b"a")), acks=1)
        world.now = LEASE_SECONDS + 1
        world.appends.flush()
        assert (codes(request), request.released) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], 1)

    def test_a_gap_in_a_producers_numbers_may_be_filled_elsewhere(self, world: World) -> None:
        world.request(("t", 0, idempotent(b"a", 0)), acks=1)
        world.appends.flush()
        assert codes(world.request(("t", 0, idempotent(b"c", 2)))) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        world.now = LEASE_SECONDS + 1
        assert codes(world.request(("t", 0, idempotent(b"c", 2)))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
