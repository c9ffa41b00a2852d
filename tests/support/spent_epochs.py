"""A transactional id that has used nearly all epochs of its producer id, without the 32,000 transactions for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moldau.coordinators.machine import StateRecord
from moldau.coordinators.transactions.records import read_record, transaction_record
from moldau.coordinators.transactions.state import EPOCH_PER_TRANSACTION, Transaction
from moldau.wire.records import Record, build_batch, iter_batches, iter_records
from tests.support.process import BrokerProcess
from tests.support.segments import partition_folder, segment_files

#: The settings of a broker whose transactional ids all lie in one partition.
ONE_PARTITION = {"transaction.state.log.num.partitions": 1}


def spend_epochs(broker: BrokerProcess, transactional_ids: Iterable[str], epoch: int) -> None:
    """Starts the broker again with a record more for each id in its `__transaction_state`, as it writes them itself."""
    code = broker.stop()
    assert code == 0, broker.output()
    (segment,) = segment_files(partition_folder(broker.data, "__transaction_state"))
    *_, last = iter_batches(segment.read_bytes())
    states = last_states(segment.read_bytes())
    records = [record_of(replace(states[one], producer_epoch=epoch)) for one in transactional_ids]
    with segment.open("ab") as file:
        header = last.header
        file.write(build_batch(records, base_offset=header.next_offset, leader_epoch=header.leader_epoch))
    # The broker would trust these, and they say that nothing stands behind what it wrote itself.
    (broker.data / ".kafka_cleanshutdown").unlink()
    (broker.data / "recovery-point-offset-checkpoint").unlink()
    broker.start()


def last_states(stored: bytes) -> dict[str, Transaction]:
    found = {}
    for batch in iter_batches(stored):
        for record in iter_records(batch):
            assert record.key is not None
            transactional_id, state = read_record(StateRecord(record.key, record.value))
            if state is not None:
                found[transactional_id] = state
    return found


def record_of(state: Transaction) -> Record:
    key, value = transaction_record(state, EPOCH_PER_TRANSACTION)
    return Record(key=key, value=value, timestamp=state.last_update_ms)
