"""Sources of files whose worker or tasks die at random steps, while what they read grows: what is committed is what was
there, each once and in order."""

from __future__ import annotations

import itertools
import os
import random
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.connect.connectors import files
from moldau.connect.connectors.files import FileSource
from moldau.connect.connectors.spooling import SpoolDirSource
from moldau.connect.interface import Connector
from tests.support.source_deaths import DyingWorker

SEEDS: Final = (1, 2)
NOON: Final = 1_709_208_000
"""2024-02-29, 12:00 UTC."""


def made(kind: type[Connector], given: dict[str, str], *more: Any) -> Any:
    given = {"name": "it", **given}
    return kind({**given, **kind.CONFIG.checked(given)}, *more)


# -- a file ----------------------------------------------------------------------------------------------------------


class Program:
    """Writes lines to its file, half ones too, and goes on writing to it after it was renamed, until it hears of it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.lines: list[str] = []
        self.chance = random.Random(seed)
        self._half = False
        self._rotations = 0
        self._file = path.open("ab", buffering=0)

    def close(self) -> None:
        self._file.close()

    def write(self) -> None:
        for _ in range(self.chance.randrange(1, 5)):
            self._end_line()
            self.lines.append(f"{len(self.lines)} {'x' * self.chance.randrange(30)}")
            self._file.write(self.lines[-1].encode())
            self._half = True
        if self.chance.random() < 0.8:
            self._end_line()

    def _end_line(self) -> None:
        if self._half:
            self._file.write(b"\n")
        self._half = False

    def rotate(self) -> None:
        """As logrotate does it, and hears of it the next time."""
        if not self.path.exists():
            self._file.close()
            self._file = self.path.open("ab", buffering=0)
            self._half = False  # the next file says that it was a whole one
            return
        for number in range(self._rotations, 0, -1):
            self.path.with_name(f"{self.path.name}.{number}").rename(f"{self.path}.{number + 1}")
        self.path.rename(f"{self.path}.1")
        self._rotations += 1

    def write_or_rotate(self) -> None:
        (self.write if self.chance.random() < 0.6 else self.rotate)()

    def truncate(self) -> None:
        self._end_line()
        self._file.truncate(0)

    def finish(self) -> None:
        if not self.path.exists():
            self.rotate()
        self.write()
        self._end_line()


def followed(program: Program, seed: int, most: int, failures: tuple[type[Exception], ...] = ()) -> DyingWorker:
    def change() -> None:
        # A connector that is new begins with the file that is there.
        (program.write_or_rotate if worker.positions else program.write)()

    worker = DyingWorker(lambda: lines_of(program.path), change, most, seed, failures)
    return worker


def lines_of(path: Path) -> FileSource:
    found: FileSource = made(FileSource, {"file": str(path), "topic": "t", "batch.bytes": "60"})
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_of_a_file_that_is_rotated(tmp_path: Path, seed: int) -> None:
    with closing(Program(tmp_path / "app.log", seed)) as program:
        worker = followed(program, seed, most=6)
        worker.survive()
        program.finish()
        worker.finish()
    assert worker.values("t") == program.lines


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_of_a_file_that_is_rotated_within_a_look(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not found under its name any more ends the query, and the next one finds it."""
    with closing(Program(tmp_path / "app.log", seed)) as program:
        worker = followed(program, seed, most=12, failures=(OSError,))
        with monkeypatch.context() as patched:
            for name in ("checksum", "end_of_lines", "find_inode", "begun_after"):
                patched.setattr(files, name, worker.around(getattr(files, name)))
            worker.survive()
        program.finish()
        worker.finish()
    assert worker.values("t") == program.lines


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_of_a_file_that_is_truncated(tmp_path: Path, seed: int) -> None:
    """Once all of it is committed: what nobody has read is lost to everybody."""
    with closing(Program(tmp_path / "app.log", seed)) as program:

        def change() -> None:
            if program.chance.random() < 0.6 and worker.values("t") == program.lines:
                program.truncate()
            else:
                program.write()

        worker = DyingWorker(lambda: lines_of(program.path), change, most=6, seed=seed)
        worker.survive()
        program.finish()
        worker.finish()
    assert worker.values("t") == program.lines


# -- a spooling directory --------------------------------------------------------------------------------------------


class Spool:
    """Files are put there whole; names come again where the ones before are deleted."""

    def __init__(self, folder: Path, seed: int, names: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self._names = itertools.cycle(range(names))
        self._times = itertools.count(NOON)
        self.lines: list[str] = []

    def put(self) -> None:
        name = f"app-{next(self._names)}.log"
        if (self._folder / name).exists():
            return
        several = [f"{len(self.lines) + number} of {name}" for number in range(self._chance.randrange(5))]
        self.lines += several
        hidden = self._folder / f".{name}"
        hidden.write_text("\n".join(several) + self._chance.choice(["", "\n"] if several else [""]))
        at = next(self._times)
        os.utime(hidden, (at, at))
        hidden.rename(self._folder / name)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("policy", "names"), [("never", 1000), ("immediate", 3)])
def test_files_of_a_folder(tmp_path: Path, seed: int, policy: str, names: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, seed, names)
    config = {"spoolDir": str(tmp_path), "topic": "t", "batch.bytes": "30", "deletePolicy": policy}
    worker = DyingWorker(lambda: made(SpoolDirSource, config), spool.put, most=6, seed=seed)
    monkeypatch.setattr(SpoolDirSource, "_finish", worker.around(SpoolDirSource._finish))
    worker.survive()
    worker.finish()
    assert worker.values("t") == spool.lines
    left = [path.name for path in tmp_path.iterdir()]
    assert all(name.endswith(".COMPLETED") for name in left) and bool(left) == (policy == "never")
