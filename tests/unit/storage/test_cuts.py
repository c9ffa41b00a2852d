"""Cutting a log whose partition may get another leader, or whose broker may die, at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moldau.config.topic import TopicConfig
from moldau.storage import checkpoints
from moldau.types.ids import TopicPartition
from tests.support.compacted import FILES
from tests.support.logs import append, settings, values_from
from tests.support.managers import Managed

T0 = TopicPartition("t", 0)


def managed_with(tmp_path: Path, config: TopicConfig) -> Managed:
    return Managed([tmp_path], topic_config=lambda _: config)


def offsets_in(tmp_path: Path, name: str) -> dict[TopicPartition, int]:
    return checkpoints.read_offsets(FILES, str(tmp_path), name)


def test_what_is_written_after_a_truncation_counts_as_not_flushed(tmp_path: Path) -> None:
    """A torn batch there is cut off at the next start; it is no damage to what was on disk before."""

    async def before() -> Managed:
        managed = managed_with(tmp_path, settings())
        logs = await managed.start()
        log = managed.log("t")
        for _ in range(9):
            append(log, b"old")
        log.flush()
        await logs.checkpoints.write_recovery_points()
        assert offsets_in(tmp_path, checkpoints.RECOVERY_POINTS) == {T0: 9}
        await logs.cuts.truncate(log, 4)
        assert offsets_in(tmp_path, checkpoints.RECOVERY_POINTS) == {T0: 3}
        for _ in range(3):
            append(log, b"new")
        managed.abandon()
        return managed

    async def after(managed: Managed) -> None:
        logs = await managed.start()
        assert logs.table.damage_of(T0) is None
        assert managed.log("t").log_end_offset == 6

    managed = asyncio.run(before())
    log_file = tmp_path / "t-0" / "00000000000000000000.log"
    log_file.write_bytes(log_file.read_bytes()[:-5])
    asyncio.run(after(managed.restarted()))


def test_a_cut_that_is_not_wanted_any_more_when_its_turn_comes_is_left_out(tmp_path: Path) -> None:
    """The broker may have become leader while the cleaner was waited for, or the recovery point brought to disk."""

    async def main() -> None:
        managed = managed_with(tmp_path, settings())
        logs = await managed.start()
        log = managed.log("t")
        for _ in range(9):
            append(log, b"old")
        log.flush()
        await logs.checkpoints.write_recovery_points()
        assert not await logs.cuts.truncate(log, 4, lambda: False)
        assert not await logs.cuts.restart_at(log, 20, lambda: False)
        assert log.log_end_offset == 9
        await logs.flushes.flush(log)
        assert log.recovery_point == 9

    asyncio.run(main())


def test_a_log_that_begins_anew_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def main() -> None:
        managed = managed_with(tmp_path, settings())
        logs = await managed.start()
        log = managed.log("t")
        for _ in range(9):
            append(log, b"old", epoch=3)
        log.advance_log_start(7)
        log.flush()
        await logs.checkpoints.write_recovery_points()
        await logs.checkpoints.write_start_offsets()
        assert await logs.cuts.restart_at(log, 5)
        assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (5, 5, [])
        append(log, b"new", epoch=4)
        managed.abandon()
        again = managed.restarted()
        await again.start()
        found = again.log("t")
        assert (found.log_start_offset, values_from(found, 5)) == (5, [(5, b"new")])

    asyncio.run(main())


def test_one_cut_of_a_log_at_a_time(tmp_path: Path) -> None:
    """The second one was decided when the first was not done: whoever wants it has to look again."""

    async def main() -> None:
        async def later(work: Callable[[], Any]) -> Any:
            await asyncio.sleep(0)
            return work()

        managed = Managed([tmp_path], run_blocking=later)
        logs = await managed.start()
        log = managed.log("t")
        for _ in range(9):
            append(log, b"old")
        log.flush()
        await logs.checkpoints.write_recovery_points()
        assert await asyncio.gather(logs.cuts.truncate(log, 6), logs.cuts.truncate(log, 3)) == [True, False]
        assert log.log_end_offset == 6
        assert await logs.cuts.truncate(log, 3)

    asyncio.run(main())
