"""The simulation can fail: mistakes that were once made are found when they are put back.

In `make test` each by a run that is known to find it; in `make chaos` by looking through as many seeds as it may take.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS

HERE = Path(__file__).resolve().parents[2]
MOST_SEEDS = 2000
#: Whatever changes the order of events moves what a seed finds: then others are tried.
MOVED_BY = 100

#: Mutation, by its number in mutations.py: the course of events, and a seed of it that finds the mistake or comes
#: shortly before one that does.
FOUND_AT = {
    "1": ("late_word_of_divergence", 2),
    "2": ("two_eligible_in_turn", 7),
    "3": ("late_fetch_of_an_older_epoch", 2),
    "4": ("missing_the_last_batch", 22),
    "5": ("zombies_in_turn", 0),
    "6": ("late_proposal_for_a_wiped_disk", 0),
    "7": ("last_one_loses_power", 0),
    "8": ("late_word_of_divergence", 13),
    "9": ("late_word_of_divergence", 1),
    "10": ("late_commit_of_an_old_controller", 4),
    "12": ("late_word_of_divergence", 0),
    "13": ("zombies_in_turn", 0),
    "14": ("late_word_of_divergence", 0),
    "15": ("coordinator_dies_between_decision_and_markers", 0),
    "16": ("late_marker_of_an_old_coordinator", 2),
    "17": ("late_fetch_of_an_older_epoch", 3),
    "19": ("late_proposal_for_a_wiped_disk", 0),
    "20": ("one_partition_is_narrowed", 0),
    "21": ("joins_unheard", 3),
    "22": ("late_fetch_of_an_older_epoch", 1),
    "23": ("only_one_loses_a_disk", 0),
}
#: mutations.py says why.
NOT_FOUND = ("11", "18")


def broken_by(*arguments: str, seconds: float) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=HERE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken:" in done.stdout
    assert "\n  repeat: python -m tests.simulation --seed " in done.stdout


@pytest.mark.parametrize("mutation", FOUND_AT)
def test_a_known_mistake_is_found(mutation: str) -> None:
    course, seed = FOUND_AT[mutation]
    broken_by("--mutation", mutation, "--course", course, "--seeds", str(seed), str(seed + MOVED_BY), seconds=170)


@pytest.mark.chaos
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mutation", FOUND_AT)
def test_a_known_mistake_is_found_among_many_seeds(mutation: str) -> None:
    broken_by("--mutation", mutation, "--seeds", "0", str(MOST_SEEDS), seconds=6 * 3600)


def test_no_mistake_is_passed_over() -> None:
    assert {*FOUND_AT, *NOT_FOUND} == MUTATIONS.keys() and not FOUND_AT.keys() & {*NOT_FOUND}
