"""Our cleaner against Apache Kafka's: the same segments in, the same segments out.

What the real broker made of a scripted partition is kept in recorded_compaction (tests/peers/record_compaction.py).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from moldau.storage.compaction.rewrite import LastRecord
from moldau.wire.records import Batch, iter_batches
from tests.support.compacted import CompactedFolder

RECORDED = Path(__file__).parent / "recorded_compaction"
PASSES = json.loads((RECORDED / "passes.json").read_text())


def last_records(batches: list[Batch]) -> dict[int, LastRecord]:
    """All producers of the script are live."""
    found: dict[int, LastRecord] = {}
    for batch in batches:
        header = batch.header
        if header.has_producer:
            known = found.get(header.producer_id)
            offset = (known.last_data_offset if known else None) if header.is_control else header.last_offset
            found[header.producer_id] = LastRecord(offset, header.producer_epoch)
    return found


def read_batches(folder: Path, below: int) -> list[Batch]:
    paths = (path for path in sorted(folder.glob("*.log")) if int(path.stem) < below)
    return [batch for path in paths for batch in iter_batches(path.read_bytes())]


def content(batch: Batch) -> tuple[object, ...]:
    """Everything of a batch; of a compressed one the records, since other compressors make other bytes."""
    if not batch.header.codec:
        return (bytes(batch.data),)
    header = batch.header
    fields = [getattr(header, name) for name in type(header).__slots__ if name not in ("length", "crc")]
    return (*fields, bytes(memoryview(batch.payload())))


@pytest.mark.parametrize("number", range(1, len(PASSES) + 1))
def test_a_pass_makes_of_the_log_what_apache_kafka_makes_of_it(number: int, tmp_path: Path) -> None:
    facts = PASSES[number - 1]
    before, after = RECORDED / f"{number}-before", RECORDED / f"{number}-after"
    folder = CompactedFolder(tmp_path / "log")
    shutil.copytree(before, folder.folder)
    end, retention = facts["first_uncleanable_offset"], facts["delete_retention_ms"]
    expected = read_batches(after, end)
    fresh_horizon = facts["started_ms"] + retention
    horizons = {b.header.delete_horizon for b in expected if (b.header.delete_horizon or 0) >= fresh_horizon}
    assert len(horizons) <= 1
    now_ms = next(iter(horizons)) - retention if horizons else facts["started_ms"]

    result = folder.clean(
        end,
        dirty=facts["first_dirty_offset"],
        now_ms=now_ms,
        delete_retention_ms=retention,
        last_records=last_records(folder.batches()),
        segment_bytes=1 << 30,
    )

    assert result.end_offset == facts["end_offset"]
    assert [content(batch) for batch in folder.batches(below=end)] == [content(batch) for batch in expected]
    assert sorted(path.name for path in folder.folder.glob("*.log")) == sorted(p.name for p in after.glob("*.log"))
    indexes = {path.name: path.read_bytes() for path in after.glob("*.txnindex")}
    assert {path.name: path.read_bytes() for path in folder.folder.glob("*.txnindex")} == indexes


def test_the_recording_has_what_it_is_for() -> None:
    first, last = read_batches(RECORDED / "1-before", 10**6), read_batches(RECORDED / "3-after", 10**6)
    assert {batch.header.codec for batch in first} == {0, 1, 2, 3, 4}
    assert any(batch.header.is_control for batch in last), "markers of data that is still there"
    assert any(batch.header.count == 0 for batch in last), "the last batch of a live producer, emptied"
    horizons = [batch.header.delete_horizon for batch in read_batches(RECORDED / "2-after", 10**6)]
    assert len({horizon for horizon in horizons if horizon}) == 2, "tombstones, and later markers"
