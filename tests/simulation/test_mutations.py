"""The simulation can fail: mistakes that were once made are found when they are put back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
MOST_SEEDS = 100

#: By number, see mutations.py. The others are not found within a few seeds: `--mutation N --seeds 0 2000` looks longer.
FOUND_SOON = ("1", "5", "7", "9")


@pytest.mark.parametrize("mutation", FOUND_SOON)
def test_a_known_mistake_is_found(mutation: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--mutation", mutation, "--seeds", "0", str(MOST_SEEDS)],
        cwd=HERE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=175,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken:" in done.stdout
