"""A compacted topic as a table: a thread reads it, records go in through a transactional writer or a plain one.

Whoever opens a transactional writer fences the one before it, so that a worker that was leader and does not know better
cannot write any more. Readers see committed records alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.librdkafka import told_error

log = logging.getLogger(__name__)

Apply = Callable[[bytes | None, bytes | None], None]
BATCH: Final = 500
AGAIN_SECONDS: Final = 1.0
WRITING: Final = {"acks": "all", "linger.ms": 0, "enable.idempotence": True, "partitioner": "murmur2_random"}
"""Keys go where Java's clients and our tasks put them: only within a partition it is certain what is newer."""


class TopicUnavailable(Exception):
    """The brokers did not answer in time, or refused."""


class NotWriting(TopicUnavailable):
    """This worker does not lead, or has to `lead` once more after a write that failed."""


class Fenced(NotWriting):
    """Another worker writes now."""


def prepare_topic(settings: Mapping[str, Any], topic: str, partitions: int, replication: int, seconds: float) -> None:
    """Makes the topic, or checks the one that is there."""
    admin = AdminClient(dict(settings))
    known = admin.list_topics(timeout=seconds)
    if topic in known.topics and known.topics[topic].error is None:
        if partitions == 1 and len(known.topics[topic].partitions) != 1:
            raise ValueError(f"Topic '{topic}' has to have exactly one partition")
        return
    replication = min(replication, len(known.brokers))
    fresh = NewTopic(topic, partitions, replication, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([fresh])[topic].result(seconds)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


class TopicTable:
    def __init__(
        self,
        settings: Mapping[str, str | int],
        topic: str,
        apply: Apply,
        seconds: float = 30.0,
        writer: str | None = None,
    ) -> None:
        """`writer`: the transactional id; without one, records are written one by one."""
        self.topic = topic
        self._settings: dict[str, Any] = dict(settings)
        self._apply = apply
        self._seconds = seconds
        self._writer = writer
        self._producer: Producer | None = None
        self._half_open: Producer | None = None
        self._changed = threading.Condition()
        self._next: dict[int, int] = {}
        self._newest: dict[bytes | None, tuple[int, int]] = {}
        self._stopping = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name=f"{topic}-reader", daemon=True)
        self._looker = Consumer({**self._settings, "group.id": f"{topic}-reader"})
        self._writing = threading.Lock()

    def prepare(self, partitions: int, replication: int) -> None:
        prepare_topic(self._settings, self.topic, partitions, replication, self._seconds)

    # -- reading -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._seconds)
        self._looker.close()
        self._producer = self._half_open = None

    def _partitions(self) -> list[int]:
        found = self._looker.list_topics(self.topic, timeout=self._seconds).topics[self.topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return sorted(found.partitions)

    def _read(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{self.topic}-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            numbers = self._partitions_at_last()
            consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in numbers])
            while not self._stopping.is_set():
                first = consumer.poll(0.1)
                for message in [first, *consumer.consume(BATCH, 0)] if first is not None else []:
                    self._take(message)
        except Exception as error:
            log.exception("reading %s ended", self.topic)
            with self._changed:
                self._problem = error
                self._changed.notify_all()
        finally:
            consumer.close()

    def _partitions_at_last(self) -> list[int]:
        """However long the brokers are away; none if it is stopped meanwhile."""
        while not self._stopping.is_set():
            try:
                return self._partitions()
            except KafkaException as error:
                log.warning("%s cannot be looked at yet: %s", self.topic, error)
                self._stopping.wait(AGAIN_SECONDS)
        return []

    @property
    def is_dead(self) -> bool:
        """It reads no more, whatever comes."""
        return self._problem is not None

    def _take(self, message: Message) -> None:
        error, offset, number = message.error(), message.offset() or 0, message.partition() or 0
        if error is None:
            with self._changed:
                try:
                    if self._is_newest(message, number):
                        self._apply(message.key(), message.value())
                except (ValueError, TypeError, KeyError) as problem:
                    log.error("%s-%d, offset %d is skipped: %s", self.topic, number, offset, problem)
                self._next[number] = offset + 1
                self._changed.notify_all()
        elif error.code() == KafkaError._PARTITION_EOF:
            with self._changed:
                self._next[number] = max(self._next.get(number, 0), offset)
                self._changed.notify_all()
        else:
            log.warning("reading %s: %s", self.topic, error)

    def _is_newest(self, message: Message, number: int) -> bool:
        """Others may have put one of the key into another partition, where offsets say nothing of what is newer."""
        key, written_ms = message.key(), message.timestamp()[1]
        known = self._newest.get(key)
        if known is not None and known[0] != number and known[1] > written_ms:
            return False
        self._newest[key] = number, written_ms
        return True

    def catch_up(self) -> None:
        """Until everything that is in the topic now is applied."""
        try:
            ends = {}
            for number in self._partitions():
                place = TopicPartition(self.topic, number)
                ends[number] = self._looker.get_watermark_offsets(place, timeout=self._seconds)[1]
        except KafkaException as error:
            raise TopicUnavailable(f"{self.topic}: {error}") from None
        self._wait_for(ends)

    def _wait_for(self, ends: Mapping[int, int]) -> None:
        def there() -> bool:
            return all(self._next.get(number, -1) >= end for number, end in ends.items())

        with self._changed:
            if not self._changed.wait_for(lambda: there() or self._problem is not None, self._seconds):
                raise TopicUnavailable(f"{self.topic} could not be read to its end in {self._seconds:.0f} s")
            if self._problem is not None:
                raise TopicUnavailable(f"{self.topic} cannot be read: {self._problem}")

    # -- writing -----------------------------------------------------------------------------------------------------

    def lead(self, anew: bool = False) -> None:
        """Fences whoever wrote before, and reads to the end; nothing to do for who leads already, except `anew`. May be
        called again after a write that failed, by who has no reason to believe that another leads."""
        with self._writing:
            if self._producer is None or anew:
                self._producer = None
                producer = self._opened()
                self.catch_up()
                self._producer = producer

    def resign(self) -> None:
        with self._writing:
            self._producer = self._half_open = None

    def _opened(self) -> Producer:
        more: dict[str, Any] = (
            {} if self._writer is None else {"transactional.id": self._writer, "transaction.timeout.ms": 30_000}
        )
        wanted = {**self._settings, **WRITING, **more}
        producer, self._half_open = self._half_open or Producer(wanted), None
        try:
            if self._writer is not None:
                producer.init_transactions(self._seconds)
        except KafkaException as error:
            if error.args[0].retriable():
                self._half_open = producer  # it goes on by itself: a second one beside it would be fenced
            raise TopicUnavailable(f"{self.topic}: {error.args[0]}") from None
        return producer

    def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """In order, all or none with a transactional writer; returns when they are acknowledged and read back."""
        with self._writing:
            if self._producer is None:
                if self._writer is not None:
                    raise NotWriting(f"this worker does not write to {self.topic} now")
                self._producer = self._opened()
            ends = self._send(records)
        self._wait_for(ends)

    def _send(self, records: Sequence[tuple[bytes, bytes | None]]) -> dict[int, int]:
        producer = self._producer
        assert producer is not None
        ends: dict[int, int] = {}
        failed: list[KafkaError] = []

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                ends[message.partition()] = max(ends.get(message.partition(), 0), message.offset() + 1)
            else:
                failed.append(error)

        try:
            if self._writer is not None:
                producer.begin_transaction()
            for key, value in records:
                producer.produce(self.topic, value, key, on_delivery=told)
            left = producer.flush(self._seconds)
            if failed or left:
                self._producer = None
                raise TopicUnavailable(f"{self.topic}: {failed[0] if failed else 'the brokers did not answer in time'}")
            if self._writer is not None:
                producer.commit_transaction(self._seconds)
        except (KafkaException, SystemError) as error:
            self._producer = None
            cause = told_error(error)
            if not isinstance(cause, KafkaException):
                raise
            raise self._refused(cause) from None
        return ends

    def _refused(self, error: KafkaException) -> TopicUnavailable:
        cause = error.args[0]
        if cause.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return Fenced(f"another worker writes to {self.topic} now")
        return TopicUnavailable(f"{self.topic}: {cause}")
