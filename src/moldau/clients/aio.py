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
from moldau.clients.delivery import Callback
from moldau.clients.errors import BufferExhausted, ClientError, UndeliveredRecords, Wakeup
from moldau.clients.fates import Fate, Unsent
from moldau.clients.records import ConsumerRecord, ConsumerRecords, Headers, ProducerRecord, RecordMetadata
from moldau.clients.transactions import SECONDS

if TYPE_CHECKING:
    import re

    from moldau.clients.commits import CommitCallback
    from moldau.clients.rebalancing import RebalanceListener
    from moldau.clients.records import OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition

__all__ = ["Admin", "Consumer", "Producer"]

P = ParamSpec("P")
T = TypeVar("T")


class OwnThread:
    """Calls in the one thread of a client, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.under_way = 0
        self._lock = threading.Lock()
        self._last: Future[None] | None = None

    async def __call__(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self.submit(action, *args, **kwargs))

    def submit(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._last is not None:
            raise ClientError(f"this {self._name} is closed: make another one")
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
            self.under_way += change

    @property
    def idle(self) -> bool:
        """Whether nothing is under way in it, or waits for it."""
        return self.under_way == 0

    async def end(self, close: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """The last call, made even if nobody waits for it any more. Another one only waits until it is over."""
        if self._last is not None:
            with contextlib.suppress(Exception):
                await asyncio.shield(asyncio.wrap_future(self._last))
            return
        last = self.submit(close, *args, **kwargs)
        self._last = last
        self._pool.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(last))


class Producer:
    """As `moldau.Producer`. `await producer.send(…)` returns when the record is stored; without `await` the future
    that it returns is the record's fate, and `close` tells of losses that nobody awaited."""

    def __init__(self, properties: Mapping[str, object] | None = None, /, **more: object) -> None:
        self._client = blocking_producer.Producer(properties, **more)
        self._thread = OwnThread("producer")
        self._unsent = Unsent()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except UndeliveredRecords as lost:
            if error is None:
                raise
            error.add_note(str(lost))

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
        """Sends in the order of the calls. `on_delivery(metadata, error)` is called on the event loop.

        Records for which there is no room in the buffer wait, as many as the buffer takes; more are refused with
        BufferExhausted."""
        loop = asyncio.get_running_loop()
        fate = Fate(loop, on_delivery)
        client = self._client
        if client.is_full and self._thread.under_way >= client.most_records:
            refused = crowded(client.most_records)
            fate.fail(refused, told=self._unsent.add(fate, refused))
            return fate

        def send() -> None:
            try:
                delivery = client.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
            except BaseException as error:
                told = isinstance(error, Exception) and self._unsent.add(fate, error)
                loop.call_soon_threadsafe(functools.partial(fate.fail, error, told=told))
            else:
                client.is_full = False
                fate.follow(delivery)

        self._thread.submit(send)
        return fate

    async def flush(self, timeout: float | None = None) -> int:
        return await self._thread(self._client.flush, timeout)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        return await self._thread(self._client.partitions_for, topic)

    def transaction(self) -> Transaction:
        return Transaction(self)

    async def init_transactions(self, timeout: float = 60.0) -> None:
        await self._thread(self._client.init_transactions, timeout)

    async def begin_transaction(self) -> None:
        await self._thread(self._begin)

    async def commit_transaction(self, timeout: float = 60.0) -> None:
        """One of whose records one was not sent, and nobody knows of it yet, is aborted instead, and says so."""
        await self._thread(self._commit, timeout)

    async def abort_transaction(self, timeout: float = 60.0) -> None:
        await self._thread(self._abort, timeout)

    def _begin(self) -> None:
        self._client.begin_transaction()
        self._unsent.begin()

    def _commit(self, timeout: float) -> None:
        missing = self._unsent.in_transaction()
        if missing is not None:
            self._abort(timeout)
            raise missing
        self._client.commit_transaction(timeout)
        self._unsent.end(aborted=False)

    def _abort(self, timeout: float) -> None:
        self._client.abort_transaction(timeout)
        self._unsent.end(aborted=True)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: object,
        timeout: float = 60.0,
    ) -> None:
        await self._thread(self._client.send_offsets_to_transaction, offsets, group_metadata, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """As in the blocking form. A second call waits for the first one, and does nothing."""
        if timeout is not None:
            self._client.waits_until = self._client._monotonic() + timeout
        await self._thread.end(self._close, timeout)

    def _close(self, timeout: float | None) -> None:
        lost = None
        try:
            self._client.close(timeout)
        except UndeliveredRecords as found:
            lost = found
        lost = self._unsent.told_with(lost)
        if lost is not None:
            raise lost


def crowded(most: int) -> BufferExhausted:
    return BufferExhausted(
        "record not sent", cause=f"the buffer is full, and {most} records wait for room in it", code="_QUEUE_FULL"
    )


class Transaction:
    """The block `async with producer.transaction() as transaction:`. Records are sent within it, and need no
    `await`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def send_offsets(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        chosen = offsets if offsets is not None else await consumer.positions()
        await self._producer.send_offsets_to_transaction(chosen, await consumer.group_metadata())

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer._thread(self._end, kind, error, trace)

    def _end(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        producer = self._producer
        if error is None:
            producer._commit(SECONDS)
            return
        producer._client.transaction().__exit__(kind, error, trace)
        producer._unsent.end(aborted=True)


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
        await self._thread.end(self._client.__exit__, kind, error, trace)

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

            with contextlib.suppress(ClientError):  # closed meanwhile
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
        """As in the blocking form. A second call waits for the first one, and does nothing."""
        await self._thread.end(self._client.close)


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
        await self._thread.end(lambda: None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)
        if name.startswith("_") or not callable(call):
            raise AttributeError(name)

        @functools.wraps(call)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await self._thread(call, *args, **kwargs)

        return awaited
