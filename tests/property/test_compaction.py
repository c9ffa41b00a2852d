"""Compaction against a model: whatever the log holds, however it is cut, what readers are owed stays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.storage.compaction.rewrite import LastRecord
from moldau.storage.txn_index import AbortedTxn
from moldau.wire.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records import Record, build_batch, iter_records
from tests.support.compacted import CompactedFolder

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"longer than a digest", None])
VALUES = st.one_of(st.none(), st.binary(max_size=6))
RETENTION_MS = 1000


@dataclass(frozen=True)
class Step:
    """One batch of a producer, or the end of its transaction."""

    kind: str  # data, commit, abort
    producer: int
    records: tuple[tuple[bytes | None, bytes | None], ...]
    codec: int
    append_time: bool
    new_segment: bool


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["data", "data", "data", "commit", "abort"]),
        producer=st.sampled_from([-1, 1, 2, 11, 12]),  # from 11 on: transactional
        records=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4).map(tuple),
        codec=st.integers(0, 4),
        append_time=st.booleans(),
        new_segment=st.integers(0, 2).map(lambda n: n == 0),
    ),
    min_size=1,
    max_size=24,
)


@dataclass
class Log:
    """What was written, as the model knows it."""

    end: int = 0
    segments: list[list[bytes]] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    aborted: dict[int, list[AbortedTxn]] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    producers: dict[int, int] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    transactions: list[tuple[int, int]] = field(default_factory=list)
    """First offset and marker of each."""
    last: dict[int, LastRecord] = field(default_factory=dict)

    def append(self, batch: bytes, count: int, *, new_segment: bool) -> None:
        if new_segment or not self.segments:
            self.segments.append([])
            self.bases.append(self.end)
        self.segments[-1].append(batch)
        self.end += count


def written(steps: list[Step]) -> Log:
    log = Log()
    open_txns: dict[int, list[int]] = {}
    sequences: dict[int, int] = {}
    for step in steps:
        transactional = step.producer > 10
        if step.kind != "data":
            if open_txns.get(step.producer):
                _end_transaction(log, step, open_txns.pop(step.producer))
            continue
        at = 1000 + log.end * 10
        records = [Record(v, k, at + i, offset=log.end + i) for i, (k, v) in enumerate(step.records)]
        append_time = at if step.append_time else None
        idempotent = step.producer >= 0
        sequence = sequences.get(step.producer, 0) if idempotent else -1
        batch = build_batch(
            records,
            base_offset=log.end,
            codec=step.codec,
            transactional=transactional,
            producer_id=step.producer,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence,
            log_append_time=append_time,
        )
        for record in iter_records(batch):
            log.records[record.offset] = record
            log.producers[record.offset] = step.producer
        if idempotent:
            sequences[step.producer] = sequence + len(records)
            log.last[step.producer] = LastRecord(log.end + len(records) - 1, 0)
        if transactional:
            open_txns.setdefault(step.producer, []).extend(range(log.end, log.end + len(records)))
        log.append(batch, len(records), new_segment=step.new_segment)
    for producer, offsets in open_txns.items():
        _end_transaction(log, Step("abort", producer, (), 0, False, False), offsets)
    return log


def _end_transaction(log: Log, step: Step, offsets: list[int]) -> None:
    marker = EndTransactionMarker(step.kind == "commit", 0)
    at = 1000 + log.end * 10
    batch = build_end_transaction_batch(
        marker, producer_id=step.producer, producer_epoch=0, timestamp=at, base_offset=log.end
    )
    log.append(batch, 1, new_segment=step.new_segment)
    log.transactions.append((offsets[0], log.end - 1))
    if step.kind == "abort":
        log.dead.update(offsets)
        # The last stable offset only lets a reader stop early; the largest value makes it look everywhere.
        txn = AbortedTxn(step.producer, offsets[0], log.end - 1, 0)
        log.aborted.setdefault(log.bases[-1], []).append(txn)


def on_disk(log: Log, folder: Path) -> CompactedFolder:
    files = CompactedFolder(folder)
    for base, batches in zip(log.bases, log.segments, strict=True):
        files.add_segment(batches, base)
        if base in log.aborted:
            files.set_aborted(base, log.aborted[base])
    add_active_segment(files, log.end)
    return files


def add_active_segment(files: CompactedFolder, base_offset: int) -> None:
    files.add_segment([build_batch([Record(b"value", b"key of the active segment", 1)], base_offset=base_offset)])


def committed(log: Log, below: int) -> Iterator[Record]:
    return (record for offset, record in log.records.items() if offset < below and offset not in log.dead)


def last_per_key(records: Iterator[Record]) -> dict[bytes, Record]:
    return {record.key: record for record in records if record.key is not None}


@st.composite
def logs_and_cuts(draw: st.DrawFn) -> tuple[Log, list[int]]:
    log = written(draw(STEPS))
    if not log.bases:
        return log, []
    cuts = draw(st.sets(st.sampled_from([*log.bases[1:], log.end]), max_size=3))
    return log, sorted(cut for cut in cuts if decided(log, cut))


def decided(log: Log, cut: int) -> bool:
    """Whether no transaction is open at the cut: the cleaner never passes the last stable offset."""
    return all(not first < cut <= last for first, last in log.transactions)


@settings(max_examples=150, deadline=None)
@given(logs_and_cuts(), st.sampled_from([200, 4000, 1 << 20]), st.sampled_from([170, 700, 1 << 20]))
def test_what_readers_are_owed_stays(case: tuple[Log, list[int]], segment_bytes: int, map_bytes: int) -> None:
    log, cuts = case
    with tempfile.TemporaryDirectory() as folder:
        files = on_disk(log, Path(folder))
        dirty = 0
        for now_ms, cut in enumerate(cuts):
            while dirty < cut:  # a small map needs several passes
                result = files.clean(
                    cut,
                    dirty=dirty,
                    now_ms=now_ms,
                    last_records=log.last,
                    segment_bytes=segment_bytes,
                    map_bytes=map_bytes,
                )
                assert dirty < result.end_offset <= cut, "every pass gets on"
                dirty = result.end_offset
                check(log, files, dirty, cut)


def check(log: Log, files: CompactedFolder, cleaned: int, cut: int) -> None:
    survivors = files.records(below=log.end)
    offsets = [record.offset for record in survivors]
    assert offsets == sorted(set(offsets))
    assert all(record == log.records[record.offset] for record in survivors), "nothing is changed or invented"
    owed = last_per_key(committed(log, log.end))
    kept = last_per_key(record for record in survivors if record.offset not in log.dead)
    assert kept == owed, "the last value of every key"
    clean = [record for record in survivors if record.offset < cleaned]
    keys = [record.key for record in clean]
    assert len(keys) == len(set(keys)) and None not in keys, "one record per key where the log is clean"
    assert not log.dead & {record.offset for record in clean}, "no aborted data where the log is clean"
    untouched = [record for offset, record in log.records.items() if offset >= cut]
    assert [record for record in survivors if record.offset >= cut] == untouched
    _check_batches(log, files, cut)


def _check_batches(log: Log, files: CompactedFolder, cut: int) -> None:
    batches = files.batches(below=log.end)
    ends = {batch.header.last_offset: batch.header for batch in batches}
    assert cut - 1 in ends, "the end of the pass can be read from the log"
    for producer, last in log.last.items():
        assert last.last_data_offset is not None
        header = ends[last.last_data_offset]
        assert header.producer_id == producer, "the last sequence of a live producer can be read from the log"
    kept = {record.offset for record in files.records(below=log.end)}
    for first, marker in log.transactions:
        producer = log.producers[first]
        if any(log.producers.get(offset) == producer for offset in kept if first <= offset < marker):
            assert ends[marker].is_control, "a marker stays as long as data of its transaction"


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_tombstones_and_markers_live_as_long_as_promised_and_no_longer(steps: list[Step]) -> None:
    log = written(steps)
    owed = last_per_key(committed(log, log.end))
    gone = {key for key, record in owed.items() if record.value is None}
    with tempfile.TemporaryDirectory() as folder:
        files = on_disk(log, Path(folder))
        passes = 0

        def clean(now_ms: int, live: dict[int, LastRecord]) -> set[bytes]:
            """What a day brings: the active segment is rolled and a pass comes. Gives the keys that are left."""
            nonlocal passes
            dirty = log.end + passes if passes else 0
            passes += 1
            add_active_segment(files, log.end + passes)
            result = files.clean(log.end + passes, dirty=dirty, now_ms=now_ms, last_records=live)
            assert result.end_offset == log.end + passes
            return set(last_per_key(iter(files.records(below=log.end))))

        assert clean(0, log.last) == owed.keys()
        assert clean(RETENTION_MS - 1, log.last) == owed.keys(), "a reader that is slow still sees the tombstones"
        assert clean(RETENTION_MS, log.last) == owed.keys() - gone
        for now_ms in range(2 * RETENTION_MS, 5 * RETENTION_MS, RETENTION_MS):  # no producer is live any more
            assert clean(now_ms, {}) == owed.keys() - gone
        batches = files.batches(below=log.end)
        assert all(batch.header.count for batch in batches), "empty batches are kept for live producers only"
        with_data = {batch.header.producer_id for batch in batches if not batch.header.is_control}
        for batch in batches:
            assert not batch.header.is_control or batch.header.producer_id in with_data, "a marker follows its data"
        assert files.aborted() == ()
