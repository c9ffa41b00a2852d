"""The clients for asyncio, under the same names: `from moldau import aio`, then `aio.Producer`, `aio.Consumer`,
`aio.Admin`.

Their calls are those of the blocking forms, awaited. Each client works in a thread of its own, so the event loop never
waits; listeners, interceptors and callbacks of commits are called in that thread, `on_delivery` on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from moldau.clients import admin as blocking_admin
from moldau.clients import consumer as blocking_consumer
from moldau.clients import producer as blocking_producer
from moldau.clients.batches import Batch, give_back
from moldau.clients.delivery import Callback, Delivery
from moldau.clients.errors import Wakeup
from moldau.clients.records import ConsumerRecord, ConsumerRecords, Headers, ProducerRecord, RecordMetadata

if TYPE_CHECKING:
    import re

    from moldau.clients.commits import CommitCallback
    from moldau.clients.rebalancing import RebalanceListener
    from moldau.clients.records import OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition
    from moldau.clients.transactions import Transaction as BlockingTransaction

__all__ = ["Admin", "Consumer", "Producer"]

P = ParamSpec("P")
T = TypeVar("T")


class OwnThread:
    """Calls in the one thread of a client, one after the other."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._under_way = 0
        self._lock = threading.Lock()

    async def __call__(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self.submit(action, *args, **kwargs))

    def submit(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        self._count(1)
        try:
            future = self._pool.submit(action, *args, **kwargs)
        except BaseException:
            self._count(-1)
            raise
        future.add_done_callback(lambda _: self._count(-1))
        return future

    def _count(self, change: int) -> None:
        with self._lock:
            self._under_way += change

    @property
    def idle(self) -> bool:
        """Whether nothing is under way in it, or waits for it."""
        return self._under_way == 0

    def end(self) -> None:
        self._pool.shutdown(wait=False)


class Producer:
    """As `moldau.Producer`. `await producer.send(…)` returns when the record is stored; without `await` the future
    that it
    returns is the record's fate, and `close` tells of losses that nobody awaited."""

    def __init__(self, properties: Mapping[str, object] | None = None, /, **more: object) -> None:
        self._client = blocking_producer.Producer(properties, **more)
        self._thread = OwnThread("producer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread(self._client.__exit__, kind, error, trace)
        self._thread.end()

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        on_delivery: Callback | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Sends in the order of the calls. `on_delivery(metadata, error)` is called on the event loop."""
        loop = asyncio.get_running_loop()
        fate: asyncio.Future[RecordMetadata] = loop.create_future()

        def send() -> None:
            try:
                delivery = self._client.send(
                    topic, value, key, partition=partition, timestamp=timestamp, headers=headers
                )
            except BaseException as error:
                loop.call_soon_threadsafe(fail, fate, error)
                return

            def tell(done: Delivery) -> None:
                loop.call_soon_threadsafe(settle, fate, done, on_delivery)

            delivery.add_done_callback(tell)

        self._thread.submit(send)
        return fate

    async def flush(self, timeout: float | None = None) -> int:
        return await self._thread(self._client.flush, timeout)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        return await self._thread(self._client.partitions_for, topic)

    def transaction(self) -> Transaction:
        return Transaction(self._client.transaction(), self._thread)

    async def init_transactions(self, timeout: float = 60.0) -> None:
        await self._thread(self._client.init_transactions, timeout)

    async def begin_transaction(self) -> None:
        await self._thread(self._client.begin_transaction)

    async def commit_transaction(self, timeout: float = 60.0) -> None:
        await self._thread(self._client.commit_transaction, timeout)

    async def abort_transaction(self, timeout: float = 60.0) -> None:
        await self._thread(self._client.abort_transaction, timeout)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: object,
        timeout: float = 60.0,
    ) -> None:
        await self._thread(self._client.send_offsets_to_transaction, offsets, group_metadata, timeout)

    async def close(self, timeout: float | None = None) -> None:
        await self._thread(self._client.close, timeout)
        self._thread.end()


def settle(fate: asyncio.Future[RecordMetadata], delivery: Delivery, on_delivery: Callback | None) -> None:
    error = delivery.exception(0)
    if error is not None:
        fail(fate, error)
    elif not fate.done():
        fate.set_result(delivery.result(0))
    if on_delivery is not None:
        if error is not None and not fate.cancelled():
            fate.exception()  # somebody is told, so asyncio need not
        on_delivery(None if error is not None else delivery.result(0), error)


def fail(fate: asyncio.Future[RecordMetadata], error: BaseException) -> None:
    """asyncio itself tells of a future whose error nobody looked at."""
    if not fate.done():
        fate.set_exception(error)


class Transaction:
    """The block `async with producer.transaction() as transaction:`. Records are sent within it, and need no
    `await`."""

    def __init__(self, transaction: BlockingTransaction, thread: OwnThread) -> None:
        self._transaction = transaction
        self._thread = thread

    async def send_offsets(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        chosen = offsets if offsets is not None else await consumer.positions()
        metadata = await consumer.group_metadata()
        transactions = self._transaction._transactions
        await self._thread(transactions.send_offsets, chosen, metadata, 60.0)

    async def __aenter__(self) -> Self:
        await self._thread(self._transaction.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread(self._transaction.__exit__, kind, error, trace)


class Consumer:
    """As `moldau.Consumer`: `async for record in consumer`, or `await consumer.poll(1.0)`. Cancelling a poll ends
    it."""

    def __init__(self, properties: Mapping[str, object] | None = None, /, **more: object) -> None:
        self._client = blocking_consumer.Consumer(properties, **more)
        self._thread = OwnThread("consumer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread(self._client.__exit__, kind, error, trace)
        self._thread.end()

    async def poll(self, timeout: float = 0.0) -> ConsumerRecords:
        return await self._unless_cancelled(self._client.poll, timeout)

    async def _unless_cancelled(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What it finds while it is cancelled reaches nobody, and is found again by the next call."""
        done: list[T] = []

        def act() -> T:
            done.append(action(*args, **kwargs))
            return done[0]

        try:
            return await self._thread(act)
        except asyncio.CancelledError:
            reader = self._client._reader
            reader.cut_short.set()

            def clean_up() -> None:
                reader.cut_short.clear()
                if done:
                    give_back(self._client)

            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._thread.submit(clean_up)
            raise

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self.records()

    async def records(self, idle_seconds: float | None = None) -> AsyncIterator[ConsumerRecord]:
        """Record after record until `wakeup()`, or until nothing has come for so long."""
        wait = 3600.0 if idle_seconds is None else idle_seconds
        while True:
            try:
                batch = await self._unless_cancelled(Batch, self._client, wait)
            except Wakeup:
                return
            if not batch.records and idle_seconds is not None:
                return
            at_once = not self._client._chain
            for record in batch.records:
                alone = at_once and self._thread.idle
                for each in batch.take(record) if alone else await self._unless_cancelled(batch.take, record):
                    yield each

    def wakeup(self) -> None:
        self._client.wakeup()

    async def subscribe(
        self, topics: str | Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        await self._thread(self._client.subscribe, topics, listener)

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        await self._thread(self._client.assign, partitions)

    async def unsubscribe(self) -> None:
        await self._thread(self._client.unsubscribe)

    def subscription(self) -> list[str]:
        return self._client.subscription()

    def assignment(self) -> set[TopicPartition]:
        return self._client.assignment()

    async def position(self, place: TopicPartition | tuple[str, int]) -> int:
        return await self._thread(self._client.position, place)

    async def positions(self) -> dict[TopicPartition, int]:
        return await self._thread(self._client.positions)

    async def seek(self, place: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        await self._thread(self._client.seek, place, offset)

    async def seek_to_beginning(self, *places: TopicPartition | tuple[str, int]) -> None:
        await self._thread(self._client.seek_to_beginning, *places)

    async def seek_to_end(self, *places: TopicPartition | tuple[str, int]) -> None:
        await self._thread(self._client.seek_to_end, *places)

    async def seek_to_time(self, timestamp: int, *places: TopicPartition | tuple[str, int]) -> None:
        await self._thread(self._client.seek_to_time, timestamp, *places)

    async def pause(self, *places: TopicPartition | tuple[str, int]) -> None:
        await self._thread(self._client.pause, *places)

    async def resume(self, *places: TopicPartition | tuple[str, int]) -> None:
        await self._thread(self._client.resume, *places)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        return await self._thread(self._client.partitions_for, topic)

    async def topics(self) -> list[str]:
        return await self._thread(self._client.topics)

    async def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._thread(self._client.beginning_offsets, places)

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._thread(self._client.end_offsets, places)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return await self._thread(self._client.offsets_for_times, times)

    async def lag(self) -> dict[TopicPartition, int]:
        return await self._thread(self._client.lag)

    async def group_metadata(self) -> object:
        """For `send_offsets_to_transaction`."""
        return await self._thread(self._client.group_metadata)

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        await self._thread(self._client.commit, offsets)

    commit_sync = commit

    async def commit_async(
        self,
        callback: CommitCallback | None = None,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
    ) -> None:
        await self._thread(self._client.commit_async, callback, offsets)

    async def committed(self, places: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._thread(self._client.committed, places)

    async def close(self) -> None:
        await self._thread(self._client.close)
        self._thread.end()


class Admin:
    """As `moldau.Admin`: every call of it, awaited."""

    def __init__(self, properties: Mapping[str, object] | None = None, /, **more: object) -> None:
        self._client = blocking_admin.Admin(properties, **more)
        self._thread = OwnThread("admin")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._thread.end()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)
        if name.startswith("_") or not callable(call):
            raise AttributeError(name)

        @functools.wraps(call)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await self._thread(call, *args, **kwargs)

        return awaited
