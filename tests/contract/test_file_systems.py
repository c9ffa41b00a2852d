"""What storage relies on, asked of the real file system and of the fake that stands in for it."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from moldau.storage.files import FileSystem, OsFiles, read_file, replace_file, sync_file, write_file
from tests.fakes.lossy_files import LossyFiles

T = TypeVar("T")

Place = tuple[FileSystem, str]


def _real(tmp_path: Path) -> Place:
    return OsFiles(), str(tmp_path)


def _fake(_: Path) -> Place:
    files = LossyFiles()
    files.make_directory("/disk")
    return files, "/disk"


@pytest.fixture(params=[_real, _fake], ids=["real", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    build: Callable[[Path], Place] = request.param
    return build(tmp_path)


def test_writing_and_reading_at_positions(place: Place) -> None:
    files, folder = place
    fd = files.open(f"{folder}/f", create=True)
    assert files.pwritev(fd, [b"abc", bytearray(b"def"), memoryview(b"g")], 2) == 7
    assert files.size(fd) == 9 and files.pread(fd, 100, 0) == b"\0\0abcdefg"
    assert files.pread(fd, 2, 3) == b"bc" and files.pread(fd, 5, 9) == b""
    first, second = bytearray(3), bytearray(20)
    assert files.preadv(fd, [first, second], 2) == 7
    assert first == b"abc" and second[:4] == b"defg"
    files.truncate(fd, 4)
    assert files.pread(fd, 9, 0) == b"\0\0ab"
    files.truncate(fd, 6)
    assert files.pread(fd, 9, 0) == b"\0\0ab\0\0"
    files.allocate(fd, 10)
    assert files.size(fd) == 10
    files.allocate(fd, 5)
    assert files.size(fd) == 10
    other = files.duplicate(fd)
    files.close(fd)
    files.fdatasync(other)
    assert files.pread(other, 4, 0) == b"\0\0ab"
    files.close(other)
    assert files.status(f"{folder}/f").size == 10


def test_a_missing_file_is_an_error_unless_it_is_to_be_made(place: Place) -> None:
    files, folder = place
    missing = f"{folder}/missing"
    for action in (files.open, files.unlink, files.status, lambda path: files.rename(path, path + "2"), files.list):
        with pytest.raises(FileNotFoundError) as error:
            action(missing)
        assert error.value.filename == missing
    assert not files.exists(missing)
    sync_file(files, missing)
    files.close(files.open(missing, create=True))
    assert files.exists(missing)


def test_names(place: Place) -> None:
    files, folder = place
    files.make_directory(f"{folder}/a/b")
    files.make_directory(f"{folder}/a/b")
    write_file(files, f"{folder}/a/x", b"one", sync=False)
    write_file(files, f"{folder}/a/y", b"a longer two", sync=True)
    write_file(files, f"{folder}/a/y", b"two", sync=True)
    assert sorted(files.list(f"{folder}/a")) == ["b", "x", "y"]
    files.rename(f"{folder}/a/x", f"{folder}/a/y")
    assert sorted(files.list(f"{folder}/a")) == ["b", "y"] and read_file(files, f"{folder}/a/y") == b"one"
    assert files.is_directory(f"{folder}/a/b") and not files.is_directory(f"{folder}/a/y")
    with pytest.raises(OSError, match="not empty"):
        files.remove_directory(f"{folder}/a")
    files.unlink(f"{folder}/a/y")
    files.remove_directory(f"{folder}/a/b")
    files.remove_directory(f"{folder}/a")
    assert not files.is_directory(f"{folder}/a")


def test_a_folder_gets_another_name_with_all_that_is_in_it(place: Place) -> None:
    files, folder = place
    files.make_directory(f"{folder}/a/b")
    write_file(files, f"{folder}/a/b/x", b"one", sync=True)
    fd = files.open(f"{folder}/a/b/x")
    files.rename(f"{folder}/a", f"{folder}/c")
    assert files.list(folder) == ["c"] and read_file(files, f"{folder}/c/b/x") == b"one"
    assert not files.exists(f"{folder}/a") and not files.exists(f"{folder}/a/b/x")
    files.pwritev(fd, [b"two"], 0)
    files.close(fd)
    assert read_file(files, f"{folder}/c/b/x") == b"two"


@pytest.mark.parametrize("seed", range(8))
def test_after_a_power_cut_a_folder_has_one_of_its_names(seed: int) -> None:
    files = LossyFiles()
    files.make_directory("/d/a")
    write_file(files, "/d/a/x", b"one", sync=True)
    files.sync_directory("/d/a")
    files.rename("/d/a", "/d/c")
    write_file(files, "/d/c/y", b"two", sync=True)
    files.sync_directory("/d/c")
    if seed % 2:
        files.sync_directory("/d")
    files.crash(Random(seed))
    found = {name for name in ("/d/a/x", "/d/c/x", "/d/a/y", "/d/c/y") if files.exists(name)}
    is_synced = seed % 2
    assert found in [{"/d/c/x", "/d/c/y"}, {"/d/c/x", "/d/c/y"} if is_synced else {"/d/a/x", "/d/a/y"}]


def test_an_open_file_survives_its_deletion(place: Place) -> None:
    files, folder = place
    write_file(files, f"{folder}/f", b"data", sync=False)
    fd = files.open(f"{folder}/f")
    files.unlink(f"{folder}/f")
    assert files.pread(fd, 4, 0) == b"data"
    files.close(fd)


def test_replacing_a_file(place: Place) -> None:
    files, folder = place
    for data in (b"one", b"a longer two", b""):
        replace_file(files, f"{folder}/f", data)
        assert read_file(files, f"{folder}/f") == data
    assert files.list(folder) == ["f"]


def test_a_lock_has_one_holder(place: Place) -> None:
    files, folder = place
    held = files.lock(f"{folder}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{folder}/.lock")
    files.close(held)
    files.close(files.lock(f"{folder}/.lock"))


def test_space_is_told(place: Place) -> None:
    files, folder = place
    total, usable = files.disk_space(folder)
    assert total >= usable > 0


# -- what only the fake can show --------------------------------------------------------------------------------------


def _after_crashes(prepare: Callable[[LossyFiles], None], look: Callable[[LossyFiles], T]) -> set[T]:
    found = set()
    for seed in range(200):
        files = LossyFiles()
        files.make_directory("/disk")
        prepare(files)
        files.crash(Random(seed))
        found.add(look(files))
    return found


def test_replacing_is_atomic_and_lasting() -> None:
    def prepare(files: LossyFiles) -> None:
        replace_file(files, "/disk/f", b"old")
        files.stop_after(Random(id(files)).randint(0, 8))
        try:
            replace_file(files, "/disk/f", b"new")
        except BaseException as stop:
            if type(stop).__name__ != "PowerCutError":
                raise

    assert _after_crashes(prepare, lambda files: read_file(files, "/disk/f")) <= {b"old", b"new"}

    def finish(files: LossyFiles) -> None:
        replace_file(files, "/disk/f", b"old")
        replace_file(files, "/disk/f", b"new")

    assert _after_crashes(finish, lambda files: read_file(files, "/disk/f")) == {b"new"}


def test_pages_are_lost_and_survive_in_any_order() -> None:
    page = os.sysconf("SC_PAGE_SIZE")

    def prepare(files: LossyFiles) -> None:
        write_file(files, "/disk/f", b"\1" * (3 * page), sync=True)
        files.sync_directory("/disk")
        fd = files.open("/disk/f")
        files.pwritev(fd, [b"\2" * (3 * page)], 0)

    seen = _after_crashes(prepare, lambda files: tuple(read_file(files, "/disk/f")[::page]))
    assert len(seen) == 8 and all(set(pages) <= {1, 2} for pages in seen)


def test_names_are_lost_from_the_end() -> None:
    def prepare(files: LossyFiles) -> None:
        for name in "abc":
            write_file(files, f"/disk/{name}", b"x", sync=True)

    assert _after_crashes(prepare, lambda files: "".join(files.list("/disk"))) == {"", "a", "ab", "abc"}
