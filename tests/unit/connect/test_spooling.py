"""The spooling directory: each file once, whatever is killed in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.connectors.file_rotation import FileGone
from moldau.connect.connectors.spooling import FileChanged, FileNameTaken, SpoolDirSource
from moldau.connect.interface import Position


class Reader:
    def __init__(self, folder: Path, **config: str) -> None:
        given = {"spoolDir": str(folder), "topic": "t", **config}
        self.source = SpoolDirSource({**given, **SpoolDirSource.CONFIG.checked(given)})
        (self.stream,) = self.source.streams()
        self.position: Position | None = None
        self.headers: list[Any] = []

    def lines(self) -> list[str]:
        found: list[str] = []
        while (end := self.source.latest(self.stream, self.position)) != self.position:
            assert end is not None
            for batch in self.source.read(self.stream, self.position, end):
                found += batch.column("value").to_pylist()
                if "headers" in batch.schema.names:
                    self.headers += batch.column("headers").to_pylist()
            self.position = end
        return found


def put(folder: Path, name: str, content: str, at: int) -> None:
    (folder / name).write_text(content)
    os.utime(folder / name, (at, at))


def test_files_are_read_once_oldest_first_and_marked(tmp_path: Path) -> None:
    put(tmp_path, "b", "1\n2", 100)
    put(tmp_path, "a", "3\n", 200)
    put(tmp_path, "empty", "", 50)
    put(tmp_path, ".hidden", "x\n", 1)
    reader = Reader(tmp_path, **{"batch.bytes": "2"})
    assert reader.lines() == ["1", "2", "3"]
    assert reader.lines() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".hidden",
        "a.COMPLETED",
        "b.COMPLETED",
        "empty.COMPLETED",
    ]
    put(tmp_path, "c", "4\n", 300)
    assert reader.lines() == ["4"]


def test_a_crash_before_the_file_is_marked_reads_nothing_again(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n2\n3\n", 100)
    reader = Reader(tmp_path, **{"batch.bytes": "4"})
    end = reader.source.latest(reader.stream, None)
    assert end is not None
    later = Reader(tmp_path)
    later.position = end
    assert later.lines() == ["3"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.COMPLETED"]


def test_headers_patterns_and_deleting(tmp_path: Path) -> None:
    put(tmp_path, "a.log", "1\n", 100)
    put(tmp_path, "b.tmp", "2\n", 100)
    config = {"fileHeader": "true", "basenameHeader": "true", "ignorePattern": r".*\.tmp", "deletePolicy": "immediate"}
    reader = Reader(tmp_path, **config)
    assert reader.lines() == ["1"]
    (headers,) = reader.headers
    assert {each["key"]: each["value"] for each in headers} == {
        "file": str(tmp_path / "a.log").encode(),
        "basename": b"a.log",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["b.tmp"]


def test_names_that_come_again_and_files_that_change_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n", 100)
    reader = Reader(tmp_path)
    reader.lines()
    put(tmp_path, "a", "2\n", 200)
    assert reader.source.latest(reader.stream, reader.position) is not None
    with pytest.raises(FileNameTaken, match=r"a\.COMPLETED is there already"):
        reader.lines()
    other = Reader(tmp_path)
    other.position = other.source.latest(other.stream, None)
    put(tmp_path, "a", "2\nmore\n", 200)
    with pytest.raises(FileChanged, match="had 2 bytes"):
        other.lines()


def written_again(folder: Path, name: str, content: str, at: int) -> None:
    """In the place of a file: the inode stays, as it does by chance where file systems give it out again."""
    kept = folder / f".{name}"
    kept.rename(folder / name)
    put(folder, name, content, at)


@pytest.mark.parametrize("content", ["3\n4\n", "1\n2\n", "1\n2\n3\n", "5\n"])
@pytest.mark.parametrize("at", [100, 200])
def test_a_new_file_with_the_last_ones_name_and_inode_is_read(tmp_path: Path, content: str, at: int) -> None:
    put(tmp_path, "a", "1\n2\n", 100)
    os.link(tmp_path / "a", tmp_path / ".a")
    reader = Reader(tmp_path, deletePolicy="immediate")
    assert reader.lines() == ["1", "2"]
    assert not (tmp_path / "a").exists()
    written_again(tmp_path, "a", content, at)
    after_a_restart = Reader(tmp_path, deletePolicy="immediate")
    after_a_restart.position = reader.position
    assert after_a_restart.lines() == content.split()


@pytest.mark.parametrize("content", ["3\n4\n", "1\n2\n"])
def test_after_a_crash_nothing_is_deleted_that_may_be_unread(tmp_path: Path, content: str) -> None:
    put(tmp_path, "a", "1\n2\n", 100)
    crashed = Reader(tmp_path, deletePolicy="immediate")
    reader = Reader(tmp_path, deletePolicy="immediate")
    reader.position = crashed.source.latest(crashed.stream, None)
    os.link(tmp_path / "a", tmp_path / ".a")
    (tmp_path / "a").unlink()
    written_again(tmp_path, "a", content, 200)
    assert reader.lines() == content.split()
    assert not (tmp_path / "a").exists()


def test_a_file_that_is_taken_away_unread_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, "a", "1\n2\n3\n", 100)
    reader = Reader(tmp_path, **{"batch.bytes": "2"})
    reader.position = reader.source.latest(reader.stream, None)
    (tmp_path / "a").unlink()
    put(tmp_path, "b", "4\n", 200)
    with pytest.raises(FileGone, match=r"a was taken away before it was read to its end: 4 of its 6 bytes are lost"):
        reader.lines()
    tolerant = Reader(tmp_path, **{"errors.tolerance": "all"})
    tolerant.position = reader.position
    assert tolerant.lines() == ["4"]
    assert "4 of its 6 bytes are lost" in caplog.text


def test_a_file_that_is_another_when_it_is_read_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n", 100)
    reader = Reader(tmp_path)
    end = reader.source.latest(reader.stream, None)
    assert end is not None
    put(tmp_path, "a", "2\n", 200)
    with pytest.raises(FileChanged, match="is another file"):
        list(reader.source.read(reader.stream, None, end))
