"""The broker's own log lines in files: by subject, bounded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from moldau.server.log_files import LogFiles, ToFiles, subject_of


@pytest.mark.parametrize(
    ("logger", "file"),
    [
        ("moldau.server.node", "server.log"),
        ("moldau.server.dispatch", "kafka-request.log"),
        ("moldau.server.dispatcher", "server.log"),
        ("moldau.storage.cleaner", "log-cleaner.log"),
        ("moldau.metadata.controller.elections", "controller.log"),
        ("moldau.security.acl", "kafka-authorizer.log"),
        ("moldau.server.partitions", "state-change.log"),
        ("asyncio", "server.log"),
    ],
)
def test_each_logger_has_its_file(logger: str, file: str) -> None:
    assert subject_of(logger) == file


def test_files_are_rotated_and_only_so_many_are_kept(tmp_path: Path) -> None:
    handler = ToFiles(LogFiles(tmp_path / "logs", max_bytes=1000, backups=2))
    handler.setFormatter(logging.Formatter("%(message)s"))
    for number in range(100):
        handler.emit(
            logging.LogRecord("moldau.server.node", logging.INFO, "", 0, f"line {number:03} " + "x" * 89, (), None)
        )
    handler.close()
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["server.log", "server.log.1", "server.log.2"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert "line 099" in files[0].read_text()
