"""A Spark pipeline whose parts are killed at random gives each result exactly once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults import broker_stops
from tests.faults.spark_chaos import KINDS, run
from tests.support.chaos_report import report

KILLS = 10
STOPS = 5
AWAY_SECONDS = (20.0, 30.0)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    command = f"python -m tests.faults.spark_chaos --kinds {kind} --kills {KILLS} --seed {seed}"
    report(command)
    try:
        report(str(run([kind], KILLS, seed, tmp_path, print)))
    except AssertionError as broken:
        raise AssertionError(f"{broken}\nagain with: {command}") from broken


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_one_of_three_brokers_dies_in_the_middle_of_batches(tmp_path: Path) -> None:
    """Source and sink go on with the two that are left: the query does not even fail."""
    seed = random.SystemRandom().randrange(1 << 32)
    report(f"python -m tests.faults.spark_chaos --kinds broker --brokers 3 --kills {KILLS} --seed {seed}")
    outcome = run(["broker"], KILLS, seed, tmp_path, print, brokers=3)
    report(str(outcome))
    assert outcome.restarts == 0, "the job had to be started again"


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_every_part_dies_on_three_brokers(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    report(f"python -m tests.faults.spark_chaos --brokers 3 --kills {STOPS} --seed {seed}")
    report(str(run(KINDS, STOPS, seed, tmp_path, print, brokers=3)))


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_a_broker_that_is_away_for_less_than_the_patience_fails_no_batch(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    report(f"python -m tests.faults.broker_stops --stops {STOPS} --seed {seed}")
    report(str(broker_stops.run(STOPS, AWAY_SECONDS, seed, tmp_path, print)))
