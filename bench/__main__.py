"""Moldau and Apache Kafka in turn under the same load, as a table with ratios (`make bench`)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import report
from bench.cases import catalogue, chosen
from bench.load import LoadFailed, LoadGenerator, build
from bench.measure import allow_many_files
from bench.outcomes import AnyOutcome
from bench.peers import Peer
from bench.runner import Plan, Runner
from tests.peers.apache_kafka import jars, java_program
from tests.peers.maven import PeerMissing

REPETITIONS = 3
PLAIN_WIDTH = 150
INTERRUPTED = 128 + signal.SIGINT


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one repetition: to see that it runs")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these cases only; * and ? are allowed")
    parser.add_argument("--repetitions", type=int, metavar="N", help=f"measured runs per case (default {REPETITIONS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every repetition there too")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where the brokers keep their data meanwhile")
    parser.add_argument(
        "--peers", nargs="+", choices=[peer.value for peer in Peer], default=[peer.value for peer in Peer]
    )
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    options = parser.parse_args(given)
    if options.repetitions is None:
        options.repetitions = 1 if options.quick else REPETITIONS
    if options.repetitions < 1:
        parser.error("--repetitions: at least 1")
    return options


def main(given: Sequence[str]) -> int:
    options = arguments(given)
    console = Console()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    try:
        cases = chosen(catalogue(options.quick), options.only)
        if options.list:
            for case in cases:
                console.print(f"{case.name:16} {case.title}", highlight=False)
            return 0
        peers = [peer for peer in Peer if peer.value in options.peers]
        if Peer.APACHE in peers:
            java_program(), jars()
        generator = build()
    except (ValueError, LoadFailed, PeerMissing) as failure:
        console.print(f"bench: {failure}", style="red", highlight=False, markup=False)
        return 2
    allow_many_files()
    loads = [os.getloadavg()[0]]
    plan = Plan(cases, peers, options.repetitions, options.quick)
    with tempfile.TemporaryDirectory(prefix="moldau-bench-", dir=options.directory) as folder:
        outcomes, finished = run(plan, generator, Path(folder), console, loads)
    console.print(report.tables(outcomes))
    console.print(f"{report.summary(outcomes)}. {conditions(generator, plan, loads)}", highlight=False, markup=False)
    if options.json:
        options.json.write_text(json.dumps(document(generator, plan, loads, outcomes), indent=1) + "\n")
    if not finished:
        return INTERRUPTED
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def run(
    plan: Plan, generator: LoadGenerator, folder: Path, console: Console, loads: list[float]
) -> tuple[list[AnyOutcome], bool]:
    """Runs the plan with a bar on a terminal, with a line for each step elsewhere, and notes the load averages.

    The outcomes, and whether they are all there: Ctrl-C and SIGTERM end the brokers and leave what is measured so far.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("measuring", total=plan.steps)

        def tell(text: str) -> None:
            loads.append(os.getloadavg()[0])
            clock = time.strftime("%H:%M:%S")
            progress.console.print(f"{clock} {text}", style="dim", highlight=False, markup=False, soft_wrap=True)

        runner = Runner(plan, generator, folder, tell, lambda: progress.advance(task))
        try:
            runner.run()
        except KeyboardInterrupt:
            return [outcome for outcome in runner.outcomes if outcome.repetitions], False
        return [*runner.outcomes], True


def conditions(generator: LoadGenerator, plan: Plan, loads: Sequence[float]) -> str:
    machine = report.machine()
    return (
        f"{plan.repetitions} repetition(s), {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}, librdkafka {generator.librdkafka_version}; "
        f"load average {statistics.median(loads):.1f} [{min(loads):.1f}..{max(loads):.1f}]"
    )


def document(
    generator: LoadGenerator, plan: Plan, loads: Sequence[float], outcomes: Sequence[AnyOutcome]
) -> dict[str, Any]:
    return {
        "machine": report.machine(),
        "librdkafka": generator.librdkafka_version,
        "peers": [peer.title for peer in plan.peers],
        "quick": plan.quick,
        "repetitions": plan.repetitions,
        "load_averages": loads,
        "cases": report.as_json(outcomes),
    }


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main(sys.argv[1:]))
