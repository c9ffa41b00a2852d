"""What the manager does from time to time: retention, flushes, checkpoints, compaction of due logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.config.topic import TopicConfig
from moldau.storage import checkpoints
from moldau.storage.compaction.runner import CleaningStoppedError, ProcessRunner
from moldau.storage.log import PartitionLog
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record, build_batch
from tests.support.compacted import FILES
from tests.support.logs import DAY_MS, NOW, append, records_from, settings, stage, values_from
from tests.support.managers import Managed

T0 = TopicPartition("t", 0)


def managed_with(tmp_path: Path, config: TopicConfig, **options: object) -> Managed:
    return Managed([tmp_path], topic_config=lambda _: config, **options)  # type: ignore[arg-type]


def put(log: PartitionLog, **pairs: str | None) -> None:
    """One batch of keys and values; None is a tombstone."""
    records = [Record(None if v is None else v.encode(), k.encode(), NOW) for k, v in pairs.items()]
    stage(log, bytearray(build_batch(records)))
    log.commit()


def contents(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records_from(log, log.log_start_offset)
    ]


def files_in(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def offsets_in(tmp_path: Path, name: str) -> dict[TopicPartition, int]:
    return checkpoints.read_offsets(FILES, str(tmp_path), name)


# -- retention --------------------------------------------------------------------------------------------------------


def test_old_segments_go_and_their_files_after_the_delay(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(retention_ms=1000, file_delete_delay_ms=500))
        logs = await managed.start()
        log = managed.log("t")
        for age in (3000, 2000, 500):
            append(log, b"x", timestamp=NOW - age)
            log.roll()
        assert await logs.retaining.run(NOW) == 2
        assert (log.log_start_offset, values_from(log, 2)) == (2, [(2, b"x")])
        assert len(files_in(tmp_path, "t-0/*.deleted")) == 4 + 2
        assert await logs.removal.run_due(NOW + 499) == 0
        assert await logs.removal.run_due(NOW + 500) == 1
        assert files_in(tmp_path, "t-0/*.deleted") == []
        assert await logs.retaining.run(NOW + 501) == 1
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)

    asyncio.run(main())


def test_nothing_goes_that_is_not_known_to_be_committed(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(retention_bytes=0))
        logs = await managed.start()
        log = managed.log("t")
        for _ in range(3):
            append(log, b"x")
            log.roll()
        for committed, deleted in ((None, 0), (1, 1)):
            logs.table.high_watermark = lambda _, mark=committed: mark  # type: ignore[misc]
            assert await logs.retaining.run(NOW) == deleted
        assert log.log_start_offset == 1

    asyncio.run(main())


def test_deleted_records_leave_the_disk(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(cleanup_policy="compact", file_delete_delay_ms=0))
        logs = await managed.start()
        log = managed.log("t")
        for _ in range(3):
            append(log, b"x")
            log.roll()
        log.advance_log_start(2)
        await logs.retaining.run(NOW)
        await logs.removal.run_due(NOW)
        assert sorted(path.name[:20].lstrip("0") for path in files_in(tmp_path, "t-0/*.log*")) == ["2", "3"]

    asyncio.run(main())


# -- flushing and checkpoints -----------------------------------------------------------------------------------------


def test_logs_are_flushed_when_their_time_is_over(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(flush_ms=1000))
        logs = await managed.start()
        log = managed.log("t")
        append(log, b"x")
        assert await logs.flushes.flush_due(NOW + 999) == 0
        managed.now_ms = NOW + 1000
        assert await logs.flushes.flush_due(NOW + 1000) == 1
        assert log.recovery_point == 1
        assert await logs.flushes.flush_due(NOW + 5000) == 0, "nothing new was written"

    asyncio.run(main())


def test_completed_segments_are_flushed(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings())
        logs = await managed.start()
        log = managed.log("t")
        append(log, b"x")
        log.roll()
        append(log, b"y")
        logs.flushes.note_rolled(log)
        await logs.flushes.flush_rolled()
        assert log.recovery_point == 1

    asyncio.run(main())


def test_checkpoints_say_what_a_start_needs(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings())
        logs = await managed.start()
        for _ in range(5):
            append(managed.log("t"), b"x")
        append(managed.log("u"), b"x")
        await logs.flushes.flush(managed.log("t"), 5)
        managed.log("t").advance_log_start(2)
        await logs.checkpoints.write_recovery_points()
        await logs.checkpoints.write_start_offsets()
        await logs.checkpoints.write_high_watermarks()
        u0 = TopicPartition("u", 0)
        assert offsets_in(tmp_path, checkpoints.RECOVERY_POINTS) == {T0: 5, u0: 0}
        assert offsets_in(tmp_path, checkpoints.LOG_START_OFFSETS) == {T0: 2}
        assert offsets_in(tmp_path, checkpoints.HIGH_WATERMARKS) == {T0: 5, u0: 1}
        managed.abandon()
        again = managed.restarted()
        await again.start()
        assert (again.log("t").log_start_offset, again.log("t").recovery_point) == (2, 5)
        assert again.logs.table.checkpointed_high_watermark(T0) == 5

    asyncio.run(main())


def test_an_unreadable_checkpoint_does_not_stop_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings())
        await managed.start()
        append(managed.log("t"), b"x")
        await managed.logs.close()
        (tmp_path / checkpoints.RECOVERY_POINTS).write_bytes(b"garbage")
        again = managed.restarted()
        await again.start()
        assert values_from(again.log("t")) == [(0, b"x")]

    asyncio.run(main())
    assert "recovery-point-offset-checkpoint, line 1: expected a number, found 'garbage'" in caplog.text


def test_idle_producers_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(), broker={"producer.id.expiration.ms": 1000})
        logs = await managed.start()
        log = managed.log("t")
        append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        await logs.expire_producers(NOW + 999)
        assert len(log.producers) == 1
        await logs.expire_producers(NOW + 1000)
        assert len(log.producers) == 0

    asyncio.run(main())


# -- compaction -------------------------------------------------------------------------------------------------------

COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.1, "file_delete_delay_ms": 0}


def fill(log: PartitionLog) -> None:
    put(log, a="1", b="1")
    put(log, a="2", c="1")
    log.roll()
    put(log, a="3", b=None)
    put(log, d="1")
    log.roll()
    put(log, d="2")


FILLED = [(0, "a", "1"), (1, "b", "1"), (2, "a", "2"), (3, "c", "1"), (4, "a", "3"), (5, "b", None), (6, "d", "1")]
CLEANED = [(3, "c", "1"), (4, "a", "3"), (5, "b", None), (6, "d", "1")]
ACTIVE = [(7, "d", "2")]


def test_a_due_log_is_compacted_in_place(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        reader = log.read(0, 1000, 8)
        reader.file.acquire()
        assert contents(log) == FILLED + ACTIVE
        assert await logs.cleaner.clean_due(NOW) == 1
        assert contents(log) == CLEANED + ACTIVE
        assert log.segments.bases == [0, 7]
        assert offsets_in(tmp_path, checkpoints.CLEANED_OFFSETS) == {T0: 7}
        assert len(managed.files.pread(reader.file.fileno, reader.length, reader.position)) == reader.length
        reader.file.release()
        assert await logs.cleaner.clean_due(NOW) == 0, "it is clean now"
        await logs.removal.run_due(NOW)
        marked = (".deleted", ".swap", ".cleaned")
        assert not [path for path in (tmp_path / "t-0").iterdir() if path.name.endswith(marked)]
        for offset in range(8):  # positions of removed records are still positions
            first = next(iter(records_from(log, offset)))
            assert first.offset == min(o for o, _, _ in CLEANED + ACTIVE if o >= offset)
        append(log, b"more")
        await logs.close()
        again = managed.restarted()
        await again.start()
        assert contents(again.log("t"))[:-1] == CLEANED + ACTIVE

    asyncio.run(main())


def test_tombstones_go_when_their_time_is_over(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED, delete_retention_ms=1000))
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        await logs.cleaner.clean_due(NOW)
        for now_ms, with_tombstone in ((NOW + 999, True), (NOW + 1000, False)):
            log.roll()
            put(log, x=str(now_ms))
            assert await logs.cleaner.clean_due(now_ms) == 1
            assert ((5, "b", None) in contents(log)) is with_tombstone

    asyncio.run(main())


def test_the_recovered_log_after_a_compaction_and_a_crash_is_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        await logs.cleaner.clean_due(NOW)
        managed.abandon()
        again = managed.restarted()
        await again.start()
        assert contents(again.log("t")) == CLEANED + ACTIVE
        assert again.log("t").recovery.cut is None

    asyncio.run(main())


def test_an_idempotent_producer_survives_the_compaction_of_all_its_records(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        logs = await managed.start()
        log = managed.log("t")
        append(log, b"1", producer_id=7, producer_epoch=0, base_sequence=0)
        append(log, b"2", producer_id=7, producer_epoch=0, base_sequence=1)
        append(log, b"3")
        log.roll()
        put(log, other="x")
        await logs.cleaner.clean_due(NOW)
        assert contents(log) == [(2, "key", "3"), (3, "other", "x")]
        managed.abandon()
        for path in files_in(tmp_path, "t-0/*.snapshot"):
            path.unlink()
        again = managed.restarted()
        await again.start()
        append(again.log("t"), b"4", producer_id=7, producer_epoch=0, base_sequence=2)

    asyncio.run(main())


def test_the_worker_process_compacts_as_well(tmp_path: Path) -> None:
    async def main() -> None:
        runner = ProcessRunner()
        managed = managed_with(
            tmp_path, settings(**COMPACTED), run_blocking=asyncio.to_thread, new_runner=lambda: runner
        )
        logs = await managed.start()
        process = await runner._running()
        for topic in ("t", "u"):
            fill(managed.log(topic))
        assert await logs.cleaner.clean_due(NOW) == 2
        for topic in ("t", "u"):
            assert contents(managed.log(topic)) == CLEANED + ACTIVE
        assert process.returncode is not None, "one process has done all, and does not stay"
        assert runner._process is None
        managed.log("t").roll()
        put(managed.log("t"), d="3")
        assert await logs.cleaner.clean_due(NOW) == 1
        await logs.close()

    asyncio.run(main())


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        runner = ProcessRunner(("false",))
        managed = managed_with(tmp_path, settings(**COMPACTED), new_runner=lambda: runner)
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        assert await logs.cleaner.clean_due(NOW) == 1
        assert contents(log) == FILLED + ACTIVE
        assert logs.cleaner.uncleanable == {}
        runner._command = ProcessRunner()._command
        await logs.cleaner.clean_due(NOW)
        assert contents(log) == CLEANED + ACTIVE
        await logs.close()

    asyncio.run(main())


@pytest.mark.parametrize("in_process", [False, True])
def test_a_damaged_log_is_reported_and_left_alone(tmp_path: Path, in_process: bool) -> None:
    async def main() -> None:
        runner = {} if in_process else {"new_runner": ProcessRunner}
        managed = managed_with(tmp_path, settings(**COMPACTED), **runner)
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        path = tmp_path / "t-0" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        await logs.cleaner.clean_due(NOW)
        assert "the checksum does not fit" in logs.cleaner.uncleanable[T0]
        assert managed.failed == []
        assert await logs.cleaner.clean_due(NOW) == 0
        assert files_in(tmp_path, "t-0/*.cleaned") == []
        await logs.close()

    asyncio.run(main())


def test_a_missing_segment_takes_the_directory_offline(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED), new_runner=ProcessRunner)
        logs = await managed.start()
        fill(managed.log("t"))
        (tmp_path / "t-0" / "00000000000000000000.log").unlink()
        await logs.cleaner.clean_due(NOW)
        assert managed.failed == [(str(tmp_path), [T0])]
        await logs.close()

    asyncio.run(main())


def test_retention_leaves_a_log_alone_while_it_is_cleaned(tmp_path: Path) -> None:
    async def main() -> None:
        config = settings(**{**COMPACTED, "cleanup_policy": "compact,delete", "retention_ms": 0})
        managed = managed_with(tmp_path, config)
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        seen: list[int] = []
        original = managed.runner.run

        async def run(job, rate, on_group):  # type: ignore[no-untyped-def]
            async def watched(group):  # type: ignore[no-untyped-def]
                seen.append(await logs.retaining.run(NOW + DAY_MS))
                await on_group(group)

            return await original(job, rate, watched)

        managed.runner.run = run  # type: ignore[method-assign]
        await logs.cleaner.clean_due(NOW)
        assert seen == [0]
        assert await logs.retaining.run(NOW + DAY_MS) == 2

    asyncio.run(main())


@pytest.mark.parametrize("what", ["delete", "pause"])
def test_a_cleaning_that_is_not_wanted_any_more_leaves_nothing(tmp_path: Path, what: str) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        original = managed.runner.run
        pausing: list[asyncio.Task[None]] = []

        async def run(job, rate, on_group):  # type: ignore[no-untyped-def]
            async def interrupted(group):  # type: ignore[no-untyped-def]
                if what == "delete":
                    logs.delete(T0)
                else:
                    pausing.append(asyncio.create_task(logs.cleaner.pause(T0)))
                    await asyncio.sleep(0)
                await on_group(group)

            return await original(job, rate, interrupted)

        managed.runner.run = run  # type: ignore[method-assign]
        await logs.cleaner.clean_due(NOW)
        assert not files_in(tmp_path, "*/*.cleaned") + files_in(tmp_path, "*/*.swap")
        assert offsets_in(tmp_path, checkpoints.CLEANED_OFFSETS) == {}
        if what == "pause":
            await pausing[0]
            assert contents(log) == FILLED + ACTIVE
            assert await logs.cleaner.clean_due(NOW) == 0
            managed.runner.run = original  # type: ignore[method-assign]
            logs.cleaner.resume(T0)
            assert await logs.cleaner.clean_due(NOW) == 1
            assert contents(log) == CLEANED + ACTIVE

    asyncio.run(main())


def test_the_cleaner_can_be_turned_off(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED), broker={"log.cleaner.enable": "false"})
        await managed.start()
        fill(managed.log("t"))
        assert await managed.logs.cleaner.clean_due(NOW) == 0

    asyncio.run(main())


def test_open_transactions_hold_the_cleaner_back(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        logs = await managed.start()
        log = managed.log("t")
        put(log, a="1")
        append(log, b"open", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
        log.roll()
        put(log, a="2")
        log.roll()
        put(log, a="3")
        assert await logs.cleaner.clean_due(NOW) == 0
        assert len(contents(log)) == 4

    asyncio.run(main())


def test_a_worker_ends_with_its_owner(tmp_path: Path) -> None:
    async def main() -> int:
        runner = ProcessRunner()
        process = await runner._running()
        assert process.stdin is not None
        process.stdin.close()
        return await process.wait()

    assert asyncio.run(main()) == 0


def test_a_job_can_be_stopped_from_outside(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        await managed.start()
        log = managed.log("t")
        fill(log)
        runner = ProcessRunner()
        job = managed.logs.cleaner._job(log, managed.logs.cleaner._assess(log, NOW), NOW)  # type: ignore[arg-type]
        process = await runner._running()
        running = asyncio.create_task(runner.run(job, 1.0, lambda _: asyncio.sleep(0)))  # one byte per second
        await asyncio.sleep(0)
        await runner.stop()
        with pytest.raises(CleaningStoppedError):
            await running
        assert process.returncode is not None

    asyncio.run(main())


def test_a_swap_that_has_begun_is_finished_when_the_duty_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        gate.set()

        async def when_open(work: Callable[[], Any]) -> Any:
            await asyncio.sleep(0)
            await gate.wait()
            return work()

        managed = managed_with(tmp_path, settings(**COMPACTED), run_blocking=when_open)
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        duty = asyncio.create_task(logs.cleaner.clean_due(NOW))
        for _ in range(1000):
            await asyncio.sleep(0)
            if files_in(tmp_path, "t-0/*.swap"):
                break
        gate.clear()
        duty.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(duty, return_exceptions=True)
        assert files_in(tmp_path, "t-0/*.swap") == []
        assert contents(log) == CLEANED + ACTIVE
        await logs.close()

    asyncio.run(main())


def test_gaps_of_an_earlier_compaction_are_no_loss_when_the_topic_is_compacted_no_longer(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED, segment_bytes=200))
        logs = await managed.start()
        log = managed.log("t")
        put(log, a="1", b="1")
        log.roll()
        put(log, a="2", b="2")
        log.roll()
        put(log, a="3", b="3")
        log.roll()
        put(log, c="1")
        await logs.cleaner.clean_due(NOW)
        expected = contents(log)
        assert expected == [(4, "a", "3"), (5, "b", "3"), (6, "c", "1")]
        assert len(log.segments) > 2
        managed.abandon()
        again = managed.restarted(topic_config=lambda _: settings())
        await again.start()
        assert again.log("t").recovery.cut is None
        assert contents(again.log("t")) == expected

    asyncio.run(main())


def test_a_truncated_log_is_dirty_from_there_on(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings(**COMPACTED))
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        await logs.cleaner.clean_due(NOW)
        assert offsets_in(tmp_path, checkpoints.CLEANED_OFFSETS) == {T0: 7}
        await logs.cuts.truncate(log, 4)
        assert (log.log_end_offset, offsets_in(tmp_path, checkpoints.CLEANED_OFFSETS)) == (4, {T0: 4})
        await logs.cuts.truncate(log, 4)
        await logs.cuts.truncate(log, 20)
        assert log.log_end_offset == 4

    asyncio.run(main())
