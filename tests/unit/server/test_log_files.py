"""The broker's own log lines in files: by subject, bounded."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import moldau
from moldau.server.log_files import SUBJECTS, LogFiles, ToFiles, subject_of
from moldau.server.process import OneLine

GETS = re.compile(r'getLogger\("([\w.]+)"\)')


@pytest.mark.parametrize(
    ("logger", "file"),
    [
        ("moldau.server.node", "server.log"),
        ("moldau.server.dispatch", "kafka-request.log"),
        ("moldau.server.dispatcher", "server.log"),
        ("moldau.storage.cleaner", "log-cleaner.log"),
        ("moldau.server.controllership", "controller.log"),
        ("moldau.metadata.zookeeper.presence", "controller.log"),
        ("moldau.security.acl", "kafka-authorizer.log"),
        ("moldau.server.partitions", "state-change.log"),
        ("moldau.server.state_changes", "state-change.log"),
        ("moldau.metadata.publisher", "state-change.log"),
        ("asyncio", "server.log"),
    ],
)
def test_each_logger_has_its_file(logger: str, file: str) -> None:
    assert subject_of(logger) == file


def test_every_subject_has_loggers_that_are_there() -> None:
    """A name that nobody logs under any more would leave its file empty without anybody noticing."""
    source = Path(moldau.__file__).parent
    used = {name for path in source.rglob("*.py") for name in GETS.findall(path.read_text())}
    used |= {
        ".".join(path.relative_to(source.parent).with_suffix("").parts)
        for path in source.rglob("*.py")
        if "getLogger(__name__)" in path.read_text()
    }
    for names in SUBJECTS.values():
        for name in names:
            assert any(each == name or each.startswith(f"{name}.") for each in used), name


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


def test_a_name_that_a_client_has_made_up_begins_no_line() -> None:
    name = "g\r\n2026-01-01 INFO Principal = User:eve is Allowed\u2028\x1b[2J\tß"
    record = logging.LogRecord("moldau.security.authorizer", logging.INFO, "", 0, "on resource = %s", (name,), None)
    written = OneLine("%(levelname)s %(message)s").format(record)
    assert written == ("INFO on resource = g\\r\\n2026-01-01 INFO Principal = User:eve is Allowed\\u2028\\x1b[2J\tß")
