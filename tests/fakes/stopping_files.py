"""The real file system, with a power switch: the n-th changing operation does not happen any more."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.storage.files import Buffer
from tests.fakes.lossy_files import PowerCutError
from tests.support.compacted import UnsyncedFiles


class StoppingFiles(UnsyncedFiles):
    def __init__(self, operations: int | None = None) -> None:
        self.left = operations
        self.operations = 0

    def _step(self) -> None:
        self.operations += 1
        if self.left is not None:
            if self.left == 0:
                raise PowerCutError
            self.left -= 1

    def open(self, path: str, *, create: bool = False) -> int:
        if create and not super().exists(path):
            self._step()
        return super().open(path, create=create)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:  # type: ignore[override]
        self._step()
        return UnsyncedFiles.pwritev(fd, buffers, position)

    def truncate(self, fd: int, size: int) -> None:  # type: ignore[override]
        self._step()
        UnsyncedFiles.truncate(fd, size)

    def rename(self, source: str, target: str) -> None:  # type: ignore[override]
        self._step()
        UnsyncedFiles.rename(source, target)

    def unlink(self, path: str) -> None:  # type: ignore[override]
        self._step()
        UnsyncedFiles.unlink(path)

    def make_directory(self, path: str) -> None:
        self._step()
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:  # type: ignore[override]
        self._step()
        UnsyncedFiles.remove_directory(path)

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        self._step()

    def sync_directory(self, path: str) -> None:
        self._step()
