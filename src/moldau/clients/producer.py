"""The producer: records in, deliveries out, transactions."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from moldau.client.librdkafka import make_client
from moldau.clients import interceptors, partitioners, properties, serializers
from moldau.clients.delivery import Callback, Delivery, Reports, acknowledged, told
from moldau.clients.errors import (
    BufferExhausted,
    ClientError,
    DeliveryFailed,
    KafkaFailure,
    SerializationFailed,
    UndeliveredRecords,
    failure,
)
from moldau.clients.lookups import partitions_for
from moldau.clients.records import Headers, OffsetAndMetadata, PartitionInfo, ProducerRecord, TopicPartition
from moldau.clients.transactions import Transaction, Transactions

if TYPE_CHECKING:
    import confluent_kafka

ANY_PARTITION: Final = -1
SERVE_EVERY: Final = 64
"""Sends, between which delivery reports wait. A power of two."""
MOST_RECORDS: Final = 100_000
"""In librdkafka's buffer, unless queue.buffering.max.messages says another number."""
LOSES_IDEMPOTENCE: Final = "enable.idempotence"


class Producer:
    """Sends records to a Kafka cluster. It is safe to share between threads, and faster than several.

    `properties` have Java's names; keywords are the same with `_` for `.`, as in `Producer(bootstrap_servers="…")`.
    `key.serializer` and `value.serializer` are names ("string", "json", "avro", …), classes, objects or functions;
    without one, keys and values are bytes. As in Java's producer, sends are idempotent with acks=all unless the
    properties say something that excludes it.

    Use it in a `with` block, or call `close()`: both wait for what was sent, and raise UndeliveredRecords if something
    was lost that nobody had asked about.
    """

    def __init__(self, properties_: Mapping[str, object] | None = None, /, **more: object) -> None:
        import confluent_kafka

        given = properties.merged(properties_, more)
        self._encode_key = serializers.encoder(given.get("key.serializer", "bytes"), given, is_key=True)
        self._encode_value = serializers.encoder(given.get("value.serializer", "bytes"), given, is_key=False)
        self._heads_key = serializers.with_headers(self._encode_key)
        self._heads_value = serializers.with_headers(self._encode_value)
        self._plain_keys = given.get("key.serializer", "bytes") == "bytes"
        self._plain_values = given.get("value.serializer", "bytes") == "bytes"
        self._chain = interceptors.made(given.get(interceptors.SETTING), given)
        chosen = partitioners.chosen(given.get(partitioners.SETTING), given)
        self._monotonic = time.monotonic
        self._max_block_seconds = properties.seconds(given, "max.block.ms", 60_000)
        settings = properties.librdkafka(given, producer_defaults(given))
        if isinstance(chosen, str):
            settings["partitioner"] = chosen
        self._partitioner = None if isinstance(chosen, str) else chosen
        self._needs_record = bool(
            self._chain or self._partitioner is not None or self._heads_key is not None or self._heads_value is not None
        )
        self._client: confluent_kafka.Producer = make_client(
            confluent_kafka.Producer, settings, properties.texts(given)
        )
        self._cluster = partitioners.Cluster(
            self.partitions_for, properties.seconds(given, "metadata.max.age.ms", 300_000)
        )
        self._produce = self._client.produce
        self._reports = Reports(self._client, str(given.get("client.id", "producer")))
        self._transactions = Transactions(self._client, self._reports, given)
        self.most_records = int(settings.get("queue.buffering.max.messages", MOST_RECORDS))
        self.is_full = False
        """Whether a record waits for room in the buffer."""
        self.waits_until = float("inf")
        """None does so for longer than this, by the monotonic clock."""
        self._closed = False
        self._close_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except UndeliveredRecords as lost:
            if error is None:
                raise
            error.add_note(str(lost))

    def __del__(self) -> None:
        reports = getattr(self, "_reports", None)
        if reports is not None and not self._closed:
            reports.abandon()
            warnings.warn("a Producer was forgotten without close()", ResourceWarning, stacklevel=2)

    # -- sending -------------------------------------------------------------------------------------------------

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
    ) -> Delivery:
        """Puts a record into the buffer and returns at once; it waits only while the buffer is full (max.block.ms).

        Takes a topic and a value, or a ProducerRecord. What became of it: ignore the result and hear of losses at
        `close`; or `send(…).result()`; or `on_delivery(metadata, error)`, which is called with one of the two."""
        if self._closed:
            raise ClientError("this producer is closed: make another one")
        if isinstance(topic, ProducerRecord):
            return self._send_record(topic, on_delivery)
        if self._needs_record:
            return self._send_record(
                ProducerRecord(topic, value, key, partition, timestamp, header_list(headers)), on_delivery
            )
        if not (self._plain_keys and (key is None or key.__class__ is bytes)):
            key = self._encode(self._encode_key, topic, "the key", key)
        if not (self._plain_values and value.__class__ is bytes):
            value = self._encode(self._encode_value, topic, "the value", value)
        return self._hand_over(topic, value, key, partition, timestamp, headers, on_delivery)

    def _send_record(self, record: ProducerRecord, on_delivery: Callback | None) -> Delivery:
        record = interceptors.before_send(self._chain, record)
        headers: serializers.HeaderList = list(record.headers)
        key = self._encoded(self._encode_key, self._heads_key, record, "the key", record.key, headers)
        value = self._encoded(self._encode_value, self._heads_value, record, "the value", record.value, headers)
        partition = record.partition
        if partition is None and self._partitioner is not None:
            partition = self._partitioner.partition(record.topic, record.key, key, record.value, value, self._cluster)
        return self._hand_over(record.topic, value, key, partition, record.timestamp, headers or None, on_delivery)

    def _encoded(
        self,
        encode: serializers.Encode,
        heads: serializers.EncodeWithHeaders | None,
        record: ProducerRecord,
        part: str,
        value: Any,
        headers: serializers.HeaderList,
    ) -> bytes | None:
        if heads is None:
            return self._encode(encode, record.topic, part, value)
        return self._encode(lambda topic, value: heads(topic, headers, value), record.topic, part, value)

    def _encode(self, encode: serializers.Encode, topic: str, part: str, value: Any) -> bytes | None:
        try:
            return encode(topic, value)
        except Exception as error:
            raise SerializationFailed(topic, part, error) from error

    def _hand_over(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: Headers | None,
        on_delivery: Callback | None,
    ) -> Delivery:
        reports = self._reports
        delivery = Delivery(reports, topic)
        if on_delivery is not None:
            delivery.add_done_callback(told(on_delivery))
        if self._chain:
            delivery._watch(acknowledged(self._chain))
        place = ANY_PARTITION if partition is None else partition
        try:
            if timestamp is None and headers is None:
                self._produce(topic, value, key, place, delivery._reported)
            else:
                self._produce(topic, value, key, place, delivery._reported, None, timestamp or 0, headers)  # type: ignore[arg-type]
        except BufferError:
            self._hand_over_slowly(topic, value, key, place, timestamp, headers, delivery)
        except Exception as error:
            raise self._refusal(error, topic, partition) from None
        reports.sends = sends = reports.sends + 1
        if not sends & (SERVE_EVERY - 1):
            reports.serve(0)
        return delivery

    def _hand_over_slowly(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        place: int,
        timestamp: int | None,
        headers: Headers | None,
        delivery: Delivery,
    ) -> None:
        """While the buffer is full."""
        self.is_full = True
        deadline = self._monotonic() + self._max_block_seconds
        while True:
            self._reports.serve(min(0.05, self._max_block_seconds))
            try:
                self._produce(topic, value, key, place, delivery._reported, None, timestamp or 0, headers)  # type: ignore[arg-type]
            except BufferError:
                if self._monotonic() > min(deadline, self.waits_until):
                    raise BufferExhausted(
                        "record not sent",
                        cause=f"the buffer was full for max.block.ms={self._max_block_seconds * 1000:g}",
                        code="_QUEUE_FULL",
                        topic=topic,
                        retriable=True,
                    ) from None
            except Exception as error:
                raise self._refusal(error, topic, place) from None
            else:
                self.is_full = False
                return

    def _refusal(self, error: Exception, topic: str, partition: int | None) -> Exception:
        import confluent_kafka

        if isinstance(error, confluent_kafka.KafkaException):
            return failure(error, "record not sent", topic=topic, partition=partition, kind=DeliveryFailed)
        return error

    # -- looking -------------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic; waits for the cluster at most max.block.ms."""
        return partitions_for(self._client, topic, self._max_block_seconds)

    def __len__(self) -> int:
        """How many records are under way."""
        return len(self._client)

    def __bool__(self) -> bool:
        return True

    # -- transactions --------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A block whose records, and offsets given to it, become visible together at its end, or not at all.

        Needs `transactional.id`. An exception aborts, and is raised; what the cluster refuses raises TransactionAborted
        (the block may be tried again) or ProducerFenced (another producer has this id: close this one).
        """
        return Transaction(self._transactions)

    def init_transactions(self, timeout: float = 60.0) -> None:
        """Ends what an earlier producer with this id left open. `transaction()` calls it where need be."""
        self._transactions.init(timeout)

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def commit_transaction(self, timeout: float = 60.0) -> None:
        self._transactions.commit(timeout)

    def abort_transaction(self, timeout: float = 60.0) -> None:
        self._transactions.abort(timeout)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: object,
        timeout: float = 60.0,
    ) -> None:
        """Commits what was read together with what is written; `group_metadata` comes from the consumer."""
        self._transactions.send_offsets(offsets, group_metadata, timeout)

    # -- ending --------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> int:
        """Sends what is in the buffer and waits for the answers; returns how many are still missing."""
        import confluent_kafka

        try:
            return int(self._client.flush(-1 if timeout is None else timeout))
        except confluent_kafka.KafkaException as error:
            raise failure(error, "not all was sent") from None
        except SystemError:
            # confluent-kafka has lost the error of one callback in another one. Each record's fate is told by itself,
            # and what is fatal by the next call.
            return len(self._client)

    def close(self, timeout: float | None = None) -> None:
        """Waits for all that was sent, at most `timeout` seconds; then gives up the rest. Raises UndeliveredRecords if
        records were lost whose delivery nobody asked about. A second call does nothing."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        if self._left_after_flush(timeout):
            self._client.purge()
            self._left_after_flush(1.0)
        self._reports.close()
        self._reports.serve(0)
        interceptors.close(self._chain)
        failures, count = self._reports.unseen()
        if count:
            raise UndeliveredRecords(failures, count)

    def _left_after_flush(self, timeout: float | None) -> int:
        try:
            return self.flush(timeout)
        except KafkaFailure:  # fatal, and told already
            return len(self._client)


def header_list(headers: Headers | None) -> list[tuple[str, bytes | str | None]]:
    return list(headers.items() if isinstance(headers, Mapping) else headers or ())


def producer_defaults(given: Mapping[str, object]) -> dict[str, str]:
    """Java's producer is idempotent unless a property is set that it cannot be idempotent with."""
    excluded = (
        properties.text(given.get("acks", "all")) not in ("all", "-1")
        or properties.whole(given, "retries", 1) == 0
        or properties.whole(given, "max.in.flight.requests.per.connection", 5) > 5
    )
    defaults = dict(properties.PRODUCER)
    if excluded:
        del defaults[LOSES_IDEMPOTENCE]
    return defaults
