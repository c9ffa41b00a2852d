"""`python -m tests.simulation --seed N` repeats one run; `--seeds A B` runs many."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from asyncio import events
from contextlib import nullcontext

from tests.simulation.courses import NAMED
from tests.simulation.mutations import MUTATIONS
from tests.simulation.scheduler import NodeLoop
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
    parser.add_argument("--course", choices=sorted(NAMED), help="with this course of events")
    parser.add_argument("--shrink", action="store_true", help="leave out the faults that it takes not to fail")
    wanted = parser.parse_args()
    warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # of processes that were killed
    logging.basicConfig(
        level=logging.INFO if wanted.seed is not None else logging.CRITICAL + 1,
        format="%(where)s %(name)s %(levelname)s %(message)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(tell_where)
    seeds = range(*wanted.seeds) if wanted.seed is None else [wanted.seed]
    failed = done = 0
    for seed in seeds:
        started, done = time.perf_counter(), done + 1
        with MUTATIONS[wanted.mutation]() if wanted.mutation else nullcontext():
            outcome = simulate(seed, wanted.course)
            if wanted.shrink and outcome.problem is not None:
                outcome = shrunk(outcome, wanted.course)
        if wanted.seed is not None:
            for fault in outcome.faults:
                print(fault)
        if wanted.seed is not None or outcome.problem:
            print(told(outcome, wanted), f"({time.perf_counter() - started:.2f} s)", flush=True)
        failed += outcome.problem is not None
        if failed and wanted.mutation:
            break
        is_judged_twice = seed % TWICE_EVERY == 0 and wanted.seed is None and not wanted.mutation
        if is_judged_twice and simulate(seed, wanted.course).digest != outcome.digest:
            print(told_two(seed, wanted), flush=True)
            failed += 1
    print(f"{done} run, {failed} failed")
    return 1 if failed else 0


def shrunk(outcome: Outcome, course: str | None) -> Outcome:
    """The same seed with as few of its faults as it takes to fail."""
    for fault in reversed(outcome.faults):
        fewer = [each for each in outcome.faults if each is not fault]
        again = simulate(outcome.seed, course, fewer)
        if again.problem is not None:
            outcome = again
    return outcome


def tell_where(record: logging.LogRecord) -> bool:
    """Whose log it is, and at which virtual time."""
    loop = events._get_running_loop()
    record.where = f"{loop.time() - 1000:.4f} {loop.name}" if isinstance(loop, NodeLoop) else "-"
    return True


def told(outcome: Outcome, wanted: argparse.Namespace) -> str:
    line = (
        f"seed {outcome.seed}: {outcome.acknowledged} acknowledged, {outcome.turns} turns, "
        f"{outcome.virtual_seconds:.1f} virtual s, digest {outcome.digest:08x}"
    )
    if outcome.course:
        line += f", {outcome.course}"
    if outcome.problem is not None:
        line += f"\n  broken: {outcome.problem}\n  {repeat(outcome.seed, wanted)}"
    return line


def told_two(seed: int, wanted: argparse.Namespace) -> str:
    """Something that chance does not draw from the seed has changed the run: each of two tells its digest."""
    return f"seed {seed}: two runs differ\n  {repeat(seed, wanted)} (twice)"


def repeat(seed: int, wanted: argparse.Namespace) -> str:
    options = "".join(
        f" --{name} {getattr(wanted, name)}" for name in ("mutation", "course") if getattr(wanted, name) is not None
    )
    return f"repeat: python -m tests.simulation --seed {seed}{options}"


if __name__ == "__main__":
    sys.exit(main())
