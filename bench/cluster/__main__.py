"""Three Moldau brokers and three Apache Kafka brokers in turn, as a table with ratios (a part of `make bench`)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console

from bench import report
from bench.cluster.cases import Case, catalogue
from bench.cluster.clusters import Kind, MeasuredCluster
from bench.cluster.scenarios import Replicated, Stage
from bench.load import Load, LoadFailed, LoadGenerator, build
from bench.measure import allow_many_files
from bench.outcomes import Outcome
from bench.runner import FAILURES
from moldau.cli.cluster.local_cluster import LocalClusterError
from tests.peers.maven import PeerMissing

REPETITIONS = 3
PLAIN_WIDTH = 150
INTERRUPTED = 128 + signal.SIGINT
WARM_UP = Replicated(Load(300_000, size=1000, acks="all", partitions=6))
QUICK_WARM_UP = Replicated(Load(30_000, size=1000, acks="all", partitions=6))


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one repetition: to see that it runs")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="these cases; * and ? are allowed")
    parser.add_argument("--repetitions", type=int, metavar="N", help=f"measured runs per case (default {REPETITIONS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every repetition there too")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where the brokers keep their data meanwhile")
    kinds = [kind.value for kind in Kind]
    parser.add_argument("--peers", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    options = parser.parse_args(given)
    options.repetitions = options.repetitions or (1 if options.quick else REPETITIONS)
    return options


def main(given: Sequence[str]) -> int:
    options = arguments(given)
    console = Console()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    cases = [case for case in catalogue(options.quick) if any(fnmatchcase(case.name, each) for each in options.only)]
    if options.list or not cases:
        for case in catalogue(options.quick):
            console.print(f"{case.name:20} {case.title}", highlight=False)
        return 0 if options.list else 2
    allow_many_files()
    try:
        generator = build()
        with tempfile.TemporaryDirectory(prefix="moldau-bench-cluster-", dir=options.directory) as folder:
            runner = Runner(options, generator, Path(folder), console)
            outcomes, finished = runner.run(cases)
    except (LoadFailed, PeerMissing) as failure:
        console.print(f"bench: {failure}", style="red", highlight=False, markup=False)
        return 2
    console.print(report.tables(outcomes))
    machine = report.machine()
    loads = runner.load_averages
    console.print(
        f"{report.summary(outcomes)}. {options.repetitions} repetition(s), {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, Python {machine['python']}, librdkafka {generator.librdkafka_version}; "
        f"load average {statistics.median(loads):.1f} [{min(loads):.1f}..{max(loads):.1f}]",
        highlight=False,
    )
    if options.json:
        document = {"machine": machine, "load_averages": loads, "cases": report.as_json(outcomes)}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if not finished:
        return INTERRUPTED
    return 1 if any(outcome.failure for outcome in outcomes) else 0


class Runner:
    """A warm-up run on each cluster, then repetitions that alternate between them."""

    def __init__(self, options: argparse.Namespace, generator: LoadGenerator, folder: Path, console: Console) -> None:
        self._kinds = [kind for kind in Kind if kind.value in options.peers]
        self._repetitions: int = options.repetitions
        self._warm_up = QUICK_WARM_UP if options.quick else WARM_UP
        self._generator = generator
        self._folder = folder
        self._console = console
        self._numbers = iter(range(1_000_000))
        self.load_averages: list[float] = [os.getloadavg()[0]]

    def run(self, cases: Sequence[Case]) -> tuple[list[Outcome[Case]], bool]:
        """The outcomes, and whether they are all there: Ctrl-C and SIGTERM leave what is measured so far."""
        outcomes = [Outcome(case, tuple(Kind)) for case in cases]
        try:
            self._run_all(outcomes)
        except KeyboardInterrupt:
            return [outcome for outcome in outcomes if outcome.repetitions], False
        return outcomes, True

    def _run_all(self, outcomes: Sequence[Outcome[Case]]) -> None:
        standing = [outcome for outcome in outcomes if outcome.case.scenario.standing]
        if standing:
            with self._standing_clusters() as clusters:
                for outcome in standing:
                    with self._blamed_on(outcome):
                        self._measure_standing(outcome, clusters)
        for outcome in outcomes:
            if not outcome.case.scenario.standing:
                with self._blamed_on(outcome):
                    self._measure_fresh(outcome)

    @contextmanager
    def _standing_clusters(self) -> Iterator[dict[Kind, MeasuredCluster]]:
        with ExitStack() as stack:
            clusters = {kind: stack.enter_context(kind.cluster(self._folder / kind.value)) for kind in self._kinds}
            for kind, cluster in clusters.items():
                self._tell(f"warming {kind.title} up")
                self._warm_up.run(self._stage(cluster))
            yield clusters

    def _measure_standing(self, outcome: Outcome[Case], clusters: dict[Kind, MeasuredCluster]) -> None:
        for number in range(self._repetitions):
            for kind in self._turns(number):
                self._record(outcome, kind, clusters[kind])

    def _measure_fresh(self, outcome: Outcome[Case]) -> None:
        for number in range(self._repetitions):
            for kind in self._turns(number):
                folder = self._folder / f"{kind.value}-{next(self._numbers)}"
                cluster = kind.cluster(folder)
                try:
                    self._record(outcome, kind, cluster)
                finally:
                    cluster.kill()
                    shutil.rmtree(folder, ignore_errors=True)

    def _turns(self, number: int) -> Sequence[Kind]:
        return self._kinds if number % 2 == 0 else self._kinds[::-1]

    def _record(self, outcome: Outcome[Case], kind: Kind, cluster: MeasuredCluster) -> None:
        values = outcome.case.scenario.run(self._stage(cluster))
        outcome.repetitions[kind].append(values)
        first = outcome.case.figures[0]
        self._tell(f"{outcome.case.name}: {kind.title}: {first.name} {values[first.key]:,.4g} {first.unit}")

    def _stage(self, cluster: MeasuredCluster) -> Stage:
        return Stage(cluster, self._generator, f"bench{next(self._numbers)}")

    @contextmanager
    def _blamed_on(self, outcome: Outcome[Case]) -> Iterator[None]:
        """A case that fails must not cost the others."""
        try:
            yield
        except (*FAILURES, LocalClusterError) as failure:
            outcome.failure = str(failure)
            self._tell(f"{outcome.case.name} failed: {failure}")

    def _tell(self, text: str) -> None:
        self.load_averages.append(os.getloadavg()[0])
        clock = time.strftime("%H:%M:%S")
        self._console.print(f"{clock} {text}", style="dim", highlight=False, markup=False, soft_wrap=True)


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main(sys.argv[1:]))
