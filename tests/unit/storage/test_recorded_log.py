"""A folder that Apache Kafka 4.3 wrote: every codec, rolled segments, committed, aborted and open transactions."""

import shutil
from pathlib import Path

import pytest

from moldau.storage.log import PartitionLog
from tests.support.logs import open_log, records_from, settings

RECORDED = Path(__file__).parent / "recorded_log"
WRITTEN_AT = 1794823706251
CONFIG = settings(segment_ms=60000)


def reopened(folder: Path, *, clean: bool) -> PartitionLog:
    return open_log(str(folder), clean_shutdown=clean, config=CONFIG, now=lambda: WRITTEN_AT)


@pytest.mark.parametrize("missing", ["nothing", "everything that can be derived"])
def test_it_is_read_and_left_as_kafka_would_leave_it(tmp_path, missing):
    folder = tmp_path / "events-0"
    shutil.copytree(RECORDED, folder)
    clean = missing == "nothing"
    if not clean:
        for path in folder.iterdir():
            if path.suffix != ".log" and path.name != "partition.metadata":
                path.unlink()
    log = reopened(folder, clean=clean)
    assert (log.log_start_offset, log.log_end_offset, log.segments.bases) == (0, 48, [0, 16, 32])
    assert log.leader_epochs.entries == [(0, 0)]
    values = {record.offset: record.value for record in records_from(log, 0)}
    assert sorted(values) == list(range(48))
    for offset, tag in (
        (0, b"none"),
        (4, b"gzip"),
        (8, b"snappy"),
        (12, b"lz4"),
        (16, b"zstd"),
        (20, b"idem"),
        (46, b"open"),
    ):
        assert values[offset].startswith(tag + b" value 0")
    assert log.aborted_transactions(0, 48) == [(1, 33, 37, 38), (1, 40, 42, 38)]
    assert log.last_stable_offset(48) == 46 and log.producers.has_ongoing_txn(2, 0)
    assert {producer: entry.last_sequence for producer, entry in log.producers.items()} == {0: 8, 1: 8, 2: 5}
    assert log.offset_for_timestamp(1794800130001)[:2] == (30, 1794800130001)
    log.close(clean=True)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert kept == {path.name: path.read_bytes() for path in RECORDED.iterdir()}
