"""`python -m tests.simulation --seed N` repeats one run; `--seeds A B` runs many."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from contextlib import nullcontext

from tests.simulation.mutations import MUTATIONS
from tests.simulation.world import Outcome, simulate

TWICE_EVERY = 50


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat this one, with the brokers' logs")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "END"), default=(0, 100))
    parser.add_argument("--mutation", choices=MUTATIONS, help="with this mistake in the rules, until it is found")
    wanted = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO if wanted.seed is not None else logging.CRITICAL + 1,
        format="%(name)s %(levelname)s %(message)s",
    )
    seeds = range(*wanted.seeds) if wanted.seed is None else [wanted.seed]
    failed = 0
    for seed in seeds:
        started = time.perf_counter()
        with MUTATIONS[wanted.mutation]() if wanted.mutation else nullcontext():
            outcome = simulate(seed)
        if wanted.seed is not None:
            for fault in outcome.faults:
                print(fault)
        if wanted.seed is not None or outcome.problem:
            print(told(outcome), f"({time.perf_counter() - started:.2f} s)", flush=True)
        failed += outcome.problem is not None
        if failed and wanted.mutation:
            break
        is_judged_twice = seed % TWICE_EVERY == 0 and wanted.seed is None and not wanted.mutation
        if is_judged_twice and simulate(seed).digest != outcome.digest:
            print(f"seed {seed}: two runs differ", flush=True)
            failed += 1
    print(f"{len(seeds)} run, {failed} failed")
    return 1 if failed else 0


def told(outcome: Outcome) -> str:
    line = (
        f"seed {outcome.seed}: {outcome.acknowledged} acknowledged, {outcome.turns} turns, "
        f"{outcome.virtual_seconds:.1f} virtual s, digest {outcome.digest:08x}"
    )
    if outcome.problem is not None:
        line += f"\n  broken: {outcome.problem}\n  repeat: python -m tests.simulation --seed {outcome.seed}"
    return line


if __name__ == "__main__":
    sys.exit(main())
