"""Sending without waiting on the event loop: records go into librdkafka's queue, a thread hears of their fate.

A `Sending` is a group of records whose fates are awaited together, so that the loop is woken once for all of them.

A fatal error, such as that this principal may write nowhere, ends a producer of librdkafka for good: what was under way
is told why, and `Sender.broken` that another one has to be made.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.rest import errors

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import KafkaError, Message

ANY_PARTITION: Final = -1
POLL_SECONDS: Final = 0.1
KNOWN_SECONDS: Final = 30.0
MOST_KNOWN: Final = 10_000
LOOKS: Final = 20
CREATING_LOOKS: Final = 2
LOOK_PAUSE_SECONDS: Final = 0.1
REASON_SECONDS: Final = 5.0
"""For the reason of a fatal error, which comes right after it is first felt."""
GIVEN_UP: Final = frozenset({"_FATAL", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})
"""What librdkafka says of a record that a fatal error has ended, in place of that error."""


class Outgoing(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class Stored(NamedTuple):
    partition: int
    offset: int
    timestamp: int


class Refused(NamedTuple):
    """The name that librdkafka gives the error, and its text."""

    name: str
    text: str
    retriable: bool


class Sending:
    def __init__(
        self, count: int, loop: asyncio.AbstractEventLoop, reason: Callable[[], Awaitable[Refused | None]]
    ) -> None:
        """`reason`: what the fatal error was, where there was one."""
        self._reason = reason
        self.fates: list[Stored | Refused] = [Refused("_FAIL", "not sent", False)] * count
        self._left = count
        self._lock = threading.Lock()
        self._loop = loop
        self._done: asyncio.Future[None] = loop.create_future()
        if not count:
            self._done.set_result(None)

    def told(self, place: int, error: KafkaError | None, message: Message) -> None:
        """From the thread that polls."""
        try:
            fate = fate_of(error, message)
        except SystemError:  # a fatal error is still pending; once caught, it is gone
            fate = fate_of(error, message)
        self.settle(place, fate)

    def settle(self, place: int, fate: Stored | Refused) -> None:
        with self._lock:
            self.fates[place] = fate
            self._left -= 1
            finished = self._left == 0
        if finished:
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def finished(self) -> list[Stored | Refused]:
        await asyncio.shield(self._done)
        if any(isinstance(fate, Refused) and fate.name in GIVEN_UP for fate in self.fates):
            reason = await self._reason()
            if reason is not None:
                self.fates = [
                    reason if isinstance(fate, Refused) and fate.name in GIVEN_UP else fate for fate in self.fates
                ]
        return self.fates


def fate_of(error: KafkaError | None, message: Message) -> Stored | Refused:
    if error is not None:
        return refusal(error)
    _, timestamp = message.timestamp()
    return Stored(message.partition(), message.offset(), timestamp)  # type: ignore[arg-type]


def refusal(error: KafkaError) -> Refused:
    return Refused(str(error.name()), str(error.str()), bool(error.retriable()))


def may_come(problem: Any, look: int) -> bool:
    """Brokers that create a topic say at first that it is not there, then that it has no leader."""
    if problem is None or problem.name() == "LEADER_NOT_AVAILABLE":
        return True
    return bool(problem.name() == "UNKNOWN_TOPIC_OR_PART" and look < CREATING_LOOKS)


class Sender:
    def __init__(self, client: confluent_kafka.Producer, seconds: float, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._seconds = seconds
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, tuple[int, float]] = {}
        self._room = asyncio.Event()
        self._wanted = False
        self._closed = False
        self.broken: Refused | None = None
        """The fatal error, once there was one: nothing is sent by this one any more."""
        self._broke = asyncio.Event()
        self._thread = threading.Thread(target=self._poll, name="rest-producer", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        from confluent_kafka import KafkaException

        while not self._closed and not (self.broken is not None and len(self._client) == 0):
            try:
                if self._client.poll(POLL_SECONDS) and self._wanted:
                    self._wanted = False
                    self._loop.call_soon_threadsafe(self._room.set)
            except KafkaException as error:
                if error.args[0].fatal():
                    self._break(refusal(error.args[0]))
            except SystemError:  # confluent-kafka has lost one error in another one
                continue

    def _break(self, why: Refused) -> None:
        """Everything under way is told of it by the next polls."""
        self.broken = why
        self._client.purge(blocking=False)
        self._loop.call_soon_threadsafe(self._broke.set)

    async def partitions(self, topic: str) -> int:
        """How many partitions the topic has; a broker that creates topics by itself does so now."""
        known = self._known.get(topic)
        if known is not None and known[1] > self._monotonic():
            return known[0]
        for look in range(LOOKS):
            problem, count = await asyncio.to_thread(self._look, topic)
            if count:
                if len(self._known) > MOST_KNOWN:
                    self._known.clear()
                self._known[topic] = count, self._monotonic() + KNOWN_SECONDS
                return count
            if not may_come(problem, look):
                break
            await asyncio.sleep(LOOK_PAUSE_SECONDS)
        raise errors.of_kafka(problem, f"topic {topic}")

    def _look(self, topic: str) -> tuple[Any, int]:
        from confluent_kafka import KafkaException

        try:
            found = self._client.list_topics(topic, timeout=self._seconds).topics[topic]
        except KafkaException as error:
            raise errors.of_kafka(error, f"topic {topic}") from None
        return found.error, 0 if found.error is not None else len(found.partitions)

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    async def send(self, topic: str, records: Sequence[Outgoing]) -> Sending:
        """Puts them into the queue in this order; waits only while the queue is full."""
        sending = Sending(len(records), self._loop, self._reason)
        for place, record in enumerate(records):
            await self._put(topic, record, sending, place)
        return sending

    async def _put(self, topic: str, record: Outgoing, sending: Sending, place: int) -> None:
        from confluent_kafka import KafkaException

        told = functools.partial(sending.told, place)
        deadline = self._monotonic() + self._seconds
        while True:
            try:
                self._client.produce(
                    topic,
                    record.value,
                    record.key,
                    ANY_PARTITION if record.partition is None else record.partition,
                    told,
                    None,
                    record.timestamp or 0,
                    list(record.headers) or None,
                )
            except BufferError:
                if self._monotonic() > deadline:
                    sending.settle(place, Refused("_QUEUE_FULL", "the queue of unsent records is full", True))
                    return
                await self._until_room()
            except KafkaException as error:
                sending.settle(place, refusal(error.args[0]))
                return
            except (TypeError, ValueError, OverflowError) as error:
                sending.settle(place, Refused("_INVALID_ARG", str(error), False))
                return
            else:
                return

    async def _until_room(self) -> None:
        self._room.clear()
        self._wanted = True
        try:
            await asyncio.wait_for(self._room.wait(), 1.0)
        except TimeoutError:
            return

    async def _reason(self) -> Refused | None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._broke.wait(), REASON_SECONDS)
        return self.broken

    def close(self) -> None:
        """Waits for what is under way. Not on the event loop."""
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException, SystemError):  # fatal; each record's fate is told by itself
            self._client.flush(self._seconds)
        self._closed = True
        self._thread.join(self._seconds)
