"""Tests that share something costly (a Spark session, a wheel) are marked as one group, which one worker must run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GROUPED = """
import os, pathlib, pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(8))
def test_leaves_its_workers_name(number):
    pathlib.Path(os.environ["PYTEST_XDIST_WORKER"] + ".ran").touch()
"""


def test_one_worker_runs_a_group(tmp_path: Path) -> None:
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist=loadgroup", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*.ran"))) == 1, "this pytest and pytest-xdist do not go together"
