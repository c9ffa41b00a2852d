"""The same rows through librdkafka, for logins that only it knows: OAUTHBEARER with a signed assertion, and GSSAPI
where the package gssapi is not there.

Each consumed message becomes a record of a batch in memory, which the same kernel turns into columns, so that the rows
cannot differ. It is slower: librdkafka makes an object of every message. Data loss is judged by the same rules; whether
the topic is still the planned one is looked up when a split begins and when something is wrong, not with every fetch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.client.librdkafka import make_client, translate
from moldau.client.settings import ClientSettings
from moldau.kernels import RecordColumns
from moldau.spark.errors import ClusterUnavailable, SourceError, out_of_patience
from moldau.spark.fetching.loss import LossPolicy
from moldau.spark.fetching.read_settings import LARGEST_BATCH_BYTES, ReadSettings
from moldau.spark.kafka_keys import under_kafka_names
from moldau.spark.planning.librdkafka_catalog import AWAY, UNKNOWN, LibrdkafkaCatalog
from moldau.spark.planning.offsets import EARLIEST, LATEST
from moldau.types.error_codes import RETRIABLE
from moldau.types.ids import TopicPartition
from moldau.wire.batch import CREATE_TIME, HEADER_SIZE, LOG_APPEND_TIME
from moldau.wire.records import Record, build_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.fetching.arrow import Assembler
    from moldau.spark.split import Split

Consumer = Any
Message = Any

MESSAGES_AT_ONCE: Final = 10_000
POLL_SECONDS: Final = 0.5
NO_GROUP: Final = "moldau-spark-reader"
SMALL_RECORD_BYTES: Final = 64
"""No more messages at once than fill an Arrow batch, were they as small as this."""
LARGEST_FETCH_BYTES: Final = 1_000_000_000
FULL_QUEUE_MS: Final = 10
"""librdkafka's own pause when its queue is full, a second, is longer than a task takes to empty it."""


