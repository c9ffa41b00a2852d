"""Files that are renamed, and begun anew under their names: which is which, and what is lost of one that is gone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

DIGITS: Final = re.compile(r"\d+")
ENDING: Final = r"[.-]\d[\d.T:_-]*"
"""What `logrotate` and the like put behind a name: a number, or a time."""
LARGEST_NUMBER: Final = 9999
"""What is larger is a time."""


class FileGone(Exception):
    """A file was taken away before it was read to its end."""


def is_tolerant(config: Mapping[str, Any]) -> bool:
    return config.get("errors.tolerance") == "all"


class Held:
    """The file that is being read, open: so its size is known though it is removed, and nobody gets its inode."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def hold(self, path: Path) -> None:
        if self._file is not None and os.fstat(self._file.fileno()).st_ino == path.stat().st_ino:
            return
        self.let_go()
        self._file = path.open("rb")

    def let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def size_of(self, inode: int) -> int | None:
        if self._file is None:
            return None
        now = os.fstat(self._file.fileno())
        return now.st_size if now.st_ino == inode else None


def find_inode(path: Path, inode: int) -> Path | None:
    """A rotated file lies beside the one that took its name."""
    with os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.inode() == inode and entry.is_file(follow_symlinks=False):
                return Path(entry.path)
    return None


class Names:
    """Of the files in a folder, as they were: while they are renamed a path is now one file and now another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inodes = self._found()

    def _found(self) -> set[tuple[int, str]]:
        with os.scandir(self._path.parent) as entries:
            return {(entry.inode(), entry.name) for entry in entries}

    def have_changed(self) -> bool:
        """Whether a file has another name now, or the path another file; what else comes and goes is all the same."""
        now = self._found()
        there = {inode for inode, _ in now}
        return any(inode in there or name == self._path.name for inode, name in self._inodes - now) or any(
            name == self._path.name for _, name in now - self._inodes
        )


def begun_after(path: Path, old: Path | None, since_ns: int) -> list[Path]:
    """Files that had the name after the one that is read now, in their order: those that have a rotated name and were
    written to later, and who has it now. `old`: how that one is called now, if it is there; `since_ns`: a time when it
    was the last to be written to."""
    scheme = re.compile(re.escape(path.name) + ENDING if old is None else alike(old.name))
    least = age(old) if old is not None else (since_ns + 1, ())
    rotated = [
        each
        for each in path.parent.iterdir()
        if each not in (path, old) and scheme.fullmatch(each.name) and each.is_file() and age(each) >= least
    ]
    return [*sorted(rotated, key=age), *([path] if path.exists() else [])]


def alike(name: str) -> str:
    """Names that differ in their numbers alone."""
    return DIGITS.sub(lambda _: r"\d+", re.escape(name))


def age(path: Path) -> tuple[int, tuple[int, ...]]:
    """Orders files by the time of their last change. Where that is the same, `name.2` is older than `name.1`, and a
    name with a time older than one with a later time."""
    numbers = tuple(int(each) for each in DIGITS.findall(path.name))
    if numbers and max(numbers) <= LARGEST_NUMBER:
        numbers = tuple(-each for each in numbers)
    return path.stat().st_mtime_ns, numbers
