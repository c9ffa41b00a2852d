"""What compaction leaves of single batches and small logs, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.storage.compaction.job import CleanedGroup, CleaningJob, run_job
from moldau.storage.compaction.offset_map import ENTRY_BYTES, OffsetMap, digest
from moldau.storage.compaction.rewrite import BatchFilter, LastRecord, PassRules, index_batch
from moldau.storage.compaction.transactions import CleanedTransactions
from moldau.storage.errors import CorruptLogError
from moldau.storage.files import OsFiles
from moldau.storage.index import OFFSET_ENTRY
from moldau.storage.txn_index import AbortedTxn
from moldau.wire.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records import Batch, Record, build_batch, iter_batches, iter_records
from tests.support.compacted import CompactedFolder


def batch_of(*keys: str, base: int = 0, value: bytes | None = b"v", **options: object) -> bytes:
    records = [Record(value, key.encode(), 100 + index) for index, key in enumerate(keys)]
    return build_batch(records, base_offset=base, **options)  # type: ignore[arg-type]


def parsed(raw: bytes | memoryview | None) -> Batch:
    assert raw is not None
    return next(iter_batches(raw))


def keys_of(raw: bytes | memoryview | None) -> list[bytes | None]:
    return [record.key for record in iter_records(parsed(raw))]


def clean_one(
    raw: bytes,
    later: dict[str, int] | None = None,
    *,
    now_ms: int = 0,
    latest: int = 100,
    end: int = 100,
    live: dict[int, LastRecord] | None = None,
    aborted: tuple[AbortedTxn, ...] = (),
) -> bytes | memoryview | None:
    offsets = OffsetMap(1 << 20)
    for key, offset in (later or {}).items():
        offsets.put(key.encode(), offset)
    offsets.latest_offset = latest
    rules = PassRules(now_ms, 1000, end, live or {})
    return BatchFilter(offsets, CleanedTransactions(aborted, 0), rules).apply(parsed(raw))


def test_a_batch_that_loses_nothing_stays_byte_for_byte() -> None:
    raw = batch_of("a", "b", codec=4)
    kept = clean_one(raw, {"c": 9})
    assert kept is not None
    assert bytes(kept) == raw


def test_superseded_records_go_and_offsets_stay() -> None:
    raw = batch_of("a", "b", "c", base=10, producer_id=7, producer_epoch=1, base_sequence=5, leader_epoch=3)
    kept = parsed(clean_one(raw, {"a": 50, "b": 11, "c": 60}))
    assert [(record.offset, record.key, record.timestamp) for record in iter_records(kept)] == [(11, b"b", 101)]
    header = kept.header
    assert (header.base_offset, header.last_offset, header.base_sequence, header.last_sequence) == (10, 12, 5, 7)
    assert (header.leader_epoch, header.max_timestamp, header.count) == (3, 101, 1)


def test_records_beyond_the_map_stay_whatever_their_key() -> None:
    raw = build_batch([Record(b"v", None, 1), Record(b"v", b"a", 1)], base_offset=10)
    assert keys_of(clean_one(raw, {"a": 50}, latest=9)) == [None, b"a"]
    assert clean_one(raw, {"a": 50}, latest=11) is None


def test_a_tombstone_gets_a_horizon_and_goes_when_it_has_passed() -> None:
    raw = batch_of("a", "b", value=None)
    marked = clean_one(raw, now_ms=500)
    assert parsed(marked).header.delete_horizon == 1500
    assert [record.timestamp for record in iter_records(parsed(marked))] == [100, 101]
    assert marked is not None
    again = clean_one(bytes(marked), now_ms=1499)
    assert again is not None
    assert bytes(again) == bytes(marked), "the horizon is set once"
    assert clean_one(bytes(marked), now_ms=1500) is None


def test_a_horizon_stays_when_records_go() -> None:
    marked = clean_one(batch_of("a", "b", value=None), now_ms=500)
    assert marked is not None
    left = parsed(clean_one(bytes(marked), {"a": 50}, now_ms=600))
    assert left.header.delete_horizon == 1500
    assert [(record.key, record.timestamp) for record in iter_records(left)] == [(b"b", 101)]


def test_the_last_batch_of_a_live_producer_keeps_its_head() -> None:
    raw = batch_of("a", base=5, producer_id=7, producer_epoch=2, base_sequence=9, codec=3)
    assert clean_one(raw, {"a": 50}) is None
    assert clean_one(raw, {"a": 50}, live={7: LastRecord(6, 2)}) is None
    head = parsed(clean_one(raw, {"a": 50}, live={7: LastRecord(5, 2)})).header
    assert (head.count, head.codec, head.size) == (0, 0, 61)
    assert (head.last_offset, head.last_sequence, head.producer_epoch, head.max_timestamp) == (5, 9, 2, 100)


def test_an_emptied_batch_goes_when_its_producer_is_gone() -> None:
    raw = batch_of("a", base=5, producer_id=7, producer_epoch=2, base_sequence=9)
    head = clean_one(raw, {"a": 50}, live={7: LastRecord(5, 2)})
    assert head is not None
    assert clean_one(bytes(head)) is None
    kept = clean_one(bytes(head), live={7: LastRecord(5, 2)})
    assert kept is not None
    assert bytes(kept) == bytes(head)


def test_the_last_batch_of_a_pass_keeps_its_head() -> None:
    assert parsed(clean_one(batch_of("a", "b"), {"a": 50, "b": 50}, end=2)).header.count == 0


def test_aborted_data_goes_whatever_its_keys() -> None:
    raw = batch_of("a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert clean_one(raw, aborted=(AbortedTxn(7, 0, 5, 6),)) is None
    assert keys_of(clean_one(raw, aborted=(AbortedTxn(8, 0, 5, 6),))) == [b"a"]


def test_a_marker_without_data_gets_a_horizon_and_goes_when_it_has_passed() -> None:
    marker = build_end_transaction_batch(
        EndTransactionMarker(True, 0), producer_id=7, producer_epoch=3, timestamp=100, base_offset=4
    )
    marked = clean_one(marker, now_ms=0)
    assert parsed(marked).header.delete_horizon == 1000
    assert marked is not None
    assert clean_one(bytes(marked), now_ms=1000) is None
    only_marker_known = {7: LastRecord(None, 3)}
    assert parsed(clean_one(bytes(marked), now_ms=1000, live=only_marker_known)).header.count == 0
    assert clean_one(bytes(marked), now_ms=1000, live={7: LastRecord(None, 4)}) is None


def test_log_append_time_stays_the_time_of_every_record() -> None:
    raw = batch_of("a", "b", log_append_time=777)
    left = parsed(clean_one(raw, {"a": 50}))
    assert [record.timestamp for record in iter_records(left)] == [777]


def test_the_map_takes_the_first_batch_whole_and_stops_when_full() -> None:
    offsets = OffsetMap(2 * ENTRY_BYTES)
    none = CleanedTransactions((), 0)
    assert index_batch(offsets, parsed(batch_of("a", "b", "c")), none, 0)
    assert (len(offsets), offsets.latest_offset) == (3, 2)
    assert not index_batch(offsets, parsed(batch_of("d", base=3)), none, 0)
    assert offsets.latest_offset == 2


def test_the_map_leaves_out_what_is_not_dirty() -> None:
    offsets = OffsetMap(1 << 20)
    assert index_batch(offsets, parsed(batch_of("a", "b", "c", base=5)), CleanedTransactions((), 6), 6)
    assert [offsets.get(key) for key in (b"a", b"b", b"c", b"d")] == [-1, 6, 7, -1]


def test_digests_of_different_keys_differ() -> None:
    keys = [b"", b"a", b"0123456789abcde", b"0123456789abcdef", b"x" * 100, b"x" * 101]
    assert len({digest(key) for key in keys}) == len(keys)
    assert all(len(digest(key)) <= 16 for key in keys)


def test_a_damaged_batch_stops_the_job_instead_of_getting_a_right_checksum(tmp_path: Path) -> None:
    folder = CompactedFolder(tmp_path)
    folder.add_segment([batch_of("a"), batch_of("b", base=1)])
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=rf"{path}: corrupt at byte {len(data) // 2}"):
        folder.clean(2)


def test_a_cut_segment_stops_the_job(tmp_path: Path) -> None:
    folder = CompactedFolder(tmp_path)
    folder.add_segment([batch_of("a"), batch_of("b", base=1)])
    path = tmp_path / "00000000000000000000.log"
    job = folder.job(2)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptLogError, match="no whole record batch"):
        list(run_job(OsFiles(), job, lambda _: None))


def test_batches_larger_than_a_read_are_cleaned(tmp_path: Path) -> None:
    folder = CompactedFolder(tmp_path)
    large = b"x" * 3_000_000
    folder.add_segment(
        [
            build_batch([Record(large, b"a", 1), Record(b"1", b"b", 1)]),
            build_batch([Record(large, b"c", 1)], base_offset=2),
            batch_of("b", base=3),
        ]
    )
    folder.clean(4)
    assert [(record.offset, record.key) for record in folder.records()] == [(0, b"a"), (2, b"c"), (3, b"b")]


def test_small_segments_become_one_and_the_indexes_fit(tmp_path: Path) -> None:
    folder = CompactedFolder(tmp_path)
    for base in range(0, 60, 3):
        folder.add_segment([batch_of(f"k{base}", f"k{base + 1}", "same", base=base)])
    result = folder.clean(60, segment_bytes=800)
    assert (result.records_read, result.records_kept) == (60, 41)
    assert [group.base_offset for group in folder.last_groups] == folder.bases
    assert len(folder.bases) < 20
    assert result.bytes_written == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    for base in folder.bases:
        places, position = {}, 0
        for batch in iter_batches((tmp_path / f"{base:020d}.log").read_bytes()):
            places[position] = batch.header.last_offset
            position += batch.header.size
        entries = list(OFFSET_ENTRY.iter_unpack((tmp_path / f"{base:020d}.index").read_bytes()))
        assert entries and all(places[position] == base + offset for offset, position in entries)


def test_a_job_waits_after_each_group(tmp_path: Path) -> None:
    folder = CompactedFolder(tmp_path)
    for base in range(3):
        folder.add_segment([batch_of("k", base=base)])
    job = folder.job(3, segment_bytes=1)
    assert CleaningJob.from_json(job.to_json()) == job
    events = run_job(OsFiles(), job, lambda _: None)
    assert next(events) == CleanedGroup(0, (0,), 0)
    assert sorted(path.name for path in tmp_path.glob("*.log.cleaned")) == ["00000000000000000000.log.cleaned"]