def read_with_librdkafka(
    split: Split, settings: ReadSettings, assembler: Assembler, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    built = RecordColumns(assembler.want, assembler.row_bytes, settings.low_timestamp, settings.high_timestamp)
    room = min(settings.batch_bytes, LARGEST_BATCH_BYTES)
    for messages in under_kafka_names(lambda: LibrdkafkaSplit(split, settings, properties)):
        for head, payload, last_offset in as_batches(messages):
            position = 0
            while position <= last_offset:
                position = built.append_batch(head, payload, position, split.end, room)
                if position <= last_offset:
                    yield assembler.batch(built.take())
    if built.rows:
        yield assembler.batch(built.take())


class Meaning(Enum):
    """What a message without a record says."""

    PASSING = auto()
    END = auto()
    MISPLACED = auto()
    """The offset, or the topic, is not there."""


class Log(NamedTuple):
    first: int
    reach: int
    """Where readers have to stop: before the first open transaction, or at the end with read_uncommitted."""
    last: int


class LibrdkafkaSplit:
    """Lists of messages of one split, in order."""

    def __init__(
        self,
        split: Split,
        settings: ReadSettings,
        properties: Mapping[str, str],
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._split = split
        self._settings = settings
        self._properties = properties
        self._policy = LossPolicy(split, settings)
        self._monotonic = monotonic
        self._sleep = sleep
        client = ClientSettings.from_properties(properties)
        self._pause = client.backoff_seconds
        self._patience_seconds = client.total_seconds
        self._catalog = LibrdkafkaCatalog(client, properties)
        self._at_once = max(1, min(MESSAGES_AT_ONCE, settings.batch_bytes // SMALL_RECORD_BYTES))
        self._moved = monotonic()
        self._problem = "nothing came"
        self._was_away = False
        """A broker has been, since the last message: that time is no wait for records."""

    def _config(self) -> dict[str, Any]:
        settings = self._settings
        return {
            **translate(self._properties),
            "group.id": NO_GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": settings.isolation,
            "check.crcs": settings.check_crcs,
            "fetch.wait.max.ms": settings.max_wait_ms,
            "max.partition.fetch.bytes": min(settings.fetch_bytes, LARGEST_FETCH_BYTES),
            "queued.max.messages.kbytes": max(1, settings.budget_bytes // 1024),
            "fetch.queue.backoff.ms": FULL_QUEUE_MS,
        }

    def __iter__(self) -> Iterator[list[Message]]:
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as Place

        position = self._settled(self._split.start)
        if position is None:
            return
        consumer: Any = under_kafka_names(lambda: make_client(Consumer, self._config(), self._properties))
        try:
            self._moved = self._monotonic()
            while position is not None:
                consumer.assign([Place(self._split.topic, self._split.partition, position)])
                position = yield from self._run(consumer, position)
        finally:
            consumer.close()

    def _run(self, consumer: Consumer, position: int) -> Generator[list[Message], None, int | None]:
        """Messages from here on while all is well; gives the offset to begin anew from, or None at the end."""
        while position < self._split.end:
            arrived = consumer.consume(1, POLL_SECONDS)
            if arrived:
                arrived += consumer.consume(self._at_once, 0)
            messages = [message for message in arrived if message.error() is None]
            wanted = [message for message in messages if message.offset() < self._split.end]
            if wanted:
                yield wanted
                position, self._moved, self._was_away = wanted[-1].offset() + 1, self._monotonic(), False
            said = {self._meaning(position, message) for message in arrived if message.error() is not None}
            if len(wanted) < len(messages) or Meaning.END in said:
                return None
            if self._monotonic() - self._moved > self._settings.timeout_seconds:
                return self._given_up(position)
            if Meaning.MISPLACED in said:
                self._sleep(self._pause)
                return self._settled(position)
        return None

    def _meaning(self, position: int, message: Message) -> Meaning:
        from confluent_kafka import KafkaError

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return Meaning.END if message.offset() >= self._split.end else Meaning.PASSING
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, *UNKNOWN):
            return Meaning.MISPLACED
        if error.retriable() or error.code() in AWAY or error.code() in RETRIABLE:
            self._problem = error.str()
            self._was_away = True
            return Meaning.PASSING
        raise SourceError(self._policy.said(position, error.str()))

    # -- what is there -------------------------------------------------------------------------------------------

    def _settled(self, position: int) -> int | None:
        """Where to go on, now that the log was looked at; None if nothing is left."""
        log = self._look(position)
        if log is None:
            return None
        if log.first <= position <= log.last:
            return position
        self._moved = self._monotonic()
        return self._policy.outside(position, log.first, log.last)

    def _given_up(self, position: int) -> int | None:
        log = self._look(position)
        if log is None:
            return None
        if not log.first <= position <= log.last:
            self._moved = self._monotonic()
            return self._policy.outside(position, log.first, log.last)
        if self._was_away:
            self._moved, self._was_away = self._monotonic(), False
            return position
        if log.reach >= self._split.end:
            raise self._policy.waited_in_vain(self._policy.said(position, self._problem))
        held_back = self._policy.held_back(log.reach, log.last)
        if held_back is not None:
            raise self._policy.waited_in_vain(self._policy.said(position, held_back))
        self._policy.lost(self._policy.short(log.reach))
        return None

    def _look(self, position: int) -> Log | None:
        """The log of the planned topic; None if it is gone and that may be."""
        known = self._monotonic()
        while True:
            try:
                view = self._catalog.described([self._split.topic]).get(self._split.topic)
                if view is not None and view.topic_id not in (None, self._split.topic_id or view.topic_id):
                    self._policy.lost(self._policy.recreated)
                    return None
                log = None if view is None else self._log()
                if log is not None:
                    return log
                if self._monotonic() - known > self._settings.missing_seconds:
                    self._policy.topic_gone(position)
                    return None
            except ClusterUnavailable as error:
                raise out_of_patience(self._policy.said(position, str(error)), self._patience_seconds) from error
            self._sleep(self._pause)

    def _log(self) -> Log | None:
        place = TopicPartition(self._split.topic, self._split.partition)
        committed = self._settings.committed
        asked = ((EARLIEST, False), (LATEST, committed), (LATEST, False))
        found = [self._catalog.offsets({place: time}, committed=level).get(place) for time, level in asked]
        first, reach, last = found
        return None if first is None or reach is None or last is None else Log(first, reach, last)


def as_batches(messages: list[Message]) -> Iterator[tuple[bytes, bytes, int]]:
    """Messages as the records section of batches: (head, records, last offset), one for each kind of timestamp."""
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

    start = 0
    for index in range(1, len(messages) + 1):
        kind = messages[start].timestamp()
        appended = kind[0] == TIMESTAMP_LOG_APPEND_TIME
        if index < len(messages):
            other = messages[index].timestamp()
            if (other[0] == TIMESTAMP_LOG_APPEND_TIME) == appended and (not appended or other[1] == kind[1]):
                continue
        run = messages[start:index]
        first, last = run[0].offset(), run[-1].offset()
        batch = build_batch(
            [as_record(message) for message in run],
            base_offset=first,
            offsets=[message.offset() for message in run],
            timestamp_type=LOG_APPEND_TIME if appended else CREATE_TIME,
            log_append_time=kind[1] if appended else None,
        )
        yield batch[:HEADER_SIZE], batch[HEADER_SIZE:], last
        start = index


def as_record(message: Message) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(message.value(), message.key(), message.timestamp()[1], headers, message.offset())
