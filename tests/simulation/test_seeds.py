"""Whole clusters under faults, one from each seed. Each process has a fixed hash seed: runs can be repeated."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import told, told_two
from tests.simulation.courses import RARE
from tests.simulation.world import Outcome

HERE = Path(__file__).resolve().parents[2]
SEEDS_PER_PROCESS = 25
SEEDS_OF_A_COURSE = 12


def simulated(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=HERE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def run(first: int, end: int, seconds: float, *options: str) -> None:
    done = simulated("--seeds", str(first), str(end), *options, seconds=seconds)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("first", range(0, 300, SEEDS_PER_PROCESS))
def test_promises_are_kept_under_faults(first: int) -> None:
    run(first, first + SEEDS_PER_PROCESS, seconds=175)


@pytest.mark.parametrize("course", [each.__name__ for each in RARE])
def test_promises_are_kept_in_courses_that_few_seeds_draw(course: str) -> None:
    run(0, SEEDS_OF_A_COURSE, 175, "--course", course)


def test_whatever_fails_is_told_with_the_command_that_repeats_it() -> None:
    outcome = Outcome(7, 1, 2, 3, 4.0, "something", [], "zombies_in_turn")
    wanted = argparse.Namespace(mutation=None, course="zombies_in_turn")
    command = "\n  repeat: python -m tests.simulation --seed 7 --course zombies_in_turn"
    assert told(outcome, wanted).endswith(f"  broken: something{command}")
    assert told_two(7, wanted) == f"seed 7: two runs differ{command} (twice)"


@pytest.mark.chaos
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(0, int(os.environ.get("SIMULATION_SEEDS", "10000")), 500))
def test_promises_are_kept_under_faults_of_many_seeds(first: int) -> None:
    run(first, first + 500, seconds=6 * 3600)
