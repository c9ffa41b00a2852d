"""What is asked before a transactional batch is taken, and what of the answer still holds when it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.coordinators.transactions.machine import Markers, ProducerIdentity
from moldau.server.verification import Question, as_produce_error, ask, question, questions_of
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record, build_batch
from moldau.work.slices import at_once
from tests.fakes.verifying_broker import TellingShard, VerifyingBroker

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
BEFORE_ABORTABLE, ANNOUNCING, ADDING = 10, 11, 12
"""Produce versions: before TRANSACTION_ABORTABLE was known, the last whose clients announce partitions, the next."""


class World:
    def __init__(self, transaction_version: int = 2, *, is_coordinator: bool = True) -> None:
        self.shard = TellingShard(2, transaction_version)
        self.fake = VerifyingBroker(self.shard, is_coordinator=is_coordinator)
        self.broker = self.fake.as_broker()
        self.producer = self.shard.init()

    def ask(self, *places: TopicPartition, adds: bool) -> asyncio.Task[dict[TopicPartition, KafkaError]]:
        questions = [Question(self.producer, place) for place in places]
        return asyncio.get_running_loop().create_task(ask(self.broker, "id", questions, adds))

    async def settle(self) -> None:
        """Whoever can go on does, while the coordinator's log takes what is written."""
        for _ in range(8):
            await asyncio.sleep(0)
            self.shard.log.commit()

    def write(self, place: TopicPartition) -> None:
        self.shard.partitions[place].write(self.producer, "x")


def codes(refused: dict[TopicPartition, KafkaError]) -> dict[TopicPartition, ErrorCode]:
    return {place: error.code for place, error in refused.items()}


