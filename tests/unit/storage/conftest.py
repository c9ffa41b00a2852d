"""Logs in temporary folders."""

from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.storage.log import PartitionLog
from tests.support.logs import open_log


@pytest.fixture
def new_log(tmp_path: Path) -> Callable[..., PartitionLog]:
    """Opens the log in this test's folder; more calls open it again."""
    folder = tmp_path / "events-0"
    folder.mkdir()
    return lambda **options: open_log(str(folder), **options)
