"""The broker's own log lines in files, by subject and under the names that Kafka's have, each of a bounded size.

Files are rotated when they are full, and only so many old ones are kept: a broker never fills its disk by talking.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

REST: Final = "server.log"
SUBJECTS: Final = {
    "state-change.log": ("moldau.server.state_changes", "moldau.server.partitions", "moldau.metadata.publisher"),
    "kafka-request.log": ("moldau.server.dispatch", "moldau.server.connection"),
    "log-cleaner.log": ("moldau.storage.cleaner", "moldau.storage.compaction"),
    "controller.log": ("moldau.server.controllership", "moldau.server.membership", "moldau.metadata"),
    "kafka-authorizer.log": ("moldau.security",),
}


@dataclass(frozen=True, slots=True)
class LogFiles:
    folder: Path
    max_bytes: int
    backups: int


def subject_of(logger: str) -> str:
    """The file of a logger: that of the name, or of the longest name above it."""
    for file, names in SUBJECTS.items():
        if any(logger == name or logger.startswith(f"{name}.") for name in names):
            return file
    return REST


class ToFiles(logging.Handler):
    """Gives each line to the file of its subject. A file appears with its first line."""

    def __init__(self, files: LogFiles) -> None:
        super().__init__()
        files.folder.mkdir(parents=True, exist_ok=True)
        self._handlers = {
            name: RotatingFileHandler(
                files.folder / name, maxBytes=files.max_bytes, backupCount=files.backups, encoding="utf-8", delay=True
            )
            for name in (REST, *SUBJECTS)
        }

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802 (logging's own spelling)
        super().setFormatter(fmt)
        for handler in self._handlers.values():
            handler.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        self._handlers[subject_of(record.name)].emit(record)

    def close(self) -> None:
        for handler in self._handlers.values():
            handler.close()
        super().close()
