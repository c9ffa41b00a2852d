"""The partition log: appending, reading, rolling, truncation, deletion, restart."""

import os
from dataclasses import replace

import pytest

from moldau.storage.errors import LogIOError, OffsetOutOfRangeError, RefusedBatchError
from moldau.storage.log import PartitionLog
from moldau.types.errors import ErrorCode
from moldau.wire.batch import parse_header
from moldau.wire.records import iter_batches
from tests.fakes.lossy_files import LossyFiles
from tests.support.logs import (
    NOW,
    append,
    batch,
    info_of,
    open_log,
    read_bytes,
    records_from,
    settings,
    stage,
    values_from,
)


def test_nothing_is_visible_before_the_commit(new_log):
    log = new_log()
    data = batch(b"a", b"b")
    assert stage(log, data, epoch=4) == 0
    assert stage(log, batch(b"c"), epoch=4) == 2
    assert log.staged and log.log_end_offset == 0 and log.size_bytes == 0 and log.leader_epochs.latest == -1
    commit = log.commit()
    assert commit[:2] == (0, 3) and not commit.rolled and not log.staged
    assert values_from(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert parse_header(data).leader_epoch == 4 and log.leader_epochs.entries == [(4, 0)]


def test_a_term_begins_where_the_log_ends_even_without_a_batch(new_log):
    log = new_log()
    log.begin_epoch(2)
    assert log.leader_epochs.entries == [(2, 0)] and log.epoch_end_offset(2) == (2, 0)
    append(log, b"a", b"b", epoch=2)
    log.begin_epoch(5)
    log.begin_epoch(6)
    assert log.leader_epochs.entries == [(2, 0), (6, 2)]
    append(log, b"c", epoch=6)
    assert log.leader_epochs.entries == [(2, 0), (6, 2)] and log.epoch_end_offset(2) == (2, 2)


def test_a_term_that_begins_while_a_batch_is_staged_begins_with_the_next_one(new_log):
    log = new_log()
    stage(log, batch(b"a"), epoch=0)
    log.begin_epoch(1)
    stage(log, batch(b"b"), epoch=1)
    log.commit()
    assert log.leader_epochs.entries == [(0, 0), (1, 1)]


def test_an_empty_commit_does_nothing(new_log):
    log = new_log()
    assert log.commit() == (0, 0, 0, False)


def test_more_batches_than_one_system_call_takes(new_log):
    log = new_log()
    for number in range(2500):
        stage(log, batch(b"%d" % number))
    log.commit()
    assert values_from(log) == [(n, b"%d" % n) for n in range(2500)]


def test_a_read_begins_with_the_batch_that_contains_the_offset(new_log):
    log = new_log()
    for _ in range(3):
        append(log, b"1", b"2", b"3")
    for offset in range(9):
        first = next(iter_batches(read_bytes(log, offset)))
        assert first.header.base_offset == offset // 3 * 3


def test_a_read_returns_whole_batches_within_its_limit(new_log):
    log = new_log(config=settings(index_interval_bytes=100))
    sizes = [len(batch(bytes(10 * n))) for n in range(30)]
    for number in range(30):
        append(log, bytes(10 * number))
    for offset in range(30):
        for count in range(1, 31 - offset):
            wanted = sum(sizes[offset : offset + count])
            for slack in (0, 1, 60, 70):
                found = log.read(offset, wanted + slack, 30)
                assert found.length == wanted and found.next_offset == offset + count


def test_the_first_batch_is_returned_even_if_it_is_too_large(new_log):
    log = new_log()
    append(log, bytes(100_000))
    append(log, bytes(100_000))
    assert log.read(0, 10, 2).length == len(batch(bytes(100_000)))
    assert log.read(0, 10, 2).next_offset == 1
    assert log.read(0, 10, 2, min_one=False).length == 0
    assert log.read(1, 150_000, 2, min_one=False).length == len(batch(bytes(100_000)))


def test_no_read_passes_the_given_offset(new_log):
    log = new_log(config=settings(segment_bytes=250, index_interval_bytes=100))
    for _ in range(12):
        append(log, b"1", b"2")
    assert len(log.segments) > 3
    for limit in range(0, 25, 2):
        for offset in range(limit):
            found = [b.header.next_offset for b in iter_batches(read_bytes(log, offset, max_offset=limit))]
            assert found and max(found) <= limit
        assert read_bytes(log, limit, max_offset=limit) == b""
    # In the middle of a batch: the batch is left out.
    assert read_bytes(log, 2, max_offset=3) == b""


def test_offsets_outside_the_log(new_log):
    log = new_log()
    append(log, b"1")
    assert log.read(1, 100, 1).length == 0
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRangeError) as error:
            log.read(offset, 100, 1)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_roll_by_size(new_log):
    size = len(batch(b"x" * 50))
    log = new_log(config=settings(segment_bytes=3 * size))
    for _ in range(7):
        append(log, b"x" * 50)
    assert log.segments.bases == [0, 3, 6]
    for _ in range(8):
        stage(log, batch(b"x" * 50))
    assert log.commit().rolled
    assert log.segments.bases == [0, 3, 6, 9, 12]
    assert [offset for offset, _ in values_from(log)] == list(range(15))


