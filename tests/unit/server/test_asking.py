"""Questions about transactions reach their coordinator, wherever it is: batched, one request under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.sharding import partition_for
from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage
from moldau.server.coordination.asking import CoordinatorQuestions
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.codec import decode, encode
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from moldau.wire.schema import Message
from tests.support.loops import on_loop, until

STATE = "__transaction_state"
PRODUCER = ProducerIdentity(7, 3)
HERE, THERE = (next(key for key in map(str, range(99)) if partition_for(key, 2) == shard) for shard in (0, 1))
OTHERS = [key for key in map(str, range(99)) if partition_for(key, 2) == 1][1:4]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Scene:
    """Broker 1 asks; shard 0 of the coordinators' topic is its own, shard 1 is broker 2's."""

    def __init__(self, *leaders: int) -> None:
        partitions = tuple(PartitionImage((1, 2), (1, 2), leader, 1, 1) for leader in leaders or (1, 2))
        self.image = replace(EMPTY_IMAGE, topics=MappingProxyType({STATE: TopicImage(STATE, UUID(int=1), partitions)}))
        self.local: list[tuple[str, Collection[TopicPartition], int | None]] = []
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.code: Callable[[str, TopicPartition], ErrorCode] = lambda *_: ErrorCode.NONE
        self.whole = ErrorCode.NONE
        self.gate = asyncio.Event()
        self.gate.set()
        self.questions = CoordinatorQuestions(1, STATE, self, lambda: self.image, cast(Any, self))

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], version: int
    ) -> None:
        self.local.append((transactional_id, partitions, version))

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self.local.append((transactional_id, partitions, None))
        return dict.fromkeys(partitions, ErrorCode.TRANSACTION_ABORTABLE)

    def get(self, broker_id: int) -> Scene:
        assert broker_id == 2
        return self

    async def call(self, request: Message, answer_class: type, lane: Lane = Lane.CONTROL, **_: Any) -> Message:
        asked, _rest = decode(AddPartitionsToTxnRequest, 5, encode(request, 5))
        self.requests.append(asked)
        await self.gate.wait()
        return AddPartitionsToTxnResponse(
            error_code=self.whole,
            results_by_transaction=[]
            if self.whole
            else [
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.code(
                                        each.transactional_id, TopicPartition(topic.name, index)
                                    ),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in asked.transactions
            ],
        )


async def refusal(asking: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await asking
    return caught.value.code


@on_loop
async def test_what_is_coordinated_here_is_asked_here() -> None:
    scene = Scene()
    await scene.questions.add_partitions(HERE, PRODUCER, [T0])
    assert await scene.questions.verify_partitions(HERE, PRODUCER, [T1]) == {T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert scene.local == [(HERE, [T0], 2), (HERE, [T1], None)]
    assert scene.requests == []


@on_loop
async def test_another_coordinator_is_asked_over_the_network() -> None:
    scene = Scene()
    scene.code = lambda _, partition: ErrorCode.TRANSACTION_ABORTABLE if partition == T1 else ErrorCode.NONE
    assert await scene.questions.verify_partitions(THERE, PRODUCER, [T1, T0]) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    ((transaction,),) = (request.transactions for request in scene.requests)
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (THERE, 7, 3)
    assert transaction.verify_only
    assert scene.local == []


@on_loop
async def test_a_partition_that_cannot_be_added_is_an_error() -> None:
    scene = Scene()
    await scene.questions.add_partitions(THERE, PRODUCER, [T0])
    assert not scene.requests[0].transactions[0].verify_only
    scene.code = lambda *_: ErrorCode.CONCURRENT_TRANSACTIONS
    code = await refusal(scene.questions.add_partitions(THERE, PRODUCER, [T0]))
    assert code is ErrorCode.CONCURRENT_TRANSACTIONS


@on_loop
async def test_questions_that_come_meanwhile_go_together_and_each_transaction_once() -> None:
    scene = Scene()
    scene.gate.clear()
    first = asyncio.create_task(scene.questions.add_partitions(THERE, PRODUCER, [T0]))
    await until(lambda: scene.requests)
    later = [
        asyncio.create_task(scene.questions.add_partitions(key, PRODUCER, [partition]))
        for key, partition in ((OTHERS[0], T0), (OTHERS[1], T0), (OTHERS[0], T1), (OTHERS[2], T0))
    ]
    await asyncio.sleep(0)
    assert len(scene.requests) == 1
    scene.gate.set()
    await asyncio.gather(first, *later)
    asked = [[each.transactional_id for each in request.transactions] for request in scene.requests]
    assert asked == [[THERE], OTHERS, [OTHERS[0]]]


@on_loop
async def test_one_that_gives_up_is_not_asked_for_and_holds_nobody() -> None:
    scene = Scene()
    scene.gate.clear()
    first = asyncio.create_task(scene.questions.add_partitions(THERE, PRODUCER, [T0]))
    await until(lambda: scene.requests)
    given_up, kept = (asyncio.create_task(scene.questions.add_partitions(key, PRODUCER, [T0])) for key in OTHERS[:2])
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    scene.gate.set()
    await asyncio.gather(first, kept)
    assert [each.transactional_id for each in scene.requests[1].transactions] == [OTHERS[1]]


@on_loop
async def test_a_coordinator_that_cannot_be_asked_is_not_available() -> None:
    scene = Scene()

    def lost(*_: object) -> ErrorCode:
        raise PeerLostError("gone")

    scene.code = lost
    asking = scene.questions.verify_partitions(THERE, PRODUCER, [T0])
    assert await refusal(asking) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    scene.whole = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asking = scene.questions.verify_partitions(THERE, PRODUCER, [T0])
    assert await refusal(asking) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    nobody = Scene(1, -1)
    asking = nobody.questions.verify_partitions(THERE, PRODUCER, [T0])
    assert await refusal(asking) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@on_loop
async def test_before_the_topic_exists_this_broker_says_what_that_means() -> None:
    scene = Scene()
    scene.image = EMPTY_IMAGE
    await scene.questions.add_partitions(THERE, PRODUCER, [T0])
    assert scene.local == [(THERE, [T0], 2)]
