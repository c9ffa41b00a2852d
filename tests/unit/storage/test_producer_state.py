"""Idempotent and transactional producers: the rules, alone and through the log."""

import pytest

from moldau.storage.batch_info import Origin
from moldau.storage.errors import DuplicateBatchError, RefusedBatchError
from moldau.storage.log import PartitionLog
from moldau.storage.producer_snapshots import CorruptSnapshotError, decode_snapshot, encode_snapshot
from moldau.storage.producer_state import BatchMark, ProducerEntry, ProducerStates
from moldau.types.errors import ErrorCode
from moldau.wire.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.logs import DAY_MS, NOW, TOPIC_PARTITION, append, batch, info_of, settings, stage

LAST_SEQUENCE = 2**31 - 1


def produce(
    log: PartitionLog, sequence: int, *, count: int = 1, pid: int = 7, epoch: int = 0, **options: object
) -> int:
    values = [b"v"] * count
    return append(log, *values, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, **options)


def refused(log: PartitionLog, *args: int, **options: object) -> ErrorCode:
    end = log.staged_end_offset
    with pytest.raises(RefusedBatchError) as error:
        produce(log, *args, **options)  # type: ignore[arg-type]
    assert log.staged_end_offset == end
    return error.value.code


def end_txn(log: PartitionLog, *, commit: bool, pid: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    marker = EndTransactionMarker(commit, coordinator_epoch)
    data = bytearray(build_end_transaction_batch(marker, producer_id=pid, producer_epoch=epoch, timestamp=NOW))
    offset = stage(log, data, origin=Origin.COORDINATOR)
    log.commit()
    return offset


# -- idempotence ------------------------------------------------------------------------------------------------------


def test_batches_must_follow_each_other(new_log):
    log = new_log()
    assert produce(log, 0, count=3) == 0
    assert produce(log, 3) == 3
    assert refused(log, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, 3, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 4) == 4


def test_the_last_five_batches_may_come_again(new_log):
    log = new_log()
    for number in range(7):
        produce(log, 2 * number, count=2)
    for number in range(2, 7):
        with pytest.raises(DuplicateBatchError) as duplicate:
            produce(log, 2 * number, count=2)
        assert (duplicate.value.base_offset, duplicate.value.last_offset) == (2 * number, 2 * number + 1)
        assert duplicate.value.timestamp == NOW
    assert refused(log, 2, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, 12, count=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 14


def test_staged_batches_count(new_log):
    log = new_log()
    first = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    stage(log, first)
    stage(log, batch(producer_id=7, producer_epoch=0, base_sequence=1))
    with pytest.raises(DuplicateBatchError) as duplicate:
        stage(log, batch(producer_id=7, producer_epoch=0, base_sequence=1))
    assert duplicate.value.base_offset == 1
    with pytest.raises(RefusedBatchError):
        stage(log, batch(producer_id=7, producer_epoch=0, base_sequence=3))
    assert log.producers.get(7) is None
    log.commit()
    assert log.log_end_offset == 2 and log.producers.get(7).last_sequence == 1
    stage(log, batch(producer_id=7, producer_epoch=0, base_sequence=2))
    log.discard_staged()
    assert produce(log, 2) == 2


def test_sequences_start_again_at_zero_after_the_largest(new_log):
    log = new_log()
    assert produce(log, LAST_SEQUENCE - 1, count=2) == 0
    assert produce(log, 0, count=2) == 2
    with pytest.raises(DuplicateBatchError):
        produce(log, LAST_SEQUENCE - 1, count=2)
    assert log.producers.get(7).last_sequence == 1
    assert produce(log, 2) == 4


def test_a_batch_across_the_largest_sequence(new_log):
    log = new_log()
    produce(log, LAST_SEQUENCE - 1, count=4)
    assert log.producers.get(7).last_sequence == 1
    with pytest.raises(DuplicateBatchError) as duplicate:
        produce(log, LAST_SEQUENCE - 1, count=4)
    assert duplicate.value.base_offset == 0
    assert produce(log, 2) == 4


def test_an_unknown_producer_may_begin_anywhere(new_log):
    log = new_log()
    assert produce(log, 1234) == 0
    assert produce(log, 1235) == 1


def test_a_new_epoch_begins_at_zero_and_fences_the_old(new_log):
    log = new_log()
    produce(log, 0)
    assert refused(log, 3, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, epoch=1) == 1
    assert refused(log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(log, 1, epoch=1) == 2


def test_coordinators_write_without_sequences(new_log):
    log = new_log()
    for _ in range(3):
        append(log, producer_id=7, producer_epoch=1, transactional=True, origin=Origin.COORDINATOR)
    with pytest.raises(RefusedBatchError) as error:
        append(log, producer_id=7, producer_epoch=0, transactional=True, origin=Origin.COORDINATOR)
    assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_expire_unless_in_a_transaction(new_log):
    clock = [NOW]
    log = new_log(now=lambda: clock[0])
    produce(log, 0, pid=1)
    produce(log, 0, pid=2, transactional=True)
    produce(log, 0, pid=3, timestamp=NOW + 5)
    log.producers.remove_expired(NOW + DAY_MS - 1)
    assert len(log.producers) == 3
    log.producers.remove_expired(NOW + DAY_MS)
    assert [pid for pid, _ in log.producers.items()] == [2, 3]
    assert produce(log, 77, pid=1) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_the_state_survives_a_restart(new_log, clean):
    options = {"config": settings(segment_bytes=400)}
    log = new_log(**options)
    produce(log, 0, pid=1)
    produce(log, 0, pid=2)
    for number in range(1, 12):
        produce(log, number, pid=1)
        produce(log, 10 + number, pid=9, transactional=True)
    assert len(log.segments) > 3
    log.close(clean=clean)
    log = new_log(**options, clean_shutdown=clean)
    with pytest.raises(DuplicateBatchError):
        produce(log, 11, pid=1)
    assert refused(log, 13, pid=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 12, pid=1) == 24
    assert log.first_unstable_offset == 3
    assert produce(log, 22, pid=9, transactional=True) == 25


def test_truncation_takes_the_producers_back(new_log):
    log = new_log(config=settings(segment_bytes=400))
    for sequence in range(20):
        produce(log, sequence)
    assert len(log.segments) > 3
    for target in (17, 11, 3, 1):
        log.truncate_to(target)
        assert log.producers.get(7).last_sequence == target - 1
        assert produce(log, target) == target
    log.truncate_to(0)
    assert log.producers.get(7) is None


def test_snapshots_belong_to_segments_and_to_a_clean_end(new_log, tmp_path):
    log = new_log(config=settings(segment_bytes=300))
    for sequence in range(11):
        produce(log, sequence)
    bases = log.segments.bases

    def snapshots() -> list[int]:
        return sorted(int(path.stem) for path in tmp_path.glob("*/*.snapshot"))

    assert snapshots() == bases[1:]
    log.advance_log_start(bases[2])
    assert snapshots() == bases[3:] or snapshots() == bases[2:]
    log.close(clean=True)
    assert snapshots()[-1] == 11
    again = new_log(config=settings(segment_bytes=300), clean_shutdown=True, log_start_offset=bases[2])
    assert again.producers.get(7).last_sequence == 10


def test_a_damaged_snapshot_is_passed_over(new_log, tmp_path):
    log = new_log(config=settings(segment_bytes=300))
    for sequence in range(11):
        produce(log, sequence)
    log.close(clean=True)
    for path in tmp_path.glob("*/*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    again = new_log(config=settings(segment_bytes=300), clean_shutdown=True)
    assert again.producers.get(7).last_sequence == 10
    with pytest.raises(DuplicateBatchError):
        produce(again, 8)


# -- transactions -----------------------------------------------------------------------------------------------------


def test_the_last_stable_offset_waits_for_the_first_open_transaction(new_log):
    log = new_log()
    produce(log, 0, pid=1, transactional=True)  # 0
    append(log)  # 1
    produce(log, 0, pid=2, transactional=True)  # 2
    assert log.first_unstable_offset == 0 and log.last_stable_offset(3) == 0
    end_txn(log, commit=True, pid=1)  # 3
    assert log.last_stable_offset(3) == 0, "the marker is not replicated yet"
    assert log.last_stable_offset(4) == 2
    end_txn(log, commit=False, pid=2)  # 4
    assert log.last_stable_offset(5) == 5 and log.first_unstable_offset is None
    assert log.aborted_transactions(0, 5) == [(2, 2, 4, 5)]
    assert log.aborted_transactions(0, 2) == [] and log.aborted_transactions(5, 9) == []


def test_aborted_transactions_are_found_across_segments_and_restarts(new_log):
    options = {"config": settings(segment_bytes=300)}
    log = new_log(**options)
    expected = []
    for number in range(10):
        first = produce(log, 2 * number, transactional=True)
        append(log)
        produce(log, 2 * number + 1, transactional=True)
        last = end_txn(log, commit=number % 2 == 0)
        if number % 2:
            expected.append((7, first, last, last + 1))
    assert len(log.segments) > 5
    for clean in (None, True, False):
        if clean is not None:
            log.close(clean=clean)
            log = new_log(**options, clean_shutdown=clean)
        assert log.aborted_transactions(0, 100) == expected
        first = expected[2]
        assert log.aborted_transactions(first[1] + 1, first[1] + 2) == [first]
    log.truncate_to(expected[3][2])
    assert log.aborted_transactions(0, 100) == expected[:3]
    assert log.first_unstable_offset == expected[3][1]


def test_a_transaction_may_not_be_mixed_with_plain_batches(new_log):
    log = new_log()
    produce(log, 0, transactional=True)
    assert refused(log, 1) is ErrorCode.INVALID_TXN_STATE
    end_txn(log, commit=True)
    assert produce(log, 1) == 2
    assert not log.producers.has_ongoing_txn(7, 0)


def test_an_old_coordinator_is_fenced(new_log):
    log = new_log()
    produce(log, 0, transactional=True)
    end_txn(log, commit=True, coordinator_epoch=5)
    with pytest.raises(RefusedBatchError) as error:
        end_txn(log, commit=True, coordinator_epoch=4)
    assert error.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_without_records_moves_nothing(new_log):
    log = new_log()
    end_txn(log, commit=False)
    assert log.aborted_transactions(0, 10) == [] and log.last_stable_offset(1) == 1


def test_a_failed_commit_leaves_the_transaction_as_it_was(new_log):
    log = new_log()
    produce(log, 0, transactional=True)
    marker = build_end_transaction_batch(EndTransactionMarker(False, 0), producer_id=7, producer_epoch=0, timestamp=NOW)
    stage(log, bytearray(marker), origin=Origin.COORDINATOR)
    assert log.producers.first_undecided_offset() == 0
    log.discard_staged()
    assert log.producers.has_ongoing_txn(7, 0) and produce(log, 1, transactional=True) == 1


def test_a_marker_of_the_second_kind_needs_a_later_epoch(new_log):
    log = new_log()
    produce(log, 0, transactional=True)
    for epoch in (0, -1):
        with pytest.raises(RefusedBatchError) as error:
            log.producers.check_marker_epoch(7, epoch)
        assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    log.producers.check_marker_epoch(7, 1)
    end_txn(log, commit=True, epoch=1)
    log.producers.check_marker_epoch(7, 1)  # comes again, ends nothing
    log.producers.check_marker_epoch(8, 0)


@pytest.mark.parametrize("ends_raise_epoch", [True, False])
def test_a_late_marker_of_the_transaction_before_ends_none_where_each_has_an_epoch(new_log, ends_raise_epoch):
    log = new_log()
    produce(log, 0, transactional=True)
    remembered = log.producers.latest(7)

    def ended(epoch: int) -> bool:
        return log.producers.may_have_ended_since(remembered, 7, epoch, ends_raise_epoch=ends_raise_epoch)

    assert not ended(1), "nothing has come"
    end_txn(log, commit=True, epoch=1 if ends_raise_epoch else 0)
    assert ended(1) is not ends_raise_epoch
    assert ended(0), "its own marker"
    assert produce(log, 0, epoch=1, transactional=True) == 2
    assert not ended(1), "another batch has begun it"
    end_txn(log, commit=True, epoch=2 if ends_raise_epoch else 1)
    assert ended(1)


def test_an_ongoing_transaction_is_that_of_its_epoch(new_log):
    log = new_log()
    produce(log, 0, transactional=True)
    assert log.producers.has_ongoing_txn(7, 0)
    assert not log.producers.has_ongoing_txn(7, 1) and not log.producers.has_ongoing_txn(8, 0)


def test_every_marker_makes_a_new_entry(new_log):
    log = new_log()
    assert log.producers.latest(7) is None
    produce(log, 0, transactional=True)
    before = log.producers.latest(7)
    assert log.producers.latest(7) is before
    end_txn(log, commit=False)
    assert log.producers.latest(7) is not before


def test_a_later_batch_may_not_overtake_the_first(new_log):
    """The first one could not be verified yet; the second was faster."""
    log = new_log()
    log.producers.await_first(7, 0)
    log.producers.await_first(7, 1)
    assert refused(log, 1, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 0, transactional=True)
    produce(log, 1, transactional=True)
    log.producers.await_first(7, 0)
    produce(log, 2, transactional=True)


# -- snapshots --------------------------------------------------------------------------------------------------------


def test_snapshot_format():
    entry = ProducerEntry(3, 2, NOW, 40, (BatchMark(9, 50, 4, NOW),))
    data = encode_snapshot([(7, entry), (8, ProducerEntry(0, -1, NOW, -1, ()))])
    assert len(data) == 6 + 4 + 2 * 46 and data[:2] == b"\0\1"
    assert decode_snapshot(data) == [(7, entry), (8, ProducerEntry(0, -1, NOW, -1, ()))]
    for damaged in (b"", data[:9], data[:-1], b"\0\2" + data[2:], data[:-1] + b"\1", data + b"\0"):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(damaged)


def test_expired_producers_are_not_loaded():
    states = ProducerStates(TOPIC_PARTITION, DAY_MS)
    old = ProducerEntry(0, -1, NOW - DAY_MS, -1, ())
    states.load([(1, old), (2, old._replace(txn_first_offset=5)), (3, old._replace(last_timestamp=NOW))], 9, NOW)
    assert [pid for pid, _ in states.items()] == [2, 3]
    assert states.first_unstable_offset() == 5 and states.end_offset == 9


def test_info_carries_the_producer():
    info = info_of(batch(producer_id=7, producer_epoch=2, base_sequence=5))
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (7, 2, 5)
