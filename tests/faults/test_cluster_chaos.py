"""A cluster that is broken in every way for long: `make chaos` (MOLDAU_CHAOS_MINUTES says how long, 60 by default)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.cluster_chaos import drawn, faults_here, logs_of, network_here, new_cluster, run
from tests.support.chaos_report import report

MINUTES = float(os.environ.get("MOLDAU_CHAOS_MINUTES", "60"))


@pytest.mark.chaos
@pytest.mark.timeout(60 * MINUTES + 1800)
def test_every_fault_again_and_again(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    command = f"python -m tests.faults.cluster_chaos --minutes {MINUTES:g} --seed {seed}"
    report(command)
    with network_here() as network:
        cluster = new_cluster(tmp_path / "cluster", network)
        try:
            report(str(run(cluster, seed, drawn(random.Random(seed), faults_here()), MINUTES, print, network)))
        except Exception as broken:
            report(f"FAILED: {broken}")
            raise AssertionError(f"{broken}\nagain with: {command}\n{logs_of(cluster)}") from broken
        finally:
            cluster.kill_all()
