"""The asyncio forms have the same names and do the same."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from typing import Any

import pytest
from confluent_kafka import Message

import moldau
from moldau import aio
from moldau.clients.errors import (
    BufferExhausted,
    ClientError,
    DeliveryFailed,
    SerializationFailed,
    UndeliveredRecords,
)
from moldau.clients.interceptors import ConsumerInterceptor
from moldau.clients.records import ConsumerRecords, TopicPartition
from moldau.testing.brokers import Kafka
from tests.clients.python.test_producer import NOBODY


def test_they_work_side_by_side(kafka: Kafka, topic: str, wide_topic: str) -> None:
    async def run() -> list[int]:
        found: list[int] = []
        settings = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        async with (
            aio.Producer(kafka.properties, value_serializer="integer", transactional_id=topic) as producer,
            aio.Consumer({**kafka.properties, **settings}, value_deserializer="integer") as consumer,
            aio.Admin(kafka.properties) as admin,
        ):
            async with producer.transaction():
                places = await asyncio.gather(*(producer.send(topic, number) for number in range(5)))
            assert [place.offset for place in places] == list(range(5))
            await consumer.subscribe(topic)
            async for record in consumer:
                found.append(record.value)
                if len(found) == 5:
                    consumer.wakeup()
            async with producer.transaction() as transaction:
                producer.send(wide_topic, 1)
                await transaction.send_offsets(consumer)
            stored = await admin.list_consumer_group_offsets(topic)
            # The end mark of the first transaction stands at 5, and may count as read.
            assert stored[TopicPartition(topic, 0)].offset in (5, 6)
        return found

    assert asyncio.run(run()) == list(range(5))


def test_a_failed_send_raises_where_it_is_awaited() -> None:
    async def run() -> None:
        async with aio.Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300) as producer:
            await producer.send("orders", b"tea")

    with pytest.raises(DeliveryFailed, match="orders"):
        asyncio.run(run())


def test_a_cancelled_poll_ends(kafka: Kafka, topic: str) -> None:
    async def run() -> None:
        async with aio.Consumer(kafka.properties) as consumer:
            await consumer.assign([(topic, 0)])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(3600), 0.2)

    asyncio.run(run())


def reading(kafka: Kafka, topic: str, **more: object) -> aio.Consumer:
    return aio.Consumer({**kafka.properties, "group.id": topic, "auto.offset.reset": "earliest"}, **more)


async def filled(kafka: Kafka, topic: str, count: int) -> None:
    async with aio.Producer(kafka.properties, value_serializer="integer") as producer:
        await asyncio.gather(*(producer.send(topic, number) for number in range(count)))


class Doubling(ConsumerInterceptor):
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        for record in records:
            record.value *= 2
        return records


@pytest.mark.parametrize("chain", [[], [Doubling]])
def test_a_loop_that_is_left_early_commits_what_it_handed_out(kafka: Kafka, topic: str, chain: list[object]) -> None:
    async def run() -> None:
        await filled(kafka, topic, 10)
        more = {"value_deserializer": "integer", "interceptor_classes": chain}
        seen = []
        async with reading(kafka, topic, **more) as consumer:
            await consumer.subscribe(topic)
            async for record in consumer:
                seen.append(record.value)
                break
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == 3:
                    break
        factor = 2 if chain else 1
        assert seen == [0, factor, 2 * factor]
        async with aio.Admin(kafka.properties) as admin:
            stored = await admin.list_consumer_group_offsets(topic)
            assert stored[TopicPartition(topic, 0)].offset == 3

    asyncio.run(run())


def test_a_loop_that_fails_does_not_commit_the_record_in_hand(kafka: Kafka, topic: str) -> None:
    async def read() -> None:
        async with reading(kafka, topic, value_deserializer="integer") as consumer:
            await consumer.subscribe(topic)
            async for record in consumer:
                print(1 / (4 - record.value))

    async def run() -> None:
        await filled(kafka, topic, 10)
        with pytest.raises(ZeroDivisionError):
            await read()
        async with aio.Admin(kafka.properties) as admin:
            assert (await admin.list_consumer_group_offsets(topic))[TopicPartition(topic, 0)].offset == 4

    asyncio.run(run())


def test_a_seek_within_the_loop_holds_at_once(kafka: Kafka, topic: str) -> None:
    async def run() -> list[int]:
        await filled(kafka, topic, 10)
        found: list[int] = []
        async with reading(kafka, topic, value_deserializer="integer") as consumer:
            await consumer.assign([(topic, 0)])
            async for record in consumer.records(idle_seconds=1.0):
                found.append(record.value)
                if record.value == 2:
                    await consumer.seek((topic, 0), 8)
        return found

    assert asyncio.run(run()) == [0, 1, 2, 8, 9]


def test_a_cancelled_poll_keeps_what_it_found(kafka: Kafka, topic: str) -> None:
    """It is cancelled when the records are there and nobody has them yet."""

    async def run() -> None:
        await filled(kafka, topic, 10)
        async with reading(kafka, topic) as consumer:
            await consumer.assign([(topic, 0)])
            found = threading.Event()
            fetch = consumer._client._reader.fetch

            def told(seconds: float) -> list[Message]:
                messages = fetch(seconds)
                found.set()
                return messages

            consumer._client._reader.fetch = told  # type: ignore[method-assign]
            poll = asyncio.create_task(consumer.poll(60))
            await asyncio.sleep(0)
            found.wait()  # on the loop itself, which so hears of the end of the poll only after it was cancelled
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll
            assert (await consumer.poll(60))[0].offset == 0

    asyncio.run(run())


def test_a_callback_hears_of_a_record(kafka: Kafka, topic: str) -> None:
    told: list[tuple[object, object, int]] = []

    def tell(place: object, error: object) -> None:
        told.append((place, error, threading.get_ident()))

    async def run() -> None:
        async with aio.Producer(kafka.properties) as producer:
            place = await producer.send(topic, b"tea", on_delivery=tell)
            assert told == [(place, None, threading.get_ident())]
        async with aio.Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300) as producer:
            with pytest.raises(DeliveryFailed):
                await producer.send("orders", b"tea", on_delivery=tell)
        assert told[1][0] is None
        assert isinstance(told[1][1], DeliveryFailed)

    asyncio.run(run())


def test_transactions_without_a_block(kafka: Kafka, topic: str, wide_topic: str) -> None:
    async def run() -> None:
        await filled(kafka, topic, 3)
        async with (
            aio.Producer(kafka.properties, transactional_id=topic) as producer,
            reading(kafka, topic, enable_auto_commit=False) as consumer,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(wide_topic, b"never seen", partition=0)
            await producer.abort_transaction()
            await consumer.subscribe(topic)
            assert (await consumer.poll(60))[0].offset == 0
            await producer.begin_transaction()
            await producer.send(wide_topic, b"seen", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 3}, await consumer.group_metadata())
            await producer.commit_transaction()
        async with aio.Admin(kafka.properties) as admin:
            assert (await admin.list_consumer_group_offsets(topic))[TopicPartition(topic, 0)].offset == 3
        async with aio.Consumer(kafka.properties, isolation_level="read_committed") as consumer:
            await consumer.assign([(wide_topic, 0)])
            await consumer.seek_to_beginning()
            assert [record.value for record in await consumer.poll(60)] == [b"seen"]

    asyncio.run(run())


async def committed_by_block(producer: aio.Producer, topic: str, values: list[Any]) -> None:
    async with producer.transaction():
        for value in values:
            producer.send(topic, value)


async def committed_by_calls(producer: aio.Producer, topic: str, values: list[Any]) -> None:
    await producer.begin_transaction()
    for value in values:
        producer.send(topic, value)
    await producer.commit_transaction()


@pytest.mark.parametrize("write", [committed_by_block, committed_by_calls])
def test_a_transaction_without_one_of_its_records_is_not_committed(kafka: Kafka, topic: str, write: Any) -> None:
    async def run() -> None:
        async with aio.Producer(kafka.properties, value_serializer="integer", transactional_id=topic) as producer:
            with pytest.raises(SerializationFailed, match="is not a number"):
                await write(producer, topic, [1, "no number", 2])
            await write(producer, topic, [3])

    asyncio.run(run())
    values = kafka.values(topic, 1, isolation_level="read_committed", value_deserializer="integer")
    assert values == [3]


def test_a_transaction_whose_application_knows_what_is_missing_is_committed(kafka: Kafka, topic: str) -> None:
    async def run() -> None:
        async with (
            aio.Producer(kafka.properties, value_serializer="integer", transactional_id=topic) as producer,
            producer.transaction(),
        ):
            producer.send(topic, 1)
            with pytest.raises(SerializationFailed):
                await producer.send(topic, "no number")

    asyncio.run(run())
    assert kafka.values(topic, 1, isolation_level="read_committed", value_deserializer="integer") == [1]


# -- losses ------------------------------------------------------------------------------------------------------


def test_close_tells_of_records_that_nobody_asked_about() -> None:
    noise: list[object] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        producer = aio.Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300, value_serializer="string")
        producer.send("orders", "tea")
        producer.send("orders", 7)
        asked = producer.send("orders", "coffee")
        gathered = asyncio.gather(asked, return_exceptions=True)
        told: list[object] = []
        producer.send("orders", "milk", on_delivery=lambda _, error: told.append(error))
        producer.send("orders", "water").cancel()
        with pytest.raises(UndeliveredRecords, match="3 records were not delivered") as lost:
            await producer.close()
        assert lost.value.count == len(lost.value.failures) == 3
        assert "the value of a record for orders" in str(lost.value)
        assert [type(each) for each in [*await gathered, *told]] == [DeliveryFailed, DeliveryFailed]

    asyncio.run(run())
    gc.collect()
    assert noise == []


def test_a_loss_that_was_awaited_is_not_told_again() -> None:
    async def run() -> None:
        producer = aio.Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300)
        fates = [producer.send("orders", b"tea") for _ in range(3)]
        await producer.flush()
        with pytest.raises(DeliveryFailed):
            await fates[0]
        assert isinstance((await asyncio.gather(fates[1], return_exceptions=True))[0], DeliveryFailed)
        assert isinstance(fates[2].exception(), DeliveryFailed)
        await producer.close()

    asyncio.run(run())


def test_closing_twice_is_closing_once(kafka: Kafka, topic: str) -> None:
    async def run() -> None:
        async with aio.Producer(kafka.properties) as producer, aio.Consumer(kafka.properties) as consumer:
            producer.send(topic, b"tea")
            await asyncio.gather(producer.close(), producer.close(), consumer.close())
            await consumer.close()
            with pytest.raises(ClientError, match="this producer is closed"):
                producer.send(topic, b"coffee")
            with pytest.raises(ClientError, match="this consumer is closed"):
                await consumer.poll()

    asyncio.run(run())
    assert kafka.values(topic, 1) == [b"tea"]


def test_a_close_that_raises_has_closed() -> None:
    async def run() -> list[threading.Thread]:
        producer = aio.Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300)
        producer.send("orders", b"tea")
        with pytest.raises(UndeliveredRecords):
            await producer.close()
        await producer.close()
        for thread in threading.enumerate():
            if thread.name.startswith("producer_"):
                thread.join(10)
        return [each for each in threading.enumerate() if each.name.startswith("producer_")]

    assert asyncio.run(run()) == []


def test_sends_that_find_no_room_do_not_wait_without_bound() -> None:
    async def run() -> None:
        settings = {"queue.buffering.max.messages": 10, "max.block.ms": 60_000, "delivery.timeout.ms": 60_000}
        producer = aio.Producer({"bootstrap.servers": NOBODY, **settings})
        fates = [producer.send("orders", b"tea") for _ in range(10)]
        while not any(fate.done() for fate in fates):
            fates.append(producer.send("orders", b"tea"))
            await asyncio.sleep(0)
        with pytest.raises(BufferExhausted, match="10 records wait for room"):
            await fates[-1]
        with pytest.raises(UndeliveredRecords):
            await producer.close(0)
        assert all(fate.done() for fate in fates)

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("name", ["Producer", "Consumer"])
def test_every_call_is_there(name: str) -> None:
    blocking, awaited = getattr(moldau, name), getattr(aio, name)
    for call, _ in inspect.getmembers(blocking, inspect.isfunction):
        if not call.startswith("_"):
            wanted = inspect.signature(getattr(blocking, call)).parameters
            assert list(inspect.signature(getattr(awaited, call)).parameters) == list(wanted), call


def test_every_call_of_admin_is_there(kafka: Kafka, topic: str) -> None:
    calls = {name for name, each in inspect.getmembers(moldau.Admin, callable) if not name.startswith("_")}

    async def run() -> None:
        async with aio.Admin(kafka.properties) as admin:
            assert {name for name in calls if not inspect.iscoroutinefunction(getattr(admin, name))} == set()
            assert topic in await admin.list_topics()
            assert (await admin.describe_features())["transaction.version"] == 2
            with pytest.raises(AttributeError):
                admin.not_there  # noqa: B018

    assert len(calls) > 30
    asyncio.run(run())
