"""Room for segments that grow: asked for in proportion, given back, and never counted as part of the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.storage import reserving, segment
from moldau.storage.files import OsFiles
from moldau.storage.log import PartitionLog
from tests.support.logs import append, open_log, settings, values_from

MOUNTS = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:22 /a\\040b /mnt/a\\040b rw - tmpfs tmpfs rw
"""


class ReservingFiles(OsFiles):
    """Remembers what was asked for."""

    def __init__(self, is_possible: bool = True) -> None:
        self.asked: list[tuple[int, int]] = []
        self.truncated: list[int] = []
        self._is_possible = is_possible

    def reserve(self, fd: int, position: int, length: int) -> bool:
        self.asked.append((position, length))
        return self._is_possible

    def truncate(self, fd: int, size: int) -> None:  # type: ignore[override]
        self.truncated.append(size)
        os.ftruncate(fd, size)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_RESERVE_FROM_BYTES", 1000)
    monkeypatch.setattr(segment, "_RESERVE_LEAST_BYTES", 500)
    monkeypatch.setattr(segment, "_RESERVE_MOST_BYTES", 5000)


def grown(tmp_path: Path, files: OsFiles, size: int, **config: object) -> PartitionLog:
    log = open_log(str(tmp_path), files=files, config=settings(**config))
    while log.size_bytes < size:
        append(log, b"x" * 50)
    return log


@pytest.mark.usefixtures("small_steps")
def test_segments_that_grow_get_room_in_proportion(tmp_path: Path) -> None:
    files = ReservingFiles()
    log = grown(tmp_path, files, 40_000)
    assert files.asked[0][0] <= 1000
    assert 500 <= files.asked[0][1] <= 700
    assert 5000 <= files.asked[-1][1] <= 5200
    assert len(files.asked) < 20
    assert [position for position, _ in files.asked] == sorted({position for position, _ in files.asked})
    assert os.stat(log.segments.active.file.path).st_size == log.size_bytes


@pytest.mark.usefixtures("small_steps")
def test_unused_room_is_given_back_when_a_segment_is_complete(tmp_path: Path) -> None:
    files = ReservingFiles()
    log = grown(tmp_path, files, 3000)
    size = log.size_bytes
    files.truncated = []
    log.roll()
    assert size in files.truncated
    files.truncated = []
    log.close(clean=True)
    assert size not in files.truncated


@pytest.mark.usefixtures("small_steps")
def test_where_it_is_no_use_it_is_tried_once(tmp_path: Path) -> None:
    files = ReservingFiles(is_possible=False)
    grown(tmp_path, files, 20_000)
    assert len(files.asked) == 1


@pytest.mark.usefixtures("small_steps")
def test_files_that_were_allocated_as_a_whole_need_none(tmp_path: Path) -> None:
    files = ReservingFiles()
    grown(tmp_path, files, 5000, preallocate=True, segment_bytes=100_000)
    assert files.asked == []


def test_small_segments_get_none(tmp_path: Path) -> None:
    files = ReservingFiles()
    grown(tmp_path, files, 20_000)
    assert files.asked == []


@pytest.mark.usefixtures("small_steps")
def test_the_log_is_the_same_after_a_crash(tmp_path: Path) -> None:
    log = grown(tmp_path, OsFiles(), 20_000)
    log.close(clean=False)
    again = open_log(str(tmp_path))
    assert again.recovery.cut is None
    assert values_from(again) == values_from(log)


def test_the_end_of_a_real_file_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    fd = os.open(path, os.O_RDWR)
    try:
        reserving.reserve(fd, 3, 1 << 20)  # possible or not, according to the file system of the test
        assert os.fstat(fd).st_size == 3
        os.ftruncate(fd, 3)
        assert os.fstat(fd).st_blocks * 512 < 1 << 20
    finally:
        os.close(fd)


@pytest.mark.parametrize(("device", "kind"), [("254:0", "ext4"), ("0:22", "tmpfs"), ("9:9", None), ("", None)])
def test_the_kind_of_a_file_system_is_found_by_its_device(device: str, kind: str | None) -> None:
    assert reserving.kind_of_device(MOUNTS, device) == kind
