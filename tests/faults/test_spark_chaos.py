"""A Spark pipeline whose parts are killed at random gives each result exactly once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.spark_chaos import KINDS, run

KILLS = 10


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    command = f"python -m tests.faults.spark_chaos --kinds {kind} --kills {KILLS} --seed {seed}"
    print(f"again with: {command}")
    try:
        print(run([kind], KILLS, seed, tmp_path, print))
    except AssertionError as broken:
        raise AssertionError(f"{broken}\nagain with: {command}") from broken
