"""The file connectors without a worker: where lines end, what happened to the file, what a crash leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from moldau.connect.connectors.file_rotation import FileGone
from moldau.connect.connectors.files import Companion, FileChanged, FileSink, FileSource
from moldau.connect.interface import Position, SinkRecord, StreamsChanged
from moldau.types.ids import TopicPartition
from tests.support.deaths import Deaths


class Reader:
    """Reads as the worker does, position by position."""

    made: ClassVar[list[Reader]] = []

    def __init__(self, path: Path, **config: Any) -> None:
        given = {"file": str(path), "topic": "t", **config}
        self.source = FileSource({**given, **FileSource.CONFIG.checked(given)})
        (self.stream,) = self.source.streams()
        self.position: Position | None = None
        self.made.append(self)

    def lines(self) -> list[str]:
        found: list[str] = []
        while (end := self.source.latest(self.stream, self.position)) != self.position:
            assert end is not None
            for batch in self.source.read(self.stream, self.position, end):
                found += batch.column("value").to_pylist()  # type: ignore[union-attr]
            self.position = end
        return found


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "app.log"
    while Reader.made:
        Reader.made.pop().source.close()


def append(path: Path, content: str) -> None:
    with path.open("ab") as file:
        file.write(content.encode())


def test_a_line_counts_when_its_end_is_there(path: Path) -> None:
    reader = Reader(path)
    assert reader.lines() == []
    append(path, "one\ntwo\r\nthree\rfo")
    assert reader.lines() == ["one", "two", "three"]
    append(path, "ur\r")
    assert reader.lines() == []
    append(path, "\n\nlast\n")
    assert reader.lines() == ["four", "", "last"]


def test_a_batch_is_bounded_but_never_cuts_a_line(path: Path) -> None:
    append(path, "x" * 50 + "\nshort\nshorter\n")
    assert Reader(path, **{"batch.bytes": "8"}).lines() == ["x" * 50, "short", "shorter"]


def test_what_was_not_read_of_a_rotated_file_comes_first(path: Path) -> None:
    reader = Reader(path)
    append(path, "1\n2\n")
    assert reader.lines() == ["1", "2"]
    append(path, "3\n")
    path.rename(path.with_suffix(".log.1"))
    append(path, "4\n")
    assert reader.lines() == ["3", "4"]


def rotated(path: Path, keep: int = 9) -> None:
    """As logrotate does it: each moves on by one."""
    for number in range(keep - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.rename(path.with_name(f"{path.name}.{number + 1}"))
    path.rename(path.with_name(f"{path.name}.1"))


def test_files_that_were_rotated_between_two_looks_are_read_in_their_order(path: Path) -> None:
    reader = Reader(path)
    append(path, "0\n")
    rotated(path)
    append(path, "1\n")
    assert reader.lines() == ["1"]
    append(path, "2\n")
    for number in range(3, 8):
        rotated(path)
        append(path, f"{number}\n")
    path.with_name("app.log.txt").write_text("of another program\n")
    path.with_name("app.logs.1").write_text("of another program\n")
    assert reader.lines() == ["2", "3", "4", "5", "6", "7"]
    assert reader.lines() == []


def test_files_that_get_their_time_as_a_name_are_followed(path: Path) -> None:
    reader = Reader(path)
    append(path, "1\n")
    assert reader.lines() == ["1"]
    path.rename(path.with_name("app-2026-11-19T20.log"))
    append(path, "2\n")
    path.rename(path.with_name("app-2026-11-19T21.log"))
    append(path, "3\n")
    assert reader.lines() == ["2", "3"]


def test_a_rotated_file_ends_with_a_line_though_its_end_is_missing(path: Path) -> None:
    reader = Reader(path)
    append(path, "1\nhalf")
    assert reader.lines() == ["1"]
    rotated(path)
    assert reader.lines() == [], "it may still be written to"
    append(path, "2\n")
    assert reader.lines() == ["half", "2"]


def test_a_file_that_is_gone_with_lines_that_were_not_read_is_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader, tolerant = Reader(path), Reader(path, **{"errors.tolerance": "all"})
    append(path, "1\n")
    assert (reader.lines(), tolerant.lines()) == (["1"], ["1"])
    append(path, "22\n")
    (path.parent / "away").mkdir()
    path.rename(path.parent / "away" / path.name)
    append(path, "3\n")
    for _ in range(2):
        with pytest.raises(FileGone, match=r"of which 2 bytes were read: 3 bytes are lost; .* errors\.tolerance=all"):
            reader.lines()
    later = Reader(path)
    later.position = reader.position
    with pytest.raises(FileGone, match="whether lines behind them are lost is not known"):
        later.lines()
    assert tolerant.lines() == ["3"]
    assert "3 bytes are lost" in caplog.text


def test_a_file_that_was_read_to_its_end_may_go(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader(path)
    append(path, "1\n")
    reader.lines()
    append(path, "2\n")
    assert reader.lines() == ["2"]
    path.unlink()
    assert reader.lines() == []
    append(path, "3\n")
    assert reader.lines() == ["3"]
    assert caplog.text == ""


def test_what_was_rotated_after_a_file_that_is_gone_is_read(path: Path) -> None:
    reader = Reader(path)
    append(path, "1\n")
    reader.lines()
    path.unlink()
    append(path, "2\n")
    rotated(path)
    append(path, "3\n")
    assert reader.lines() == ["2", "3"]


def test_another_file_with_the_inode_of_one_that_is_gone_is_not_read(path: Path) -> None:
    append(path, "1\n")
    reader = Reader(path, **{"errors.tolerance": "all"})
    reader.lines()
    other = path.with_name("other.txt")
    other.write_text("of another program\n" * 2)
    assert reader.position is not None
    reader.position = {**reader.position, "inode": other.stat().st_ino}
    assert reader.lines() == ["1"]


def test_a_truncated_file_is_read_from_its_beginning(path: Path) -> None:
    reader = Reader(path)
    append(path, "1\n2\n3\n")
    reader.lines()
    path.write_text("4\n")
    assert reader.lines() == ["4"]


def test_a_file_that_was_filled_again_beyond_the_position_is_noticed(path: Path) -> None:
    reader = Reader(path)
    append(path, "1\n2\n")
    reader.lines()
    path.write_text("5\n6\n7\n8\n")
    assert reader.lines() == ["5", "6", "7", "8"]


def test_a_position_of_kafkas_own_is_understood(path: Path) -> None:
    append(path, "1\n2\n")
    reader = Reader(path)
    reader.position = {"position": 2}
    assert reader.lines() == ["2"]


# -- the sink --------------------------------------------------------------------------------------------------------


def sink(path: Path) -> FileSink:
    return FileSink({"file": str(path), "name": "out"})


def test_what_is_truncated_between_two_looks_is_not_taken_for_read(path: Path) -> None:
    """As copytruncate does; its new content is shorter, or longer, than what was to be read."""
    for fresh in ("", "x\n", "x" * 100):
        path.write_text("one\ntwo\n")
        source = FileSource({"file": str(path), **FileSource.CONFIG.checked({"file": str(path), "topic": "t"})})
        (stream,) = source.streams()
        end = source.latest(stream, None)
        assert end is not None
        with path.open("r+") as file:
            file.truncate()
            file.write(fresh)
        with pytest.raises(StreamsChanged, match="was truncated, or replaced, while it was read"):
            list(source.read(stream, None, end))
        source.close()


def some(first: int, last: int, partition: int = 0) -> Iterator[SinkRecord]:
    return (SinkRecord("t", partition, offset, None, None, f"{partition}:{offset}") for offset in range(first, last))


def test_records_that_were_written_are_left_out(path: Path) -> None:
    sink(path).write(some(0, 3))
    sink(path).write(some(1, 5))
    sink(path).write(some(0, 1, partition=1))
    assert path.read_text().split() == ["0:0", "0:1", "0:2", "0:3", "0:4", "1:0"]


def test_records_of_a_topic_that_was_made_anew_are_no_repetitions(path: Path) -> None:
    sink(path).write(some(0, 3))
    for _ in range(2):
        sink(path).write(each._replace(generation=1, value="new") for each in some(0, 1))
    assert path.read_text().split() == ["0:0", "0:1", "0:2", "new"]


def write_twice(path: Path) -> None:
    sink(path).write(some(2, 4))
    sink(path).write(some(4, 6))


class Died(Exception):
    """In the place of a kill."""


@pytest.mark.parametrize("moment", range(6))
def test_a_crash_at_any_moment_neither_loses_nor_doubles(
    path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dies before the n-th thing that reaches the disk; half of the content may be there already."""
    sink(path).write(some(0, 2))
    steps = 0
    save, fsync = Companion._save, os.fsync

    def dying_save(self: Companion) -> None:
        step()
        save(self)

    def dying_fsync(number: int) -> None:
        step()
        fsync(number)

    def step() -> None:
        nonlocal steps
        if steps == moment:
            raise Died
        steps += 1

    with monkeypatch.context() as patched:
        patched.setattr(Companion, "_save", dying_save)
        patched.setattr(os, "fsync", dying_fsync)
        with pytest.raises(Died):
            write_twice(path)
    sink(path).write(some(0, 6))
    assert path.read_text().split() == [f"0:{offset}" for offset in range(6)]


