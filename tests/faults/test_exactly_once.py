"""A transactional pipeline whose broker and workers are killed at random gives each record exactly once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.exactly_once import SETTINGS, run
from tests.peers.choice import new_broker
from tests.support.process import free_port

SHORT_ROUNDS = 3
LONG_ROUNDS = 40


def kill_often(directory: Path, rounds: int) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    command = f"python -m tests.faults.exactly_once --rounds {rounds} --seed {seed}"
    print(f"again with: {command}")
    broker = new_broker(directory, SETTINGS, free_port())
    try:
        print(run(rounds, seed, broker, directory, print))
    except AssertionError as broken:
        raise AssertionError(f"{broken}\nagain with: {command}\n{broker.output()}") from broken
    finally:
        broker.kill()


@pytest.mark.timeout(300)
def test_exactly_once(tmp_path: Path) -> None:
    """TXN-08, DLV-03: offsets and output in one transaction."""
    kill_often(tmp_path, SHORT_ROUNDS)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_exactly_once_for_long(tmp_path: Path) -> None:
    kill_often(tmp_path, LONG_ROUNDS)