def test_segments_roll_by_the_age_of_their_first_record(new_log):
    log = new_log(config=settings(segment_ms=1000))
    for timestamp in (NOW, NOW + 1000, NOW - 5000, NOW + 1001, NOW + 1002):
        append(log, timestamp=timestamp)
    assert log.segments.bases == [0, 3]


def test_within_one_commit_segments_roll_by_age_as_well(new_log):
    log = new_log(config=settings(segment_ms=1000))
    for timestamp in (NOW, NOW + 1001, NOW + 1002, NOW + 3000):
        stage(log, batch(timestamp=timestamp))
    log.commit()
    assert log.segments.bases == [0, 1, 3]


def test_without_timestamps_segments_roll_by_the_clock(new_log):
    clock = [NOW]
    log = new_log(config=settings(segment_ms=1000), now=lambda: clock[0])
    append(log, timestamp=-1)
    clock[0] += 1000
    append(log, timestamp=-1)
    clock[0] += 1
    append(log, timestamp=-1)
    assert log.segments.bases == [0, 2]


def test_jitter_makes_a_segment_roll_earlier(new_log):
    log = new_log(config=settings(segment_ms=1000, segment_jitter_ms=500), jitter=lambda spread: spread - 100)
    log.roll()
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 1000)  # the first segment of a log has no jitter
    append(log, timestamp=NOW + 1001)
    append(log, timestamp=NOW + 1602)
    assert log.segments.bases == [0, 2, 3]


def test_a_compacted_topic_rolls_for_its_compaction_lag(new_log):
    log = new_log(config=settings(cleanup_policy="compact", max_compaction_lag_ms=500))
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 501)
    assert log.segments.bases == [0, 1]


def test_segments_roll_when_an_index_is_full(new_log):
    log = new_log(config=settings(segment_index_bytes=40, index_interval_bytes=0))
    for number in range(10):
        append(log, timestamp=NOW + number)
    # 40 bytes are 5 offset entries or 3 time entries, one of which is kept for the roll.
    assert log.segments.bases == [0, 3, 6, 9]
    for number in range(10):
        stage(log, batch(timestamp=NOW + 10 + number))
    log.commit()
    assert log.segments.bases == list(range(0, 20, 3))


def test_segments_roll_before_an_offset_is_too_far_from_the_first(new_log):
    log = new_log()
    log.append_as_follower(batch(b"a", base_offset=0, leader_epoch=1))
    log.append_as_follower(batch(b"b", base_offset=2**31 - 1, leader_epoch=1))
    log.append_as_follower(batch(b"c", base_offset=2**31, leader_epoch=1))
    log.append_as_follower(batch(b"d", base_offset=2**33, leader_epoch=1))
    assert log.segments.bases == [0, 2**31, 2**33]
    assert values_from(log, 1) == [(2**31 - 1, b"b"), (2**31, b"c"), (2**33, b"d")]


