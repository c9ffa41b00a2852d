"""format("moldau") and Spark's own connector in turn on one broker, as a table with ratios (a part of `make bench`)."""

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
from fnmatch import fnmatchcase
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from bench import report
from bench.load import Load, LoadFailed, build
from bench.outcomes import AnyOutcome, Outcome
from bench.peers import SETTINGS, Topics
from bench.spark.cases import Case, catalogue, source_rows
from bench.spark.connectors import Connector, Job
from bench.spark.scenarios import Stage
from moldau.spark import session
from tests.peers.maven import PeerMissing
from tests.peers.spark_connector import spark_jars
from tests.support.broker import Broker
from tests.support.process import BrokerProcess

REPETITIONS = 3
PLAIN_WIDTH = 150
SOURCE = "source"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one repetition: to see that it runs")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="these cases; * and ? are allowed")
    parser.add_argument("--repetitions", type=int, metavar="N", help=f"measured runs per case (default {REPETITIONS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every repetition there too")
    parser.add_argument("--master", default="local[2]", help="Spark's master (default local[2])")
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
    try:
        jars = spark_jars()
    except PeerMissing as missing:
        console.print(f"bench: {missing}", style="red", highlight=False, markup=False)
        return 2
    with tempfile.TemporaryDirectory(prefix="moldau-bench-spark-") as folder:
        outcomes = run(cases, options, jars, Path(folder), console)
    console.print(report.tables(outcomes))
    machine = report.machine()
    console.print(
        f"{report.summary(outcomes)}. {options.repetitions} repetition(s), {options.master}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, Python {machine['python']}",
        highlight=False,
    )
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "cases": report.as_json(outcomes)}, indent=1) + "\n")
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def run(
    cases: Sequence[Case], options: argparse.Namespace, jars: str, folder: Path, console: Console
) -> list[AnyOutcome]:
    rows = source_rows(options.quick)
    outcomes = [Outcome(case, tuple(Connector)) for case in cases]
    with Broker(folder / "broker", SETTINGS) as broker:
        fill(broker, rows)
        spark = session("bench", options.master, ui=False, lag=False, settings={"spark.jars": jars})
        try:
            runner = Runner(spark, broker, rows, console)
            for outcome in outcomes:
                runner.measure(outcome, options.repetitions)
        finally:
            spark.stop()
    return [*outcomes]


def fill(broker: BrokerProcess, rows: int) -> None:
    Topics(broker).create(SOURCE, 4)
    build().produce(broker.address, SOURCE, Load(rows, size=100, partitions=4))


class Runner:
    """A warm-up run of each connector, then repetitions that alternate between them."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, rows: int, console: Console) -> None:
        self._jobs = {connector: Job(spark, connector, broker.address) for connector in Connector}
        self._broker = broker
        self._rows = rows
        self._console = console
        self._numbers = iter(range(1_000_000))

    def measure(self, outcome: Outcome[Case], repetitions: int) -> None:
        try:
            for number in range(repetitions + 1):
                for connector in list(Connector)[:: 1 if number % 2 else -1]:
                    values = outcome.case.scenario.run(self._stage(connector, outcome.case))
                    first = outcome.case.figures[0]
                    told = f"{outcome.case.name}: {connector.title}: {values[first.key]:,.4g} {first.unit}"
                    warm = "" if number else " (warm-up)"
                    self._console.print(f"{time.strftime('%H:%M:%S')} {told}{warm}", style="dim", highlight=False)
                    if number:
                        outcome.repetitions[connector].append(values)
        except (PySparkException, LoadFailed, AssertionError, statistics.StatisticsError) as failure:
            outcome.failure = str(failure).splitlines()[0]

    def _stage(self, connector: Connector, case: Case) -> Stage:
        name = f"{case.name}-{connector.value}-{next(self._numbers)}"
        return Stage(self._jobs[connector], self._broker, SOURCE, self._rows, os.getpid(), name)


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main(sys.argv[1:]))
