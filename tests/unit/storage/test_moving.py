"""Moving partitions between log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moldau.storage.folders import Mark, parse_folder
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LogManager
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.lossy_files import PowerCutError
from tests.fakes.stopping_files import StoppingFiles
from tests.support.logs import NOW, append, settings, values_from
from tests.support.managers import Managed

T0 = TopicPartition("t", 0)


async def in_turns(work: Callable[[], Any]) -> Any:
    """As a thread does, it lets the event loop do something else meanwhile."""
    await asyncio.sleep(0)
    return work()


def two(tmp_path: Path, **options: object) -> Managed:
    options.setdefault("run_blocking", in_turns)
    return Managed([tmp_path / "a", tmp_path / "b"], **options)  # type: ignore[arg-type]


def marks(directory: Path) -> list[Mark]:
    found = (parse_folder(path.name) for path in sorted(directory.iterdir()) if path.is_dir())
    return [folder.mark for folder in found if folder is not None]


async def moved(logs: LogManager) -> None:
    """Until no move is under way; one that hangs is ended by the test run's own limit."""
    while logs.moves._moves:  # noqa: ASYNC110 - the end of a move is no event
        await asyncio.sleep(0)


def fill(log: PartitionLog, count: int = 10) -> None:
    for number in range(count):
        append(log, b"%d" % number, b"x" * 50_000)
        if number % 3 == 2:
            log.roll()


def test_a_partition_is_copied_and_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        old = managed.log("t")
        fill(old)
        old.advance_log_start(3)
        expected = values_from(old, 3)
        await logs.moves.move(T0, str(tmp_path / "b"))
        await moved(logs)
        new = logs.table.get(T0)
        assert new is managed.replaced[T0]
        assert new is not None
        assert new.folder == str(tmp_path / "b" / "t-0")
        assert (new.log_start_offset, new.log_end_offset, values_from(new, 3)) == (3, 20, expected)
        assert logs.table.topic_id(T0) == managed.topics["t"]
        assert [list(directory.logs) for directory in logs.table.directories] == [[], [T0]]
        assert (marks(tmp_path / "a"), marks(tmp_path / "b")) == ([Mark.DELETE], [Mark.NONE])
        append(new, b"more")
        await logs.removal.run_due(NOW + 60_000)
        assert marks(tmp_path / "a") == []
        await logs.close()
        again = managed.restarted()
        await again.start()
        assert values_from(again.log("t"), 3) == [*expected, (20, b"more")]

    asyncio.run(main())


def test_what_is_written_meanwhile_is_copied_too(tmp_path: Path) -> None:
    async def main() -> None:
        managed = two(tmp_path, run_blocking=asyncio.to_thread)
        logs = await managed.start()
        log = managed.log("t")
        fill(log)
        await logs.moves.move(T0, str(tmp_path / "b"))
        written = 0
        while T0 not in managed.replaced:
            append(log, b"late %d" % written)
            written += 1
            await asyncio.sleep(0)
            if written == 200:
                await moved(logs)
        new = managed.replaced[T0]
        late = [value for _, value in values_from(new, 20)]
        assert late == [b"late %d" % number for number in range(len(late))]
        assert new.log_end_offset == log.log_end_offset
        await logs.close()

    asyncio.run(main())


def history(log: PartitionLog) -> list[tuple[int, bytes]]:
    return [(offset, bytes(value)) for offset, value in values_from(log)]


@pytest.mark.parametrize("cut_at", [2, 7, 11])
@pytest.mark.parametrize("epochs", [(4, 5), (2, 4), (2, 2)])
def test_a_log_that_is_cut_and_grows_again_is_copied_as_it_is_then(
    tmp_path: Path, cut_at: int, epochs: tuple[int, int]
) -> None:
    """Its leader has another history. What the copy holds from there on is not the log's, however long both are."""

    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        log = managed.log("t")
        for number in range(12):
            append(log, b"old %d" % number + b"x" * 30_000, epoch=2 if number < cut_at else 3)
        await logs.moves.move(T0, str(tmp_path / "b"))
        copy = logs.moves.get(T0)
        assert copy is not None
        while copy.log_end_offset <= cut_at:  # noqa: ASYNC110 - the growth of a copy is no event
            await asyncio.sleep(0)
        log.truncate_to(cut_at)
        for number in range(16):
            append(log, b"new %d" % number, epoch=epochs[number > 4])
        expected = history(log)
        await moved(logs)
        new = managed.replaced[T0]
        assert history(new) == expected
        assert new.leader_epochs.entries == log.leader_epochs.entries
        await logs.close()

    asyncio.run(main())