def test_a_batch_larger_than_a_segment_is_refused(new_log):
    log = new_log(config=settings(segment_bytes=100))
    with pytest.raises(RefusedBatchError) as refused:
        stage(log, batch(bytes(100)))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE and not log.staged


def test_settings_may_change_while_the_log_is_open(new_log):
    log = new_log()
    append(log)
    log.config = settings(segment_bytes=len(batch()))
    append(log)
    assert log.segments.bases == [0, 1]


def test_a_follower_takes_offsets_and_epochs_as_they_come(new_log):
    log = new_log()
    sent = batch(b"a", base_offset=5, leader_epoch=2) + batch(b"b", b"c", base_offset=9, leader_epoch=3)
    assert log.append_as_follower(sent + batch(b"cut")[:-1])[:2] == (0, 11)
    assert log.leader_epochs.entries == [(2, 5), (3, 9)]
    assert values_from(log, 0) == [(5, b"a"), (9, b"b"), (10, b"c")]
    assert read_bytes(log, 0) == bytes(sent)
    for wrong in (batch(b"x", base_offset=10), batch(b"x", base_offset=11)[:-1] + b"!"):
        with pytest.raises(RefusedBatchError):
            log.append_as_follower(batch(b"good", base_offset=11) + wrong)
        assert log.log_end_offset == 11 and not log.staged


def test_offsets_in_gaps_lead_to_the_next_batch(new_log):
    log = new_log(config=settings(segment_bytes=200, index_interval_bytes=0, cleanup_policy="compact"))
    for base in (3, 10, 20, 21, 40):
        log.append_as_follower(batch(b"%d" % base, base_offset=base, leader_epoch=0))
    for offset in range(41):
        expected = min(base for base in (3, 10, 20, 21, 40) if base >= offset)
        assert next(iter(records_from(log, offset))).offset == expected
    assert len(log.segments) > 1


def test_a_slice_outlives_the_deletion_of_its_segment(new_log):
    log = new_log(config=settings(segment_bytes=100))
    for value in (b"a", b"b", b"c"):
        append(log, value)
    part = log.read(0, 1000, 3)
    part.file.acquire()
    log.advance_log_start(2)
    for path in log.take_deleted():
        if os.path.exists(path):
            os.unlink(path)
    assert next(iter_batches(os.pread(part.file.fileno, part.length, part.position))).header.base_offset == 0
    part.file.release()
    assert not part.file.is_open


