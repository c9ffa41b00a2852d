"""A cluster that is broken in every way for long: `make chaos` (MOLDAU_CHAOS_MINUTES says how long, 60 by default)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.cluster_chaos import drawn, logs_of, new_cluster, run
from tests.faults.cluster_faults import FAULTS

MINUTES = float(os.environ.get("MOLDAU_CHAOS_MINUTES", "60"))


@pytest.mark.chaos
@pytest.mark.timeout(60 * MINUTES + 1800)
def test_every_fault_again_and_again(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    command = f"python -m tests.faults.cluster_chaos --minutes {MINUTES:g} --seed {seed}"
    print(f"again with: {command}")
    cluster = new_cluster(tmp_path / "cluster")
    try:
        print(run(cluster, seed, drawn(random.Random(seed), FAULTS), MINUTES, print))
    except AssertionError as broken:
        raise AssertionError(f"{broken}\nagain with: {command}\n{logs_of(cluster)}") from broken
    finally:
        cluster.kill_all()
