"""Finding offsets by time and by epoch, and the indexes below."""

import pytest

from moldau.storage.epochs import LeaderEpochCache
from moldau.storage.files import OsFiles
from moldau.storage.index import OffsetIndex, TimeIndex
from moldau.wire.records import Record, build_batch
from tests.support.logs import NOW, append, settings, stage


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("reopened", [False, True])
def test_the_first_record_at_or_after_a_time(new_log, codec, reopened):
    config = settings(segment_bytes=600, index_interval_bytes=150)
    log = new_log(config=config)
    times = [10, 30, 20, 40, 40, 35, 90, 50, 60, 95, 95, 100, 97, 120, 110]
    for first in range(0, len(times), 3):
        for _ in range(2):
            records = [Record(value=b"v" * 20, timestamp=NOW + time) for time in times[first : first + 3]]
            stage(log, bytearray(build_batch(records, codec=codec)), epoch=first)
        log.commit()
    stored = [time for first in range(0, len(times), 3) for _ in range(2) for time in times[first : first + 3]]
    assert len(log.segments) > 1
    if reopened:
        log.close(clean=True)
        log = new_log(config=config, clean_shutdown=True)
    for wanted in range(130):
        expected = next((offset for offset, time in enumerate(stored) if time >= wanted), None)
        found = log.offset_for_timestamp(NOW + wanted)
        if expected is None:
            assert found is None
        else:
            assert (found.offset, found.timestamp) == (expected, NOW + stored[expected])
            assert found.leader_epoch == expected // 6 * 3
    largest = log.max_timestamp()
    assert (largest.offset, largest.timestamp) == (stored.index(120), NOW + 120)
    log.advance_log_start(8)
    assert log.offset_for_timestamp(NOW).offset == 8


def test_log_append_time_counts_for_all_records_of_a_batch(new_log):
    log = new_log()
    for time in (5, 7, 9):
        records = [Record(value=b"v", timestamp=NOW + 100) for _ in range(2)]
        stage(log, bytearray(build_batch(records, log_append_time=NOW + time)))
    log.commit()
    assert log.offset_for_timestamp(NOW + 6)[:2] == (2, NOW + 7)
    assert log.max_timestamp()[:2] == (4, NOW + 9)


def test_a_log_without_timestamps(new_log):
    log = new_log()
    assert log.max_timestamp() is None and log.offset_for_timestamp(0) is None
    append(log, timestamp=-1)
    assert log.max_timestamp() is None and log.offset_for_timestamp(0) is None


def test_end_offsets_of_epochs():
    epochs = LeaderEpochCache("/d")
    for epoch, start in ((2, 10), (4, 20), (7, 30)):
        epochs.assign(epoch, start)
    answers = {epoch: tuple(epochs.end_offset_for(epoch, 50)) for epoch in range(-1, 9)}
    assert answers == {
        -1: (-1, -1),
        0: (0, 10),
        1: (1, 10),
        2: (2, 20),
        3: (2, 20),
        4: (4, 30),
        5: (4, 30),
        6: (4, 30),
        7: (7, 50),
        8: (-1, -1),
    }
    assert [epochs.epoch_of(offset) for offset in (9, 10, 19, 20, 29, 30, 99)] == [-1, 2, 2, 4, 4, 7, 7]
    assert epochs.encode() == b"0\n3\n2 10\n4 20\n7 30\n"


def test_a_contradicting_epoch_replaces_later_ones():
    epochs = LeaderEpochCache("/d")
    for epoch, start in ((2, 10), (4, 20), (7, 30), (5, 25)):
        epochs.assign(epoch, start)
    assert epochs.entries == [(2, 10), (4, 20), (5, 25)]
    epochs.assign(6, 20)
    assert epochs.entries == [(2, 10), (6, 20)]
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15), (6, 20)]
    epochs.truncate_from_start(20)
    assert epochs.entries == [(6, 20)]
    epochs.truncate_from_end(20)
    assert epochs.entries == []


@pytest.mark.parametrize("sealed", [False, True])
def test_offset_index(tmp_path, sealed):
    index = OffsetIndex(OsFiles(), str(tmp_path / "0.index"), 100)
    index.reset()
    for number in range(1, 2001):
        index.append(100 + 10 * number, 50 * number)
    if sealed:
        index.seal()
        assert (tmp_path / "0.index").stat().st_size == 2000 * 8
        assert (tmp_path / "0.index").read_bytes()[:16] == bytes.fromhex("0000000a000000320000001400000064")
    assert index.entries == 2000
    assert [index.floor(offset) for offset in (0, 109, 110, 119, 120, 20100, 99999)] == [
        0,
        0,
        50,
        50,
        100,
        100000,
        100000,
    ]
    assert [index.floor_position(position) for position in (0, 49, 50, 99, 10**9)] == [0, 0, 50, 50, 100000]
    assert index.last() == (20100, 100000)
    index.truncate_to(125)
    assert index.last() == (120, 100) and index.entries == 2
    index.truncate_to(110)
    assert index.last() is None
    index.append(105, 7)
    index.persist()
    again = OffsetIndex(OsFiles(), str(tmp_path / "0.index"), 100)
    assert again.last() == (105, 7) and again.entries == 1


@pytest.mark.parametrize("sealed", [False, True])
def test_time_index(tmp_path, sealed):
    index = TimeIndex(OsFiles(), str(tmp_path / "0.timeindex"), 100)
    index.reset()
    for number in range(1, 1001):
        index.append_if_later(NOW + 10 * number, 100 + number)
        index.append_if_later(NOW + 10 * number, 200 + number)
    if sealed:
        index.seal()
        assert (tmp_path / "0.timeindex").stat().st_size == 1000 * 12
    assert index.floor(NOW) == (-1, 100)
    assert index.floor(NOW + 10) == (NOW + 10, 101) and index.floor(NOW + 29) == (NOW + 20, 102)
    assert index.last() == (NOW + 10000, 1100)
    index.truncate_to(103)
    assert index.last() == (NOW + 20, 102) and index.entries == 2
