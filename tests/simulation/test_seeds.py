"""Whole clusters under faults, one from each seed. Each process has a fixed hash seed: runs can be repeated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
SEEDS_PER_PROCESS = 25


def run(*arguments: str, seconds: float) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=HERE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("first", range(0, 300, SEEDS_PER_PROCESS))
def test_promises_are_kept_under_faults(first: int) -> None:
    run("--seeds", str(first), str(first + SEEDS_PER_PROCESS), seconds=175)


@pytest.mark.chaos
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(0, int(os.environ.get("SIMULATION_SEEDS", "10000")), 500))
def test_promises_are_kept_under_faults_of_many_seeds(first: int) -> None:
    run("--seeds", str(first), str(first + 500), seconds=6 * 3600)
