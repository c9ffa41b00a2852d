"""Making a log's data survive a power cut."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem, replace_file, sync_file


class FlushWork:
    """Everything that has to reach the disk before a recovery point may move. Owns its handles and touches nothing of
    the log, so it may run in a thread while the log is appended to. To be called exactly once; an error is final: after
    a failed sync the kernel may have dropped the data, and a second one would lie."""

    __slots__ = (
        "_directory",
        "_directory_changed",
        "_epochs",
        "_files",
        "_handles",
        "_paths",
        "generation",
        "sealed_before",
        "up_to",
    )

    def __init__(
        self,
        files: FileSystem,
        *,
        up_to: int,
        generation: int,
        sealed_before: int,
        handles: Sequence[int],
        paths: Sequence[str],
        epochs: tuple[str, bytes] | None,
        directory: str,
        directory_changed: bool,
    ) -> None:
        self._files = files
        self.up_to = up_to
        self.generation = generation
        self.sealed_before = sealed_before
        self._handles = [files.duplicate(fd) for fd in handles]
        self._paths = paths
        self._epochs = epochs
        self._directory = directory
        self._directory_changed = directory_changed

    def __call__(self) -> None:
        try:
            for fd in self._handles:
                self._files.fdatasync(fd)
            for path in self._paths:
                sync_file(self._files, path)
            if self._epochs is not None:
                replace_file(self._files, *self._epochs)
            if self._directory_changed:
                self._files.sync_directory(self._directory)
        except OSError as error:
            raise LogIOError(error.filename or self._directory, error) from error
        finally:
            for fd in self._handles:
                self._files.close(fd)
            self._handles = []
