"""Records of `__transaction_state`.

key    int16 0, string transactional id
value  int16 version (0, or 1 with tagged fields), then the fields below; null is a tombstone
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.coordinators.machine import StateRecord
from moldau.coordinators.record_codec import decode_key, decode_value, encode_record, kind_of
from moldau.coordinators.transactions.state import Transaction, TransactionStatus
from moldau.types.ids import TopicPartition
from moldau.wire.codec import DecodeError
from moldau.wire.schema import NEVER, Field, Message, Struct

KIND = 0
#: From this `transaction.version` on values have tagged fields.
TAGGED_FROM = 1


class TransactionKey(Message):
    __slots__ = ("transactional_id",)
    API_KEY = KIND
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = NEVER
    FIELDS = (Field("transactional_id", "string", 0, 0),)

    def __init__(self, *, transactional_id: str = "") -> None:
        self.transactional_id = transactional_id


class TransactionTopic(Struct):
    __slots__ = ("partition_ids", "topic")
    FIELDS = (
        Field("topic", "string", 0, 1),
        Field("partition_ids", "int32", 0, 1, array=True),
    )

    def __init__(self, *, topic: str = "", partition_ids: Sequence[int] = ()) -> None:
        self.topic = topic
        self.partition_ids = partition_ids


class TransactionValue(Message):
    __slots__ = (
        "client_transaction_version", "next_producer_id", "previous_producer_id", "producer_epoch", "producer_id",
        "transaction_last_update_timestamp_ms", "transaction_partitions", "transaction_start_timestamp_ms",
        "transaction_status", "transaction_timeout_ms",
    )  # fmt: skip
    API_KEY = KIND
    FIRST_VERSION, LAST_VERSION = 0, 1
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("producer_id", "int64", 0, 1),
        Field("previous_producer_id", "int64", 1, 1, tag=0, tagged_from=1, default=-1),
        Field("next_producer_id", "int64", 1, 1, tag=1, tagged_from=1, default=-1),
        Field("producer_epoch", "int16", 0, 1),
        Field("transaction_timeout_ms", "int32", 0, 1),
        Field("transaction_status", "int8", 0, 1),
        Field("transaction_partitions", TransactionTopic, 0, 1, array=True, nullable_from=0, nullable_to=1),
        Field("transaction_last_update_timestamp_ms", "int64", 0, 1),
        Field("transaction_start_timestamp_ms", "int64", 0, 1),
        Field("client_transaction_version", "int16", 1, 1, tag=2, tagged_from=1),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: Sequence[TransactionTopic] | None = (),
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version


def transaction_record(transaction: Transaction, transaction_version: int) -> StateRecord:
    """As the cluster's `transaction.version` wants it: what older releases cannot read is left out."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    value = TransactionValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status,
        # An id without a transaction has no list at all.
        transaction_partitions=None
        if transaction.status is TransactionStatus.EMPTY
        else [TransactionTopic(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()],
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
    )
    version = 1 if transaction_version >= TAGGED_FROM else 0
    return encode_record(KIND, TransactionKey(transactional_id=transaction.transactional_id), value, version)


def tombstone(transactional_id: str) -> StateRecord:
    return encode_record(KIND, TransactionKey(transactional_id=transactional_id), None)


def read_record(record: StateRecord) -> tuple[str, Transaction | None]:
    """The transactional id, and its state unless the record removes it. Raises DecodeError."""
    if kind_of(record.key) != KIND:
        raise DecodeError(f"a record of kind {kind_of(record.key)} in __transaction_state")
    transactional_id = decode_key(TransactionKey, record.key).transactional_id
    value = decode_value(TransactionValue, record.value)
    if value is None:
        return transactional_id, None
    return transactional_id, Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        TransactionStatus(value.transaction_status),
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
