"""The topic `_schemas`: a thread reads it into the state, and the leader writes to it in transactions.

The transactional id belongs to the registry, not to the instance: whoever opens the writer fences the one that had it
before, and ends what it left open. So an instance that was leader and does not know better cannot write any more, and
what a new leader has read up to the end is all there is: no id can be given twice. Readers see committed records alone.
A write is answered when this instance has read it back.
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
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from moldau.client.librdkafka import told_error
from moldau.metrics import Metrics
from moldau.registry.errors import NotLeader, RegistryError, store_failed, timed_out
from moldau.registry.records import PoisonedRecord, Record, decoded, noop_record
from moldau.registry.state import State

log = logging.getLogger(__name__)

BATCH: Final = 500
GROUP: Final = "moldau.registry"
FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
AGAIN_SECONDS: Final = 1.0
"""Before the topic is read anew after something that nobody thought of."""
END_SECONDS: Final = 3.0
"""For the last record before an instance ends; brokers that are away must not hold it up."""


class SchemaLog:
    def __init__(
        self, settings: Mapping[str, str | int], topic: str, owner: str, state: State, seconds: float, metrics: Metrics
    ) -> None:
        """`owner`: the name under which instances of one registry write."""
        self._settings: dict[str, Any] = dict(settings)
        self._topic = topic
        self.owner = owner
        self._state = state
        self._seconds = seconds
        self._metrics = metrics
        self._changed = threading.Condition()
        self._next = 0
        """The offset up to which everything is applied."""
        self._end: int | None = None
        self._caught_up = False
        self._problem: str | None = "the topic has not been read yet"
        self._ended = threading.Event()
        self._producer: Producer | None = None
        self._looker: Consumer | None = None
        self._making = threading.Lock()
        self._has_written = False
        self._known_end = 0
        """Nothing below it is new: it was read, or it is a marker of our own transactions, which readers are not told
        of until they have waited for what follows."""
        self.cluster_id = ""
        """The brokers' name of their cluster."""
        self._thread = threading.Thread(target=self._read, name="schemas-reader", daemon=True)
        metrics.gauge(lambda: self._next, GROUP, "Log", "AppliedOffset")

    # -- the topic ---------------------------------------------------------------------------------------------------

    def prepare(self, replication: int) -> None:
        """Creates the topic, or checks the one that is there."""
        admin = AdminClient(self._settings)
        known = admin.list_topics(timeout=self._seconds)
        self.cluster_id = known.cluster_id or ""
        if self._topic in known.topics and known.topics[self._topic].error is None:
            self._check(admin, len(known.topics[self._topic].partitions))
            return
        replicas = min(replication, len(known.brokers))
        fresh = NewTopic(self._topic, 1, replicas, config={"cleanup.policy": "compact"})
        try:
            admin.create_topics([fresh])[self._topic].result(self._seconds)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _check(self, admin: AdminClient, partitions: int) -> None:
        if partitions != 1:
            raise ValueError(f"the topic {self._topic} has {partitions} partitions; a registry's has one")
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            found = admin.describe_configs([resource])[resource].result(self._seconds)
        except KafkaException as error:
            log.warning("the settings of %s could not be looked at: %s", self._topic, error)
            return
        if "compact" not in found["cleanup.policy"].value:
            raise ValueError(f"the topic {self._topic} is not compacted: its schemas would be lost in time")

    # -- reading -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._reached(0)
        self.resign()
        if self._has_written:
            self._end_with_a_record()
        if self._thread.is_alive():
            self._thread.join(self._seconds)
        if self._looker is not None:
            self._looker.close()

    @property
    def problem(self) -> str | None:
        """What keeps it from having read everything; None when it has."""
        return None if self._caught_up else self._problem or "the topic is being read"

    @property
    def position(self) -> int:
        return self._next

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                self._read_on()
            except Exception:
                # Not its last word: an instance that reads no more would answer from what it knew for ever.
                log.exception("reading %s ended; it begins again at %d", self._topic, self._next)
                self._caught_up, self._problem = False, "reading the topic failed"
                self._ended.wait(AGAIN_SECONDS)

    def _read_on(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{self.owner}-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, 0, self._next or OFFSET_BEGINNING)])
            while not self._ended.is_set():
                first = consumer.poll(0.1)
                # `consume` waits for a full batch, which a write that is to be read back cannot.
                for message in [first, *consumer.consume(BATCH, 0)] if first is not None else []:
                    self._take(message)
        finally:
            consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        offset = message.offset()
        if error is None:
            assert offset is not None
            self._apply(message, offset)
            self._reached(offset + 1)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._caught_up = True
            self._reached(offset or 0)
        else:
            self._problem = str(error)
            log.warning("reading %s: %s", self._topic, error)

    def _apply(self, message: Message, offset: int) -> None:
        try:
            self._state.apply(decoded(message.key(), message.value(), message.timestamp()[1]))
        except PoisonedRecord as problem:
            self._metrics.counter(GROUP, "Log", "PoisonedRecordsPerSec").value += 1
            log.error("%s, offset %d is skipped: %s", self._topic, offset, problem)
        except Exception:  # a defect of ours must not keep every instance from every later schema
            self._metrics.counter(GROUP, "Log", "PoisonedRecordsPerSec").value += 1
            log.exception("%s, offset %d is skipped", self._topic, offset)

    def _reached(self, offset: int) -> None:
        with self._changed:
            self._next = max(self._next, offset)
            self._changed.notify_all()

    def until_read(self) -> None:
        """Until the end of the topic was reached for the first time."""
        with self._changed:
            self._changed.wait_for(lambda: self._caught_up or self._ended.is_set())

    def wait_for(self, offset: int, seconds: float | None = None) -> None:
        """Until everything below the offset is applied."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._next >= offset, self._seconds if seconds is None else seconds):
                raise timed_out(f"{self._topic} was read up to {self._next}, not to {offset}")

    # -- writing -----------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Reads to the end, before anything is decided. Opens the writer first, if it is not open: that fences whoever
        wrote before. The end is looked at every time, since a topic can be filled by others: a mirror, a restore."""
        if self._producer is None:
            self._open_writer()
        self.read_up_to(self.end(self._seconds))

    def _open_writer(self) -> None:
        producer = Producer(
            {
                **self._settings,
                "transactional.id": f"{self.owner}-writer",
                "transaction.timeout.ms": max(1000, int(self._seconds * 1000)),
                "acks": "all",
                "linger.ms": 0,
                "message.max.bytes": 100_000_000,
            }
        )
        try:
            producer.init_transactions(self._seconds)
        except KafkaException as error:
            raise refused(error) from None
        self._producer = producer
        self._has_written = True

    def end(self, seconds: float) -> int:
        """Of the topic, as the brokers tell it."""
        with self._making:
            if self._looker is None:
                self._looker = Consumer({**self._settings, "group.id": f"{self.owner}-reader"})
        try:
            _, high = self._looker.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=seconds)
        except KafkaException as error:
            raise refused(error) from None
        return int(high)

    def read_up_to(self, end: int) -> None:
        if end > self._known_end:
            self.wait_for(end)
            self._known_end = max(end, self._known_end)

    def resign(self) -> None:
        self._producer = None

    def _end_with_a_record(self) -> None:
        """Behind the marker of the last transaction. Registries that read records alone, such as Karapace, wait for the
        last offset before they serve, and would wait for the marker for ever."""
        producer = Producer({**self._settings, "message.timeout.ms": int(min(self._seconds, END_SECONDS) * 1000)})
        key, value = noop_record().encoded()
        failed: list[KafkaError] = []
        producer.produce(self._topic, value, key, 0, on_delivery=telling([], failed))
        if producer.flush(self._seconds) or failed:
            log.warning("%s ends with the marker of a transaction, for which other registries may wait", self._topic)

    def write(self, records: Sequence[Record]) -> int:
        """All or none, in order; returns when they are read back, with the offset behind the last."""
        producer = self._producer
        if producer is None:
            raise NotLeader
        encoded = [record.encoded() for record in records]  # what cannot be must not leave a transaction open
        try:
            offsets = self._committed(producer, encoded)
        except RegistryError:
            raise
        except BufferError:
            self.resign()
            raise store_failed("its queue is full") from None
        except Exception as error:
            # Whether it was committed is not known: the next writer fences this one, and reads what became of it.
            self.resign()
            cause = told_error(error)
            if not isinstance(cause, KafkaException):
                raise
            raise refused(cause) from None
        self.wait_for(offsets[-1] + 1)
        if offsets[0] == self._known_end and len(offsets) == offsets[-1] + 1 - offsets[0]:
            self._known_end = offsets[-1] + 2
        return offsets[-1] + 1

    def _committed(self, producer: Producer, encoded: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        """The offsets at which they are."""
        offsets: list[int] = []
        failed: list[KafkaError] = []
        told = telling(offsets, failed)
        producer.begin_transaction()
        for key, value in encoded:
            producer.produce(self._topic, value, key, 0, on_delivery=told)
        producer.flush(self._seconds)
        if failed or len(offsets) < len(encoded):
            # librdkafka would purge what it is given next, too: another writer takes over.
            self.resign()
            producer.abort_transaction(self._seconds)
            raise too_large_or_failed(failed)
        producer.commit_transaction(self._seconds)
        return offsets


def telling(offsets: list[int], failed: list[KafkaError]) -> Callable[[KafkaError | None, Any], None]:
    def told(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            failed.append(error)

    return told


def refused(error: KafkaException) -> Exception:
    cause = error.args[0]
    if cause.code() in FENCED:
        return NotLeader()
    if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return RegistryError(42209, "Write failed because schema is too large")
    if cause.code() in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._MSG_TIMED_OUT):
        return timed_out(str(cause))
    return store_failed(str(cause))


def too_large_or_failed(failed: list[KafkaError]) -> Exception:
    return refused(KafkaException(failed[0])) if failed else timed_out("the broker did not take the records in time")
