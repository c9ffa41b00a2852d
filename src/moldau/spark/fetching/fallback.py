"""The same rows through librdkafka, for SASL mechanisms that only it knows (GSSAPI, OAUTHBEARER).

Each consumed message becomes a record of a batch in memory, which the same kernel turns into columns, so that the rows
cannot differ. It is slower: librdkafka makes an object of every message. It does not tell topic ids, so a topic that
was deleted and created again is noticed only by its offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.client.librdkafka import translate
from moldau.kernels import RecordColumns
from moldau.spark.errors import ClusterUnavailable, DataLoss, SourceError
from moldau.spark.fetching.partition_fetcher import LOG
from moldau.spark.fetching.read_settings import LARGEST_BATCH_BYTES, ReadSettings
from moldau.wire.batch import CREATE_TIME, HEADER_SIZE, LOG_APPEND_TIME
from moldau.wire.records import Record, build_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.fetching.arrow import Assembler
    from moldau.spark.planning.split import Split

Consumer = Any
Message = Any

MESSAGES_AT_ONCE: Final = 10_000
POLL_SECONDS: Final = 0.5
NO_GROUP: Final = "moldau-spark-reader"
FOREVER: Final = 2**63 - 1


def read_with_librdkafka(
    split: Split, settings: ReadSettings, assembler: Assembler, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    built = RecordColumns(assembler.want, assembler.row_bytes, settings.low_timestamp, settings.high_timestamp)
    room = min(settings.batch_bytes, LARGEST_BATCH_BYTES)
    for messages in LibrdkafkaSplit(split, settings, properties):
        for head, payload, last_offset in as_batches(messages):
            position = 0
            while position <= last_offset:
                position = built.append_batch(head, payload, position, split.end, room)
                if position <= last_offset:
                    yield assembler.batch(built.take())
    if built.rows:
        yield assembler.batch(built.take())


class LibrdkafkaSplit:
    """Lists of messages of one split, in order."""

    def __init__(
        self,
        split: Split,
        settings: ReadSettings,
        properties: Mapping[str, str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._split = split
        self._monotonic = monotonic
        self._settings = settings
        self._config: dict[str, Any] = {
            **translate(properties),
            "group.id": NO_GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": settings.isolation,
            "check.crcs": settings.check_crcs,
            "queued.max.messages.kbytes": settings.budget_bytes // 1024,
        }

    def __iter__(self) -> Iterator[list[Message]]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(self._config)
        try:
            place = TopicPartition(self._split.topic, self._split.partition, self._start(consumer))
            consumer.assign([place])
            yield from self._messages(consumer)
        finally:
            consumer.close()

    def _messages(self, consumer: Consumer) -> Iterator[list[Message]]:
        from confluent_kafka import TopicPartition

        moved = self._monotonic()
        here = TopicPartition(self._split.topic, self._split.partition)
        while True:
            arrived = consumer.consume(MESSAGES_AT_ONCE, POLL_SECONDS)
            messages = [message for message in arrived if message.error() is None]
            ended = any(self._is_end(message) for message in arrived)
            if arrived:
                moved = self._monotonic()
            wanted = [message for message in messages if message.offset() < self._split.end]
            if wanted:
                yield wanted
            (position,) = consumer.position([here])
            if len(wanted) < len(messages) or position.offset >= self._split.end or ended:
                return
            if self._monotonic() - moved > self._settings.timeout_seconds:
                raise ClusterUnavailable(
                    f"cannot read {self._name} at offset {max(position.offset, self._split.start)}: nothing came for "
                    f"{self._settings.timeout_seconds:g} s (kafkaConsumer.pollTimeoutMs)"
                )

    @property
    def _name(self) -> str:
        return f"{self._split.topic}-{self._split.partition}"

    def _is_end(self, message: Message) -> bool:
        """Whether this message says that the log has ended, beyond the split's end; raises other errors."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                return False
            raise SourceError(f"cannot read {self._name}: {error.str()}")
        reached: int = message.offset()
        if reached < self._split.end:
            LOG.debug("%s: end of the log at %d, waiting for %d", self._name, reached, self._split.end)
        return reached >= self._split.end

    def _start(self, consumer: Consumer) -> int:
        """Where to begin; a log that does not reach there is data loss."""
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(self._split.topic, self._split.partition)
        try:
            first, last = consumer.get_watermark_offsets(place, timeout=self._settings.timeout_seconds)
        except KafkaException as error:
            raise ClusterUnavailable(f"cannot read {self._name}: {error}") from error
        start = self._split.start
        problem = ""
        if start < first:
            gone = min(first, self._split.end) - 1
            problem = f"{self._name}: offsets {start} to {gone} are gone, the log begins at {first}"
        elif start > last:
            problem = f"{self._name}: offset {start} is wanted, but the log ends at {last}"
        if problem and self._settings.fail_on_data_loss:
            raise DataLoss(problem)
        if problem:
            LOG.warning("%s; going on with what is there, since failOnDataLoss is false", problem)
        return int(min(max(start, first), last))


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