def on_a_loop(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


# -- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adds", [True, False])
def test_a_partition_in_which_the_transaction_is_open_needs_no_question(adds: bool) -> None:
    world = World()
    assert question(world.broker, FIRST, world.producer, adds) == (world.producer, FIRST)
    world.write(FIRST)
    assert question(world.broker, FIRST, world.producer, adds) is None
    assert question(world.broker, SECOND, world.producer, adds) is not None
    next_epoch = ProducerIdentity(world.producer.producer_id, world.producer.producer_epoch + 1)
    assert question(world.broker, FIRST, next_epoch, adds) is not None


def test_without_verification_only_what_is_to_be_added_is_asked() -> None:
    world = World()
    world.fake.config.transaction_partition_verification_enable = False
    assert question(world.broker, FIRST, world.producer, adds_partitions=False) is None
    assert question(world.broker, FIRST, world.producer, adds_partitions=True) is not None


@pytest.mark.parametrize(("version", "asked"), [(ANNOUNCING, []), (ADDING, [FIRST, SECOND])])
def test_questions_of_a_request(version: int, asked: list[TopicPartition]) -> None:
    """Who asks is in the batches themselves."""
    world = World()
    world.fake.config.transaction_partition_verification_enable = False
    batch = build_batch(
        [Record(value=b"x")], transactional=True, producer_id=world.producer.producer_id,
        producer_epoch=world.producer.producer_epoch, base_sequence=0,
    )  # fmt: skip
    found = at_once(questions_of(world.broker, [(FIRST, batch), (SECOND, batch)], version))
    assert found == [Question(world.producer, place) for place in asked]


# -- what the answer is worth -----------------------------------------------------------------------------------------


def test_partitions_are_added_for_clients_that_do_not_announce_them() -> None:
    async def scene() -> None:
        world = World()
        asked = world.ask(FIRST, SECOND, adds=True)
        await world.settle()
        assert await asked == {}
        assert world.shard.transaction("id").partitions == {FIRST, SECOND}

    on_a_loop(scene())


def test_what_was_not_announced_is_refused_and_the_rest_is_not() -> None:
    async def scene() -> None:
        world = World(transaction_version=1)
        world.shard.add(world.producer, 0, version=0)
        asked = world.ask(FIRST, SECOND, adds=False)
        await world.settle()
        assert codes(await asked) == {SECOND: ErrorCode.TRANSACTION_ABORTABLE}

    on_a_loop(scene())


def test_whoever_is_not_the_owner_is_refused_everywhere() -> None:
    async def scene() -> None:
        world = World()
        world.shard.init()  # somebody else takes over
        asked = world.ask(FIRST, SECOND, adds=True)
        await world.settle()
        assert codes(await asked) == dict.fromkeys((FIRST, SECOND), ErrorCode.PRODUCER_FENCED)

    on_a_loop(scene())


def test_the_end_of_the_transaction_before_is_waited_for_and_what_it_left_read_again() -> None:
    async def scene() -> None:
        world = World()
        world.shard.add(world.producer, 0)
        world.write(FIRST)
        world.producer = world.shard.end(world.producer, True)
        asked = world.ask(FIRST, adds=True)
        await world.settle()
        assert not asked.done(), "its markers are under way"
        world.shard.settle()
        await world.settle()
        assert await asked == {}
        assert world.shard.transaction("id").partitions == {FIRST}

    on_a_loop(scene())


def test_a_marker_of_another_coordinator_is_waited_for() -> None:
    async def scene() -> None:
        world = World(is_coordinator=False)
        world.shard.add(world.producer, 0)
        world.write(FIRST)
        world.producer = world.shard.end(world.producer, True)
        asked = world.ask(FIRST, adds=True)
        await world.settle()
        assert not asked.done(), "its marker is under way"
        world.shard.settle()
        await world.settle()
        assert not asked.done(), "nobody has told this broker"
        world.fake.marked.tell(world.producer.producer_id)
        await world.settle()
        assert await asked == {}

    on_a_loop(scene())


def test_a_coordinator_that_has_not_heard_of_a_marker_is_asked_again() -> None:
    """There is no news to wait for: the marker is here, and it is the other broker that will know."""

    async def scene() -> None:
        world = World(is_coordinator=False)
        world.shard.add(world.producer, 0)
        world.write(FIRST)
        world.producer = world.shard.end(world.producer, True)
        world.shard.deliver()
        asked = world.ask(FIRST, adds=True)
        await world.settle()
        assert not asked.done(), "the coordinator has not heard of it"
        world.shard.settle()
        while not asked.done():
            await world.settle()
        assert await asked == {}

    on_a_loop(scene())


def test_patience_with_the_transaction_before_ends() -> None:
    async def scene() -> None:
        world = World()
        world.fake.config.add_partitions_to_txn_retry_backoff_max_ms = 0
        world.shard.add(world.producer, 0)
        world.producer = world.shard.end(world.producer, True)
        asked = world.ask(FIRST, adds=True)
        await world.settle()
        assert codes(await asked) == {FIRST: ErrorCode.CONCURRENT_TRANSACTIONS}

    on_a_loop(scene())


def test_an_answer_is_worth_nothing_in_a_partition_where_the_transaction_has_ended_meanwhile() -> None:
    """Without an epoch of its own for each transaction, a late batch would open one that nobody ends."""

    async def scene() -> None:
        world = World(transaction_version=1)
        world.shard.add(world.producer, 0, 1, version=0)
        world.write(FIRST)
        world.shard.request(lambda machine: machine.init_producer_id("other", 1000, None, 99))
        asked = world.ask(FIRST, SECOND, adds=False)
        await asyncio.sleep(0)
        assert not asked.done(), "the answer comes behind what was asked before"
        end = Markers("id", *world.producer, 0, True, frozenset({FIRST}))
        world.shard.partitions[FIRST].write_marker(end)
        await world.settle()
        assert codes(await asked) == {FIRST: ErrorCode.INVALID_TXN_STATE}

    on_a_loop(scene())


# -- how producers are told -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, BEFORE_ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ANNOUNCING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ADDING, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, ADDING, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, BEFORE_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ANNOUNCING, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, ADDING, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_trouble_is_told_as_producers_of_that_version_take_it(code: ErrorCode, version: int, told: ErrorCode) -> None:
    assert as_produce_error(KafkaError(code), version).code is told
