"""Flushes that run in threads while the log's owner goes on with other things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

from moldau.storage.files import OsFiles
from moldau.storage.log import PartitionLog
from moldau.types.ids import TopicPartition
from tests.support.logs import NOW, append, settings
from tests.support.managers import Managed

EPOCHS = "leader-epoch-checkpoint"


def test_a_late_flush_does_not_bring_back_old_epochs(new_log: Callable[..., PartitionLog]) -> None:
    log = new_log()
    append(log, b"a", epoch=1)
    first = log.flush_work()
    append(log, b"b", epoch=2)
    second = log.flush_work()
    second()
    first()
    assert Path(log.folder, EPOCHS).read_text() == "0\n2\n1 0\n2 1\n"
    log.flushed(second.up_to)
    assert log.recovery_point == 2


class MeetingFiles(OsFiles):
    """Lets two threads write the epochs at the same moment, if they may."""

    def __init__(self) -> None:
        self.barrier = Barrier(2)

    def rename(self, source: str, target: str) -> None:  # type: ignore[override]
        if source.endswith(f"{EPOCHS}.tmp") and not self.barrier.broken:
            try:
                self.barrier.wait(0.05)
            except Exception:
                self.barrier.abort()
        OsFiles.rename(source, target)


def test_two_flushes_at_once_do_not_disturb_each_other(new_log: Callable[..., PartitionLog]) -> None:
    files = MeetingFiles()
    log = new_log(files=files)
    append(log, b"a", epoch=1)
    works = [log.flush_work()]
    append(log, b"b", epoch=2)
    works.append(log.flush_work())
    threads = [Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [work.done for work in works] == [True, True]


def test_a_segment_may_go_while_it_is_flushed(new_log: Callable[..., PartitionLog]) -> None:
    log = new_log()
    append(log, b"a")
    log.roll()
    append(log, b"b")
    work = log.flush_work()
    log.remove_segments([log.segments.first])
    work()
    assert work.done


def test_a_flush_of_a_deleted_log_takes_nothing_offline(tmp_path: Path) -> None:
    async def main() -> None:
        managed = Managed([tmp_path], topic_config=lambda _: settings())
        logs = await managed.start()
        log = managed.log("t")
        append(log, b"a", epoch=3)
        work = log.flush_work()
        logs.delete(TopicPartition("t", 0))
        try:
            work()
        except Exception as error:
            logs.io_failed(log, error)
        assert managed.failed == []
        await logs.removal.run_due(NOW + 10**9)
        assert managed.failed == []

    asyncio.run(main())
