"""Apache Kafka's own reader looks at segments that our cleaner has written."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from moldau.storage.compaction.rewrite import LastRecord
from moldau.storage.compaction.runner import ProcessRunner
from moldau.storage.log import PartitionLog
from moldau.wire.records import Record, build_batch
from tests.peers.apache_kafka import TOOLS, java_tool
from tests.support.compacted import CompactedFolder
from tests.support.logs import NOW, settings, stage
from tests.support.managers import Managed

pytestmark = pytest.mark.live

RECORDED = Path(__file__).parents[1] / "unit" / "storage" / "recorded_compaction"


def dump(*files: Path, **options: bool) -> str:
    names = ",".join(str(path) for path in files)
    flags = [f"--{name.replace('_', '-')}" for name, wanted in options.items() if wanted]
    done = java_tool(TOOLS + "DumpLogSegments", "--files", names, *flags)
    return done.stdout + done.stderr


def write(log: PartitionLog) -> None:
    """Every codec, tombstones, superseded and surviving keys, an idempotent producer; many batches per segment."""
    for number in range(600):
        keys = (b"key %d" % (number % 90), b"only %d" % number if number % 7 == 0 else b"often")
        records = [Record(None if number % 31 == 0 else b"value %d" % number, key, NOW + number) for key in keys]
        producer = (
            {"producer_id": 5, "producer_epoch": 0, "base_sequence": 2 * (number // 3)} if number % 3 == 0 else {}
        )
        stage(log, bytearray(build_batch(records, codec=number % 5, **producer)))
        log.commit()
        if number % 100 == 99:
            log.roll()


def test_kafka_finds_every_batch_and_index_valid(tmp_path: Path) -> None:
    async def main() -> None:
        config = settings(
            cleanup_policy="compact", min_cleanable_dirty_ratio=0.1, index_interval_bytes=256, segment_bytes=30_000
        )
        managed = Managed([tmp_path], topic_config=lambda _: config, new_runner=ProcessRunner)
        logs = await managed.start()
        write(managed.log("events"))
        assert await logs.cleaner.clean_due(NOW) == 1
        await logs.close()

    asyncio.run(main())
    folder = tmp_path / "events-0"
    segments = sorted(folder.glob("*.log"))[:-1]
    assert len(segments) > 1
    text = dump(*segments, print_data_log=True, deep_iteration=True)
    assert set(re.findall(r"isvalid: (\w+)", text)) == {"true"}
    assert len(re.findall(r"deleteHorizonMs: OptionalLong\[", text)) > 0
    assert len(re.findall(r"\| offset: ", text)) == len(set(re.findall(r"\| offset: (\d+)", text)))
    indexes = [path.with_suffix(suffix) for path in segments for suffix in (".index", ".timeindex")]
    assert all(path.stat().st_size > 0 for path in indexes)
    text = dump(*indexes, index_sanity_check=True)
    assert text.count("passed sanity check") == len(indexes), text
    text = dump(*indexes, verify_index_only=True)
    assert "Index position" not in text and "mismatch" not in text.lower(), text


def test_kafka_reads_what_we_made_of_its_own_log(tmp_path: Path) -> None:
    folder = CompactedFolder(tmp_path / "log")
    shutil.copytree(RECORDED / "1-before", folder.folder)
    folder.clean(119, now_ms=NOW, last_records={4: LastRecord(117, 0)}, segment_bytes=1 << 30)
    text = dump(folder.folder / "00000000000000000000.log", print_data_log=True, deep_iteration=True)
    assert set(re.findall(r"isvalid: (\w+)", text)) == {"true"}
    assert "endTxnMarker: ABORT" in text and "endTxnMarker: COMMIT" in text