def test_a_copy_has_the_beginnings_of_epochs_as_the_log_knows_them(tmp_path: Path) -> None:
    """A term in which nothing is left, or was ever, stands in no batch."""

    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        log = managed.log("t")
        append(log, b"a", epoch=1)
        append(log, b"b", epoch=3)
        log.begin_epoch(6)
        expected = log.leader_epochs.entries
        await logs.moves.move(T0, str(tmp_path / "b"))
        await moved(logs)
        assert managed.replaced[T0].leader_epochs.entries == expected == [(1, 0), (3, 1), (6, 2)]
        await logs.close()

    asyncio.run(main())


def test_a_copy_is_described_while_it_grows(tmp_path: Path) -> None:
    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        fill(managed.log("t"))
        await logs.moves.move(T0, str(tmp_path / "b"))
        [replica] = logs.table.directories[1].replicas()
        assert (replica.topic_partition, replica.is_future, replica.size_bytes) == (T0, True, 0)
        assert [each.is_future for each in logs.table.directories[0].replicas()] == [False]
        await moved(logs)

    asyncio.run(main())


def test_what_cannot_be_moved_is_refused_with_kafka_s_codes(tmp_path: Path) -> None:
    async def refusal(logs: LogManager, partition: TopicPartition, path: Path) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            await logs.moves.move(partition, str(path))
        return caught.value.code

    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        managed.log("t")
        assert await refusal(logs, T0, tmp_path / "c") == ErrorCode.LOG_DIR_NOT_FOUND
        u0 = TopicPartition("u", 0)
        assert await refusal(logs, u0, tmp_path / "a") == ErrorCode.REPLICA_NOT_AVAILABLE
        assert managed.log("u").folder == str(tmp_path / "a" / "u-0"), "it is made where it was asked for"
        await logs.moves.move(T0, str(tmp_path / "a"))
        assert marks(tmp_path / "a") == [Mark.NONE, Mark.NONE], "it lies there already"
        logs.fail_directory(logs.table.directories[1], OSError("broken"))
        assert await refusal(logs, T0, tmp_path / "b") == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(main())


@pytest.mark.parametrize("how", ["delete", "back", "offline"])
def test_a_move_that_is_not_wanted_any_more_leaves_nothing(tmp_path: Path, how: str) -> None:
    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        fill(managed.log("t"))
        await logs.moves.move(T0, str(tmp_path / "b"))
        await asyncio.sleep(0)
        if how == "delete":
            logs.delete(T0)
        elif how == "back":
            await logs.moves.move(T0, str(tmp_path / "a"))
        else:
            logs.fail_directory(logs.table.directories[0], OSError("broken"))
        await moved(logs)
        await logs.removal.run_due(NOW + 60_000)
        assert marks(tmp_path / "b") == []
        assert managed.replaced == {}
        assert marks(tmp_path / "a") == ([] if how == "delete" else [Mark.NONE])
        await logs.close()

    asyncio.run(main())


def test_an_unfinished_copy_is_taken_up_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        managed = two(tmp_path)
        logs = await managed.start()
        fill(managed.log("t"))
        expected = values_from(managed.log("t"))
        await logs.moves.move(T0, str(tmp_path / "b"))
        await asyncio.sleep(0)
        await logs.close()
        assert marks(tmp_path / "b") == [Mark.FUTURE]
        again = managed.restarted(run_blocking=in_turns)
        await again.start()
        await moved(again.logs)
        assert values_from(again.replaced[T0]) == expected
        assert marks(tmp_path / "b") == [Mark.NONE]
        await again.logs.close()

    asyncio.run(main())


async def move_and_be_killed(folder: Path, files: StoppingFiles, stop_after: int | None) -> list[object]:
    config = settings(file_delete_delay_ms=0)
    managed = two(folder, files=files, topics={"t": UUID(int=5)}, topic_config=lambda _: config)
    logs = await managed.start()
    fill(managed.log("t"), 5)
    expected: list[object] = [*values_from(managed.log("t"))]
    files.operations, files.left = 0, stop_after
    try:
        await logs.moves.move(T0, str(folder / "b"))
        await next(iter(logs.moves._moves.values()))
        await logs.removal.run_due(NOW + 60_000)
    except PowerCutError:
        assert stop_after is not None
    finally:
        files.left = None
        managed.abandon()
    return expected


def test_a_broker_killed_at_any_step_of_a_move_keeps_the_partition(tmp_path: Path) -> None:
    files = StoppingFiles()
    expected = asyncio.run(move_and_be_killed(tmp_path / "whole", files, None))

    async def reopen(folder: Path, check: Callable[[Managed], None]) -> None:
        managed = two(folder, topics={"t": UUID(int=5)})
        await managed.start()
        check(managed)
        await moved(managed.logs)
        check(managed)
        managed.abandon()

    def has_everything(managed: Managed) -> None:
        assert [*values_from(managed.log("t"))] == expected
        assert len(list(managed.logs.table.in_service())) == 1

    for step in range(files.operations):
        folder = tmp_path / str(step)
        asyncio.run(move_and_be_killed(folder, StoppingFiles(), step))
        asyncio.run(reopen(folder, has_everything))
