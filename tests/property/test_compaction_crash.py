"""A crash at any step of a cleaning: each segment is found as it was or as it shall be, and nothing is lost."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from moldau.storage.compaction.job import CleanedGroup, CleaningJob, run_job
from moldau.storage.compaction.plan import SegmentShape
from moldau.storage.files import FileSystem, remove_if_exists
from moldau.storage.layout import CLEANED_SUFFIX
from moldau.storage.log import PartitionLog
from moldau.storage.segment import Segment
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record, build_batch
from tests.fakes.journaled_files import JournaledFiles
from tests.fakes.lossy_files import PowerCutError
from tests.fakes.stopping_files import StoppingFiles
from tests.support.logs import NOW, open_log, records_from, replace_segments, settings, stage
from tests.support.managers import Managed

# Two or three of these segments make a group.
CONFIG = settings(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0.1, segment_bytes=520, index_interval_bytes=1, segment_ms=10**9
)
KEYS = ("a", "b", "c", "d")
Found = tuple[tuple[int, bytes | None, bytes | None], ...]


def fill(log: PartitionLog) -> None:
    for number in range(12):
        records = [Record(b"%d" % number, key.encode(), NOW) for key in (KEYS[number % 4], "always", f"only {number}")]
        stage(log, bytearray(build_batch(records)))
        log.commit()
        if number % 2:
            log.roll()
    stage(log, bytearray(build_batch([Record(b"active", b"a", NOW)])))
    log.commit()


def found_in(log: PartitionLog) -> Found:
    for segment, following in pairwise(log.segments):
        assert segment.next_offset() <= following.base_offset, "no segment reaches into the next one"
    return tuple((record.offset, record.key, record.value) for record in records_from(log, 0))


def states_of(before: Found, after: Found, bases: list[int]) -> set[Found]:
    """What may be found: the first segments cleaned, the others not yet. Of a group that is swapped in at a start, old
    segments behind its last record stay: all they hold is still right."""
    return {tuple(r for r in after if r[0] < base) + tuple(r for r in before if r[0] >= base) for base in bases}


# -- the broker is killed: what was written is there ------------------------------------------------------------------


async def cleaned_by_a_manager(folder: Path, files: StoppingFiles, stop_after: int | None) -> set[Found]:
    managed = Managed([folder], files=files, topic_config=lambda _: CONFIG)
    logs = await managed.start()
    log = managed.log("events")
    fill(log)
    before, bases = found_in(log), log.segments.bases
    files.operations, files.left = 0, stop_after
    try:
        await logs.cleaner.clean_due(NOW)
        await logs.removal.run_due(NOW + 10**9)
        assert 2 < len(log.segments) < len(bases), "some segments became one, but not all"
        return states_of(before, found_in(log), bases)
    finally:
        files.left = None
        managed.abandon()


def reopened(folder: Path) -> Found:
    async def main() -> Found:
        managed = Managed([folder], topic_config=lambda _: CONFIG)
        await managed.logs.open("a-cluster")
        await managed.logs.load(topic_config=lambda _: CONFIG, is_known=lambda *_: True)
        log = managed.logs.table.get(TopicPartition("events", 0))
        assert log is not None
        assert log.recovery.cut is None
        found = found_in(log)
        marked = (".deleted", ".swap", ".cleaned")
        assert not [path for path in (folder / "events-0").iterdir() if path.name.endswith(marked)]
        managed.abandon()
        return found

    return asyncio.run(main())


def steps_of_a_cleaning() -> tuple[int, set[Found]]:
    with tempfile.TemporaryDirectory() as folder:
        files = StoppingFiles()
        states = asyncio.run(cleaned_by_a_manager(Path(folder), files, None))
        return files.operations, states


def test_a_broker_killed_at_any_step_finds_its_log_again(tmp_path: Path) -> None:
    steps, states = steps_of_a_cleaning()
    seen = set()
    for step in range(steps):
        folder = tmp_path / str(step)
        with pytest.raises(PowerCutError):
            asyncio.run(cleaned_by_a_manager(folder, StoppingFiles(), step))
        found = reopened(folder)
        assert found in states, f"killed at step {step} of {steps}"
        seen.add(found)
    assert len(seen) > 2


# -- the power fails: what was not synced may or may not be there -----------------------------------------------------


def clean(files: FileSystem, log: PartitionLog) -> None:
    """What the cleaner does, step by step in one thread."""
    end = log.segments.active.base_offset
    job = CleaningJob(
        folder=log.folder,
        segments=tuple(SegmentShape(s.base_offset, s.size) for s in log.segments if s.base_offset < end),
        first_dirty_offset=0,
        first_uncleanable_offset=end,
        now_ms=NOW,
        delete_retention_ms=1000,
        segment_bytes=CONFIG.segment_bytes,
        segment_index_bytes=CONFIG.segment_index_bytes,
        index_interval_bytes=1,
        map_bytes=1 << 20,
    )
    for event in run_job(files, job, lambda _: None):
        if isinstance(event, CleanedGroup):
            old = [segment for segment in log.segments if segment.base_offset in event.sources]
            new = Segment(files, log.folder, event.base_offset, size=event.size, created_ms=NOW, suffix=CLEANED_SUFFIX)
            replace_segments(log, files, [new], old)
            for path in log.take_deleted():
                remove_if_exists(files, path)


def prepared() -> tuple[JournaledFiles, PartitionLog]:
    files = JournaledFiles()
    files.make_directory("/logs/events-0")
    log = open_log("/logs/events-0", files=files, config=CONFIG)
    fill(log)
    log.flush()
    return files, log


def test_a_power_cut_at_any_step_loses_nothing() -> None:
    files, log = prepared()
    before, bases, first = found_in(log), log.segments.bases, files.operations
    clean(files, log)
    states = states_of(before, found_in(log), bases)
    steps = files.operations - first
    seen = set()
    for step in range(steps):
        for seed in range(6):
            files, log = prepared()
            recovery_point = log.recovery_point
            random = Random(f"{step}/{seed}")
            files.stop_after(step, torn=random)
            with pytest.raises(PowerCutError):
                clean(files, log)
            files.crash(random)
            again = open_log("/logs/events-0", files=files, config=CONFIG, recovery_point=recovery_point)
            found = found_in(again)
            assert found in states, f"power cut at step {step} of {steps}, seed {seed}"
            assert again.log_end_offset == before[-1][0] + 1
            seen.add(found)
    assert len(seen) > 2