def test_restart_after_a_clean_close_reads_no_data(new_log):
    log = new_log(config=settings(segment_bytes=500))
    for number in range(20):
        append(log, b"%d" % number, epoch=number // 8)
    log.close(clean=True)
    again = new_log(config=settings(segment_bytes=500), clean_shutdown=True)
    assert again.recovery.segments_checked == 0
    assert again.log_end_offset == again.recovery_point == 20
    assert again.leader_epochs.entries == [(0, 0), (1, 8), (2, 16)]
    assert [value for _, value in values_from(again)] == [b"%d" % n for n in range(20)]
    append(again, b"20")
    assert values_from(again, 19) == [(19, b"19"), (20, b"20")]


def test_the_recovery_point_moves_only_with_a_flush(new_log):
    log = new_log(config=settings(flush_messages=3))
    append(log, b"1", b"2")
    assert not log.flush_required()
    append(log, b"3")
    assert log.flush_required()
    work = log.flush_work(3)
    append(log, b"4")
    work()
    assert log.recovery_point == 0
    log.flushed(3)
    assert log.recovery_point == 3 and not log.flush_required()


def test_a_flush_that_a_truncation_overtakes_counts_for_nothing(new_log):
    log = new_log()
    append(log, b"1")
    append(log, b"2")
    work = log.flush_work()
    log.truncate_to(1)
    append(log, b"other")
    work()
    log.flushed(2)
    assert log.recovery_point == 0


def test_truncation_removes_every_batch_that_reaches_the_offset(new_log):
    log = new_log(config=settings(segment_bytes=300, index_interval_bytes=0))
    for number in range(8):
        append(log, b"1", b"2", epoch=number, timestamp=NOW + number)
    log.flush()
    assert not log.truncate_to(16)
    assert log.truncate_to(9)  # in the middle of the batch at 8
    assert log.log_end_offset == 8 and log.recovery_point == 7
    assert [offset for offset, _ in values_from(log)] == list(range(8))
    assert log.leader_epochs.latest == 3
    assert log.max_timestamp().timestamp == NOW + 3
    assert append(log, b"new", epoch=9) == 8
    assert values_from(log, 7) == [(7, b"2"), (8, b"new")]
    log.truncate_to(0)
    assert log.log_end_offset == 0 and log.size_bytes == 0 and log.segments.bases == [0]
    append(log, b"again")
    assert values_from(log) == [(0, b"again")]


def test_truncation_below_the_first_segment_starts_the_log_anew(new_log):
    log = new_log()
    append(log)
    log.truncate_fully_and_start_at(100)
    append(log, b"x")
    assert (log.log_start_offset, log.log_end_offset) == (100, 101)
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50) and log.segments.bases == [50]


def test_staged_batches_stand_against_truncation(new_log):
    log = new_log()
    append(log)
    stage(log, batch())
    with pytest.raises(RuntimeError):
        log.truncate_to(0)
    log.discard_staged()
    assert log.truncate_to(0)


def test_the_log_start_offset_hides_records_and_removes_whole_segments(new_log, tmp_path):
    log = new_log(config=settings(segment_bytes=200))
    for number in range(9):
        append(log, b"1", b"2", epoch=number)
    bases = log.segments.bases
    assert len(bases) > 3
    removed = log.advance_log_start(bases[2] + 1)
    assert [segment.base_offset for segment in removed] == bases[:2]
    assert log.log_start_offset == bases[2] + 1
    with pytest.raises(OffsetOutOfRangeError):
        log.read(bases[2], 100, log.log_end_offset)
    assert next(iter(records_from(log, bases[2] + 1))).offset == bases[2] + 1
    assert log.leader_epochs.earliest.start_offset == bases[2] + 1
    deleted = [path for path in log.take_deleted() if os.path.exists(path)]
    assert deleted and all(path.endswith(".deleted") for path in deleted) and not log.take_deleted()
    assert log.advance_log_start(3) == []


def test_removing_all_segments_leaves_an_empty_one_at_the_end(new_log):
    log = new_log(config=settings(segment_bytes=300))
    for _ in range(9):
        append(log)
    log.remove_segments(list(log.segments))
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (9, 9, 0)
    assert log.segments.bases == [9]
    append(log, b"x")
    assert values_from(log, 9) == [(9, b"x")]


def test_the_owner_may_rename_the_folder(new_log, tmp_path):
    log = new_log(config=settings(segment_bytes=300))
    for _ in range(5):
        append(log)
    os.rename(log.folder, tmp_path / "moved")
    log.moved_to(str(tmp_path / "moved"))
    for _ in range(5):
        append(log)
    assert len(values_from(log)) == 10
    log.close(clean=True)
    assert open_log(str(tmp_path / "moved"), clean_shutdown=True).log_end_offset == 10


def test_an_open_log_holds_few_files_open():
    files, log = lossy_log(config=settings(segment_bytes=300))
    for _ in range(50):
        append(log)
    assert files.open_handles == len(log.segments) > 10
    log.flush()
    assert files.open_handles == 1
    part = log.read(0, 100, 50)
    part.file.acquire()
    for _ in range(2):
        assert len(values_from(log)) == 50
        assert files.open_handles <= 1 + 4 + 1
    assert part.file.is_open
    part.file.release()
    assert not part.file.is_open and log.offset_for_timestamp(NOW).offset == 0
    log.close(clean=True)
    assert files.open_handles == 0
    log = open_log("/d", files=files, config=log.config, clean_shutdown=True)
    assert files.open_handles <= 1