def test_twenty_deaths_in_a_row_neither_lose_nor_double(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = Deaths(most=12)
    monkeypatch.setattr(Companion, "_save", deaths.around(Companion._save))
    monkeypatch.setattr(os, "fsync", deaths.around(os.fsync))
    end = deaths.survived(lambda first, last: sink(path).write(some(first, last)))
    assert path.read_text().split() == [f"0:{offset}" for offset in range(end)]


def test_half_a_batch_is_cut_off_and_written_again(path: Path) -> None:
    sink(path).write(some(0, 2))
    with Companion(path, "out") as companion:
        companion._next = {"offsets": {"t-0": 4}, "bytes": 8, "crc": 0}
        companion._save()
    append(path, "0:2\n0")
    sink(path).write(some(2, 4))
    assert path.read_text().split() == ["0:0", "0:1", "0:2", "0:3"]


def test_what_others_appended_meanwhile_is_never_cut(path: Path) -> None:
    sink(path).write(some(0, 2))
    with Companion(path, "out") as companion:
        companion._next = {"offsets": {"t-0": 3}, "bytes": 4, "crc": 0}
        companion._save()
    append(path, "0:2\nsomebody else's line\n")
    with pytest.raises(FileChanged, match="others append"):
        sink(path).write(some(2, 3))
    assert "somebody else's line" in path.read_text()


def test_offsets_that_were_set_count(path: Path) -> None:
    sink(path).write(some(0, 2))
    sink(path).alter({TopicPartition("t", 0): None})
    sink(path).write(some(0, 1))
    assert path.read_text().split() == ["0:0", "0:1", "0:0"]


def test_partitions_of_topics_that_a_transform_merged_are_counted_apart(path: Path) -> None:
    def merged(topic: str, last: int) -> Iterator[SinkRecord]:
        return (SinkRecord("all", 0, at, None, None, f"{topic}:{at}", source_topic=topic) for at in range(last))

    sink = FileSink({"name": "out", **FileSink.CONFIG.checked({"file": str(path)})})
    sink.write(iter([*merged("a", 3), *merged("b", 2)]))
    assert path.read_text().split() == ["a:0", "a:1", "a:2", "b:0", "b:1"]
    sink.alter({TopicPartition("b", 0): 1})
    sink.write(iter([*merged("a", 3), *merged("b", 2)]))
    assert path.read_text().split()[5:] == ["b:1"]
