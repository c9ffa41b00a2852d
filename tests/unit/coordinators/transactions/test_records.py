"""Records of `__transaction_state`: what Apache Kafka 4.3 wrote is read, and written again byte for byte."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from moldau.coordinators.machine import RecordContext, StateRecord
from moldau.coordinators.transactions.records import read_record, tombstone, transaction_record
from moldau.coordinators.transactions.state import Transaction, TransactionStatus
from moldau.types.ids import TopicPartition
from moldau.wire.codec import DecodeError
from moldau.wire.records import iter_batches, iter_records
from tests.fakes.transaction_shard import TransactionShard

DATA = Path(__file__).parent / "data"


def recorded() -> list[StateRecord]:
    """All that a real broker wrote: clients of both kinds, every state, levels 0 and 2 of `transaction.version`."""
    data = (DATA / "transaction_state_by_kafka.log").read_bytes()
    records = [record for batch in iter_batches(data) for record in iter_records(batch)]
    return [StateRecord(record.key, record.value) for record in records if record.key is not None]


def test_the_recording_holds_every_state() -> None:
    found = [read_record(record)[1] for record in recorded()]
    assert {one.status for one in found if one is not None} == set(TransactionStatus) - {
        TransactionStatus.DEAD, TransactionStatus.PREPARE_EPOCH_FENCE,
    }  # fmt: skip


@pytest.mark.parametrize("record", recorded(), ids=lambda record: record.key[4:].decode())
def test_writes_what_kafka_wrote(record: StateRecord) -> None:
    assert record.value is not None
    (version,) = struct.unpack_from(">h", record.value)
    _, transaction = read_record(record)
    assert transaction is not None
    ours = transaction_record(transaction, 2 if version else 0)
    assert ours.key == record.key
    assert len(ours.value or b"") == len(record.value) and read_record(ours)[1] == transaction
    if len(transaction.partitions) < 2:  # several have no order
        assert ours.value == record.value


def test_loads_what_kafka_wrote() -> None:
    shard = TransactionShard()
    for record in recorded():
        shard.machine.replay(record, RecordContext(0, 0, None))
    for wanted in json.loads((DATA / "transaction_state_by_kafka.json").read_text()):
        found = shard.transaction(wanted["transactional_id"])
        assert found.status.name.replace("_", "").lower() == wanted["transaction_state"].lower()
        assert (found.producer_id, found.producer_epoch) == (wanted["producer_id"], wanted["producer_epoch"])
        assert (found.timeout_ms, found.start_ms) == (wanted["transaction_timeout"], wanted["transaction_start_time"])
        places = {TopicPartition(one["topic"], index) for one in wanted["topics"] for index in one["partitions"]}
        assert found.partitions == places


def test_tombstone_removes() -> None:
    record = tombstone("id")
    assert record.value is None and read_record(record) == ("id", None)


def test_older_level_leaves_out_what_older_releases_cannot_read() -> None:
    transaction = Transaction("id", 5, 3, 1000, previous_producer_id=4, next_producer_id=6, version=2)
    stored = read_record(transaction_record(transaction, 0))[1]
    assert stored == Transaction("id", 5, 3, 1000)


def test_record_of_a_later_release() -> None:
    record = transaction_record(Transaction("id", 5, 3, 1000), 2)
    assert record.value is not None
    with pytest.raises(DecodeError):
        read_record(StateRecord(record.key, struct.pack(">h", 2) + record.value[2:]))
    shard = TransactionShard()
    shard.machine.replay(StateRecord(struct.pack(">h", 1) + record.key[2:], record.value), RecordContext(0, 0, None))
    assert shard.machine.transactions == {}