# -- a disk that fails ------------------------------------------------------------------------------------------------


def lossy_log(**options: object) -> tuple[LossyFiles, PartitionLog]:
    files = LossyFiles()
    files.make_directory("/d")
    return files, open_log("/d", files=files, **options)


@pytest.mark.parametrize("room", [0, 1, 50, 74, 75, 100, 140])
def test_a_short_or_failed_write_fails_the_whole_group_and_leaves_no_trace(room):
    files, log = lossy_log()
    append(log, b"before", producer_id=1, producer_epoch=0, base_sequence=0)
    size = log.size_bytes
    for sequence in (1, 2):
        stage(log, batch(b"lost", producer_id=1, producer_epoch=0, base_sequence=sequence), epoch=7)
    files.fail_writes = room
    with pytest.raises(LogIOError) as error:
        log.commit()
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == log.staged_end_offset == 1 and log.size_bytes == size and not log.staged
    assert log.producers.get(1).last_sequence == 0 and log.leader_epochs.latest == 0
    assert files.status("/d/00000000000000000000.log").size == size
    files.fail_writes = None
    with pytest.raises(LogIOError):
        stage(log, batch())
    files.kill()
    again = open_log("/d", files=files)
    assert values_from(again) == [(0, b"before")] and again.recovery.cut is None


def test_a_group_over_two_segments_keeps_what_was_written_before_the_failure():
    size = len(batch())
    files, log = lossy_log(config=settings(segment_bytes=3 * size))
    for _ in range(5):
        stage(log, batch())
    files.fail_writes = 3 * size + 40
    with pytest.raises(LogIOError):
        log.commit()
    assert log.log_end_offset == 3
    files.fail_writes = None
    files.kill()
    assert open_log("/d", files=files).log_end_offset == 3


def test_a_failed_sync_is_told_and_moves_nothing():
    files, log = lossy_log()
    append(log)
    files.fail_syncs = True
    work = log.flush_work()
    with pytest.raises(LogIOError):
        work()
    assert log.recovery_point == 0
    with pytest.raises(LogIOError):
        log.flush()
    assert log.failed
    log.close(clean=True)
    assert files.open_handles == 0


def test_preallocated_space_is_cut_when_the_segment_is_complete():
    files, log = lossy_log(config=replace(settings(segment_bytes=400), preallocate=True))
    for _ in range(8):
        append(log)
    path = "/d/00000000000000000000.log"
    active = log.segments.active
    assert files.status(path).size == log.segments[0].size < 400 == files.status(active.file.path).size
    files.kill()
    again = open_log("/d", files=files, config=log.config)
    assert again.log_end_offset == 8 and again.recovery.cut is None
    append(again)
    again.close(clean=True)
    last = open_log("/d", files=files, config=log.config, clean_shutdown=True)
    assert [offset for offset, _ in values_from(last)] == list(range(9))


def test_info_of_a_batch_names_its_kind():
    info = info_of(batch(transactional=True, control=True))
    assert info.is_transactional and info.is_control
    assert not info_of(batch()).is_transactional


def test_a_follower_takes_no_batch_of_a_later_epoch_than_its_leaders(new_log, tmp_path):
    (tmp_path / "follower").mkdir()
    leader, follower = new_log(), open_log(str(tmp_path / "follower"))
    append(leader, b"0", epoch=3)
    append(leader, b"1", epoch=5)
    sent = read_bytes(leader, 0)
    with pytest.raises(RefusedBatchError) as refused:
        follower.append_as_follower(sent, 4)
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (follower.log_end_offset, follower.staged) == (0, False)
    follower.append_as_follower(sent, 5)
    assert values_from(follower) == values_from(leader)
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
