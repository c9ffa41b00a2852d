"""New logs: made many at a time, with one sync for all of them, and what a power cut may leave of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from moldau.storage.checkpoints import PARTITION_METADATA, read_topic_id
from moldau.storage.files import OsFiles
from moldau.storage.manager import NewLog
from moldau.types.ids import TopicPartition
from tests.fakes.lossy_files import LossyFiles
from tests.support.logs import append, settings, values_from
from tests.support.managers import Managed

TOPIC_ID = UUID(int=77)


def new_logs(count: int) -> list[NewLog]:
    return [NewLog(TopicPartition("t", index), TOPIC_ID, settings()) for index in range(count)]


class CountingFiles(OsFiles):
    def __init__(self) -> None:
        self.file_syncs = 0
        self.folder_syncs: list[str] = []

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        self.file_syncs += 1

    def sync_directory(self, path: str) -> None:
        self.folder_syncs.append(path)


def test_many_new_logs_cost_one_sync(tmp_path: Path) -> None:
    async def main() -> None:
        files = CountingFiles()
        managed = Managed([tmp_path], files=files)
        logs = await managed.start()
        files.file_syncs, files.folder_syncs = 0, []
        await logs.maker.prepare(new_logs(200))
        assert (files.file_syncs, files.folder_syncs) == (0, [str(tmp_path)])

    asyncio.run(main())
    found = sorted(path.name for path in (tmp_path / "t-199").iterdir())
    assert found == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        PARTITION_METADATA,
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_takes_no_new_log_out_of_service(seed: int) -> None:
    """Whatever part of its files reached the disk: a log that was never flushed is there and belongs to its topic;
    one that was flushed has its records and its topic's id."""
    files, random = LossyFiles(), Random(seed)

    async def before() -> Managed:
        managed = Managed(["/data"], files=files, topics={"t": TOPIC_ID})
        logs = await managed.start()
        await logs.maker.prepare(new_logs(6))
        for index in range(2, 6):
            append(managed.log("t", index), b"a", b"b")
        for index in (4, 5):
            managed.log("t", index).flush()
        return managed

    async def after(managed: Managed) -> None:
        logs = await managed.start()
        assert {index: logs.table.damage_of(TopicPartition("t", index)) for index in range(6)} == dict.fromkeys(
            range(6)
        )
        opened = [managed.log("t", index) for index in range(6)]
        assert [values_from(each) for each in opened[:2]] == [[], []]
        assert [values_from(each) for each in opened[4:]] == [[(0, b"a"), (1, b"b")]] * 2
        for each in opened:
            append(each, b"c")
            each.flush()
            assert read_topic_id(files, each.folder) == TOPIC_ID

    managed = asyncio.run(before())
    files.crash(random)
    asyncio.run(after(managed.restarted()))


def test_the_id_of_a_flushed_log_is_not_guessed(tmp_path: Path) -> None:
    """Damage to what was brought to disk is damage."""

    async def before() -> Managed:
        managed = Managed([tmp_path], topics={"t": TOPIC_ID})
        logs = await managed.start()
        append(managed.log("t"), b"a")
        managed.log("t").flush()
        await logs.checkpoints.write_recovery_points()
        managed.abandon()
        return managed

    async def after(managed: Managed) -> None:
        logs = await managed.start()
        assert PARTITION_METADATA in (logs.table.damage_of(TopicPartition("t", 0)) or "")

    managed = asyncio.run(before())
    (tmp_path / "t-0" / PARTITION_METADATA).write_bytes(b"")
    asyncio.run(after(managed.restarted()))


def test_an_attempt_that_failed_is_no_hindrance(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        (tmp_path / "t-0").mkdir()
        (tmp_path / "t-0" / PARTITION_METADATA).write_bytes(b"vers")
        await logs.maker.prepare(new_logs(1))
        made = logs.table.get(TopicPartition("t", 0))
        assert made is not None
        append(made, b"a")
        assert read_topic_id(OsFiles(), made.folder) == TOPIC_ID

    asyncio.run(main())


def test_a_stop_syncs_only_what_was_touched(tmp_path: Path) -> None:
    async def main() -> None:
        files = CountingFiles()
        managed = Managed([tmp_path], files=files, topics={"t": TOPIC_ID})
        logs = await managed.start()
        await logs.maker.prepare(new_logs(50))
        for index in range(50):
            managed.log("t", index).begin_epoch(1)
        append(managed.log("t", 7), b"a")
        files.file_syncs, files.folder_syncs = 0, []
        await logs.close()
        assert [path for path in files.folder_syncs if path != str(tmp_path)] == [str(tmp_path / "t-7")] * 2
        again = managed.restarted()
        logs = await again.start()
        for index in range(50):
            again.log("t", index).begin_epoch(2)
        files.folder_syncs = []
        await logs.close()
        assert set(files.folder_syncs) <= {str(tmp_path)}

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_after_a_clean_stop_a_power_cut_costs_nothing(seed: int) -> None:
    """Neither records nor service, whether a log was used in this life of the broker, in an earlier one, or never."""
    files, random = LossyFiles(), Random(seed)

    async def live(managed: Managed, written: int) -> None:
        logs = await managed.start()
        for index in range(6):
            managed.log("t", index).begin_epoch(managed.now_ms % 1000 + written)
        for _ in range(3):
            append(managed.log("t", written), b"a")
        await logs.close()

    async def last(managed: Managed) -> None:
        await managed.start()
        found = [len(values_from(managed.log("t", index))) for index in range(6)]
        assert found == [3, 3, 3, 0, 0, 0]

    managed = Managed(["/data"], files=files, topics={"t": TOPIC_ID})
    for written in range(3):
        asyncio.run(live(managed, written))
        files.crash(random)
        managed = managed.restarted()
    asyncio.run(last(managed))
