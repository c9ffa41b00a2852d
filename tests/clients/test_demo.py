"""`moldau demo --no-spark` from end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil


def test_the_demo_survives_its_own_crash_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "moldau", "demo", "--no-spark", "--records", "20000", "--record-bytes", "100"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"TMPDIR": str(tmp_path), "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL after" in done.stdout
    assert "exit code 0" in done.stdout
    assert list(tmp_path.iterdir()) == []
    left = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])]
    assert left == []
