"""The log manager: directories, start and stop, creation and deletion, faults."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from moldau.storage import checkpoints
from moldau.storage.checkpoints import DirectoryInUseError
from moldau.storage.errors import LogIOError
from moldau.storage.folders import Mark, marked_name, parse_folder
from moldau.storage.log_directory import InconsistentDirectoryError
from moldau.storage.manager import LogManager, NewLog
from moldau.types.ids import TopicPartition
from tests.fakes.stopping_files import StoppingFiles
from tests.support.compacted import UnsyncedFiles
from tests.support.logs import NOW, append, settings, values_from
from tests.support.managers import CLUSTER, Managed

T0 = TopicPartition("t", 0)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


# -- directories ------------------------------------------------------------------------------------------------------


def test_a_new_directory_gets_an_identity_that_stays(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path / "a", tmp_path / "b"])
        logs = await managed.start()
        ids = [directory.id for directory in logs.table.directories]
        assert len(set(ids)) == 2
        await logs.close()
        again = managed.restarted()
        assert [directory.id for directory in (await again.start()).table.directories] == ids
        await again.logs.close()

    asyncio.run(main())
    found = checkpoints.read_directory(UnsyncedFiles(), str(tmp_path / "a"))
    assert found is not None
    assert (found.cluster_id, found.node_id) == (CLUSTER, 1)


def test_a_directory_of_another_broker_or_cluster_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        await managed.start()
        await managed.logs.close()
        with pytest.raises(InconsistentDirectoryError, match="Expected another, but read a-cluster"):
            await managed.restarted().start("another")
        with pytest.raises(InconsistentDirectoryError, match="Stored node id 1 doesn't match previous node id 2"):
            await managed.restarted(broker={"node.id": 2}).start()
        await managed.restarted().start()  # the refused ones have let go of the lock

    asyncio.run(main())


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path / "a"])
        await managed.start()
        second = Managed([tmp_path / "b", tmp_path / "a"])
        with pytest.raises(DirectoryInUseError, match="Another broker"):
            await second.start()
        third = Managed([tmp_path / "b"])
        await third.start()

    asyncio.run(main())


def test_the_same_directory_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="Duplicate log directory"):
        asyncio.run(Managed([tmp_path / "a", tmp_path / "b"]).start())


def test_folder_names() -> None:
    unique = UUID(int=7)
    partition = TopicPartition("a.b_c-1", 12)
    for mark in Mark:
        name = marked_name(partition, unique, mark) if mark is not Mark.NONE else "a.b_c-1-12"
        folder = parse_folder(name)
        assert folder is not None
        assert (folder.partition, folder.mark) == (partition, mark)
    assert parse_folder("lost+found") is None
    assert parse_folder("no-partition-x") is None
    assert len(marked_name(TopicPartition("t" * 249, 1234), unique, Mark.DELETE)) == 255


# -- making and finding -----------------------------------------------------------------------------------------------


def test_a_new_log_goes_where_the_fewest_are(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path / "a", tmp_path / "b"])
        logs = await managed.start()
        for partition in range(5):
            managed.log("t", partition)
        await logs.maker.prepare([NewLog(TopicPartition("u", i), UUID(int=9), settings()) for i in range(5)])
        assert [len(directory.logs) for directory in logs.table.directories] == [5, 5]
        assert managed.log("t", 3) is logs.table.get(TopicPartition("t", 3))

    asyncio.run(main())
    assert names(tmp_path / "a")[:3] == ["t-0", "t-2", "t-4"]
    assert (tmp_path / "a" / "t-0" / "partition.metadata").read_text().startswith("version: 0\ntopic_id: ")


def test_a_prepared_log_is_the_one_that_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        managed.topics["t"] = UUID(int=77)
        await logs.maker.prepare([NewLog(T0, UUID(int=77), settings())])
        prepared = logs.table.get(T0)
        config = settings(retention_ms=5)
        assert logs.maker.get_or_create(T0, UUID(int=77), config) is prepared
        assert prepared is not None
        assert prepared.config is config
        assert logs.table.topic_id(T0) == UUID(int=77)

    asyncio.run(main())


# -- stop and start ---------------------------------------------------------------------------------------------------


def test_after_a_clean_stop_nothing_is_recovered(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        await managed.start()
        append(managed.log("t"), b"1", b"2")
        append(managed.log("u"), b"3")
        await managed.logs.close(broker_epoch=5)
        assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":5}'
        again = managed.restarted()
        logs = await again.start()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        assert [log.recovery.segments_checked for log in logs.table.in_service()] == [0, 0]
        assert values_from(again.log("t")) == [(0, b"1"), (1, b"2")]
        assert logs.table.checkpointed_high_watermark(T0) == 2
        assert again.log("t").recovery_point == 2
        assert [(each.logs_loaded, each.logs) for each in again.progress] == [(1, 2), (2, 2)]

    asyncio.run(main())


def test_after_a_crash_the_logs_are_recovered(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        await managed.start()
        append(managed.log("t"), b"1")
        append(managed.log("t"), b"2")
        managed.abandon()
        path = tmp_path / "t-0" / "00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:-1])
        again = managed.restarted()
        await again.start()
        log = again.log("t")
        assert values_from(log) == [(0, b"1")]
        assert log.recovery.cut is not None

    asyncio.run(main())


def test_logs_are_loaded_in_threads_and_close_in_them(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path / "a", tmp_path / "b"], run_blocking=asyncio.to_thread)
        await managed.start()
        for partition in range(20):
            append(managed.log("t", partition), b"%d" % partition)
        await managed.logs.close()
        again = managed.restarted(run_blocking=asyncio.to_thread)
        logs = await again.start()
        assert len(list(logs.table.in_service())) == 20
        for partition in range(20):
            assert values_from(again.log("t", partition)) == [(0, b"%d" % partition)]
        await logs.close()

    asyncio.run(main())


def damage(log_file: Path) -> None:
    data = bytearray(log_file.read_bytes())
    data[len(data) // 4] ^= 1
    log_file.write_bytes(data)


def test_a_damaged_log_stays_offline_and_the_others_serve(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        for value in (b"1", b"2", b"3"):
            append(managed.log("t"), value)
            append(managed.log("u"), value)
        await logs.flushes.flush(managed.log("t"))
        await logs.checkpoints.write_recovery_points()
        managed.abandon()
        damage(tmp_path / "t-0" / "00000000000000000000.log")
        for _ in range(2):  # a clean stop in between must not make it pass for whole
            managed = managed.restarted()
            logs = await managed.start()
            with pytest.raises(LogIOError, match="corrupt at byte 0"):
                managed.log("t")
            assert "corrupt at byte 0" in (logs.table.damage_of(T0) or "")
            assert len(values_from(managed.log("u"))) == 3
            assert managed.failed == []
            await logs.close()
        assert checkpoints.read_offsets(managed.files, str(tmp_path), checkpoints.RECOVERY_POINTS)[T0] == 3
        managed = managed.restarted()
        logs = await managed.start()
        logs.delete(T0)
        assert values_from(managed.log("t")) == []

    asyncio.run(main())


def test_a_log_of_an_unknown_topic_is_set_aside(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        await managed.start()
        append(managed.log("t"), b"old")
        append(managed.log("gone"), b"x")
        await managed.logs.close()
        again = managed.restarted(topics={"t": UUID(int=4711)})  # "t" was deleted and created anew meanwhile
        await again.start()
        assert values_from(again.log("t")) == []
        assert [name.rsplit("-", 1)[1] for name in names(tmp_path)] == ["stray", "0", "stray"]
        await again.logs.close()
        last = again.restarted()
        assert [log.topic_partition for log in (await last.start()).table.in_service()] == [T0]

    asyncio.run(main())


def test_in_a_cluster_what_was_set_aside_leaves_the_disk_later(tmp_path: Path) -> None:
    """Not what still belongs here (an older copy of a log), nor what does not tell whose it is."""

    async def main() -> None:
        managed = Managed([tmp_path])
        await managed.start()
        append(managed.log("t"), b"kept")
        append(managed.log("gone"), b"x")
        append(managed.log("left"), b"x")
        await managed.logs.close()
        older = marked_name(T0, UUID(int=1), Mark.STRAY)
        shutil.copytree(tmp_path / "t-0", tmp_path / older)
        nameless = marked_name(TopicPartition("who", 0), UUID(int=2), Mark.STRAY)
        shutil.copytree(tmp_path / "gone-0", tmp_path / nameless)
        (tmp_path / nameless / "partition.metadata").unlink()
        shutil.move(tmp_path / "left-0", tmp_path / marked_name(TopicPartition("left", 0), UUID(int=3), Mark.STRAY))
        again = managed.restarted(
            topics={"t": managed.topics["t"]}, broker={"node.id": 1, "zookeeper.connect": "localhost:2181"}
        )
        await again.start()
        assert await again.logs.removal.run_due(NOW + 59_999) == 0
        assert len(names(tmp_path)) == 5
        assert await again.logs.removal.run_due(NOW + 60_000) == 2
        assert set(names(tmp_path)) == {"t-0", older, nameless}
        assert values_from(again.log("t")) == [(0, b"kept")]

    asyncio.run(main())


def test_a_topic_is_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        append(managed.log("t"), b"old")
        managed.topics["t"] = UUID(int=4711)
        assert values_from(managed.log("t")) == []
        assert logs.table.topic_id(T0) == UUID(int=4711)
        assert [name.endswith("-stray") for name in names(tmp_path)] == [False, True]

    asyncio.run(main())


def test_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    for name in ("lost+found", "__cluster_metadata-0", "metadata"):
        (tmp_path / name).mkdir()
    asyncio.run(Managed([tmp_path]).start())
    assert names(tmp_path) == ["__cluster_metadata-0", "lost+found", "metadata"]


# -- deletion ---------------------------------------------------------------------------------------------------------


def test_a_deleted_log_leaves_the_disk_after_the_delay(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        append(managed.log("t"), b"1")
        await logs.checkpoints.write_recovery_points()
        slice_ = managed.log("t").read(0, 1000, 1)
        slice_.file.acquire()
        logs.delete(T0)
        assert logs.table.get(T0) is None
        [name] = names(tmp_path)
        folder = parse_folder(name)
        assert folder is not None
        assert (folder.partition, folder.mark) == (T0, Mark.DELETE)
        assert await logs.removal.run_due(NOW + 59_999) == 0
        assert checkpoints.read_offsets(managed.files, str(tmp_path), checkpoints.RECOVERY_POINTS) == {}
        assert await logs.removal.run_due(NOW + 60_000) == 1
        assert names(tmp_path) == []
        assert len(managed.files.pread(slice_.file.fileno, slice_.length, slice_.position)) == slice_.length
        slice_.file.release()

    asyncio.run(main())


def test_a_deletion_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        append(managed.log("t"), b"1")
        logs.delete(T0)
        managed.abandon()
        again = managed.restarted()
        await again.start()
        assert await again.logs.removal.run_due(NOW + 60_000) == 1
        assert names(tmp_path) == []

    asyncio.run(main())


def test_a_topic_that_is_created_again_gets_no_offsets_of_the_old_one(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        logs = await managed.start()
        for _ in range(5):
            append(managed.log("t"), b"old")
        log = managed.log("t")
        log.roll()
        log.advance_log_start(3)
        await logs.flushes.flush(log)
        for write in (
            logs.checkpoints.write_recovery_points,
            logs.checkpoints.write_start_offsets,
            logs.checkpoints.write_high_watermarks,
        ):
            await write()
        logs.delete(T0)
        managed.topics["t"] = UUID(int=4711)
        append(managed.log("t"), b"new")
        managed.abandon()  # before any periodic duty ran
        again = managed.restarted()
        await again.start()
        assert again.logs.table.checkpointed_high_watermark(T0) == 0
        assert (again.log("t").log_start_offset, values_from(again.log("t"))) == (0, [(0, b"new")])

    asyncio.run(main())


# -- faults -----------------------------------------------------------------------------------------------------------


class FailingFiles(UnsyncedFiles):
    """Fails syncs below a path."""

    def __init__(self) -> None:
        self.broken = "/nowhere"
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self._paths[fd] = path
        return fd

    def duplicate(self, fd: int) -> int:
        copy = super().duplicate(fd)
        self._paths[copy] = self._paths[fd]
        return copy

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        self._check(self._paths[fd])

    def sync_directory(self, path: str) -> None:
        self._check(path)

    def _check(self, path: str) -> None:
        if path.startswith(self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)


def two_directories(tmp_path: Path, files: FailingFiles) -> Managed:
    return Managed([tmp_path / "a", tmp_path / "b"], files=files)


def test_a_failed_sync_takes_only_its_directory_offline(tmp_path: Path) -> None:
    async def main() -> None:
        files = FailingFiles()
        managed = two_directories(tmp_path, files)
        logs = await managed.start()
        for partition in range(4):
            append(managed.log("t", partition), b"x")
        files.broken = str(tmp_path / "a")
        await logs.flushes.flush(managed.log("t", 0))
        assert managed.failed == [(str(tmp_path / "a"), [TopicPartition("t", 0), TopicPartition("t", 2)])]
        assert [directory.offline for directory in logs.table.directories] == [True, False]
        assert logs.table.get(T0) is None
        append(managed.log("t", 1), b"y")
        await logs.flushes.flush(managed.log("t", 1))
        assert managed.all_failed == 0
        with pytest.raises(LogIOError, match=r"Can not create log for t-0 because log directories .* are offline"):
            managed.log("t", 0)
        assert managed.log("new", is_new=True).folder == str(tmp_path / "b" / "new-0")
        await logs.retaining.run(NOW)
        await logs.checkpoints.write_recovery_points()
        await logs.close()
        assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
        assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()

    asyncio.run(main())


def test_the_last_directory_gone_stops_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        files = FailingFiles()
        managed = two_directories(tmp_path, files)
        logs = await managed.start()
        append(managed.log("t"), b"x")
        files.broken = str(tmp_path)
        await logs.checkpoints.write_recovery_points()
        assert managed.all_failed == 1
        with pytest.raises(LogIOError):
            managed.log("new", is_new=True)

    asyncio.run(main())


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file in the way")

    async def main() -> LogManager:
        return await Managed([tmp_path / "a", tmp_path / "b"]).start()

    logs = asyncio.run(main())
    assert [directory.offline for directory in logs.table.directories] == [True, False]


def test_a_disk_error_while_loading_takes_the_directory_offline(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path])
        await managed.start()
        append(managed.log("t"), b"x")
        managed.abandon()
        (tmp_path / "t-0" / "00000000000000000000.log").unlink()
        (tmp_path / "t-0" / "00000000000000000000.log").mkdir()
        again = managed.restarted()
        await again.start()
        assert again.failed == [(str(tmp_path), [])]
        assert again.all_failed == 1

    asyncio.run(main())


def test_a_failed_creation_takes_the_directory_offline(tmp_path: Path) -> None:
    async def main() -> None:
        files = FailingFiles()
        managed = two_directories(tmp_path, files)
        logs = await managed.start()
        files.broken = str(tmp_path / "a")
        with pytest.raises(LogIOError):
            managed.log("t")
        await logs.maker.prepare([NewLog(T0, UUID(int=5), settings())])
        assert managed.failed == [(str(tmp_path / "a"), [])]
        prepared = logs.table.get(T0)
        assert prepared is not None
        assert prepared.folder == str(tmp_path / "b" / "t-0")

    asyncio.run(main())


def test_many_deletions_cost_few_writes(tmp_path: Path) -> None:
    async def main() -> None:
        files = StoppingFiles()
        managed = Managed([tmp_path], files=files)
        logs = await managed.start()
        for partition in range(40):
            append(managed.log("t", partition), b"x")
        await logs.checkpoints.write_recovery_points()
        await logs.checkpoints.write_high_watermarks()
        for partition in range(40):
            logs.delete(TopicPartition("t", partition))
        files.operations = 0
        await logs.removal.run_due(NOW)
        assert files.operations < 20
        assert await logs.removal.run_due(NOW + 60_000) == 40
        assert names(tmp_path) == []

    asyncio.run(main())
