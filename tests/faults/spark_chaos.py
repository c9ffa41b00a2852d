"""Kills parts of a Spark pipeline at random moments and checks that each result is there exactly once.

A standalone cluster with two workers runs a stateful query from topic to topic (tests/faults/spark_job.py) with the
exactly-once sink. Before each kill new events arrive, half of them twice; then, at a random moment, one of these dies
by SIGKILL:
  - worker: a Python worker of an executor, or the process that forks them;
  - executor: a JVM with its Python workers;
  - driver: the job with its JVM; its executors live on for a moment; the job is started again;
  - broker: it is started again; with --brokers 3 it stays away until the next one dies.
If the query itself fails, the job is started again, as a supervisor would. Each start has another layout: batches are
read by another number of tasks. When all events have arrived, the output, read committed, must hold each id once and
nothing else.

    python -m tests.faults.spark_chaos --kills 10 [--kinds worker,executor,driver,broker] [--brokers 3] [--seed N]
                                       [--keep DIRECTORY]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import psutil

from tests.faults.spark_brokers import Brokers, OneBroker, ThreeBrokers
from tests.support.process import die_with_parent
from tests.support.sink import read_committed
from tests.support.spark_cluster import StandaloneCluster, command_of
from tests.support.waiting import wait_until

KINDS = ("worker", "executor", "driver", "broker")
SOURCE, TARGET, PARTITIONS = "events", "results", 4
EVENTS_PER_KILL = 300
LONGEST_LIFE_SECONDS = 6.0
SETTLE_SECONDS = 600.0
LAYOUTS = (2, 5, 1, 7, 3)
"""How many tasks read a batch, start by start."""
PYTHON_WORKER = ("pyspark.daemon", "moldau.spark.daemon")


@dataclass(slots=True)
class Outcome:
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    events: int = 0
    results: int = 0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"killed: {kills}; the job was started {self.restarts + 1} times; {self.events} events gave "
            f"{self.results} results, each exactly once"
        )


class Job:
    """The driver, started again whenever it is found dead."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._arguments = arguments
        self._log = log
        self._temporary = log.with_name("temporary")
        """Of jobs that have no time to remove their files."""
        self._temporary.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def ensure(self) -> None:
        if self.is_running:
            return
        self.kill()
        layout = LAYOUTS[self.starts % len(LAYOUTS)]
        self.starts += 1
        with self._log.open("ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.spark_job", *self._arguments, str(layout)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self._temporary)},
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """The driver with its JVM and Python processes."""
        if self._process is None:
            return
        family = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        self._process.wait()

    def output(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not line.lstrip().startswith("at "))[-8000:]


class Campaign:
    def __init__(
        self, brokers: Brokers, cluster: StandaloneCluster, folder: Path, seed: int, say: Callable[[str], None]
    ) -> None:
        self._brokers = brokers
        self._cluster = cluster
        self._random = random.Random(seed)
        self._say = say
        arguments = [cluster.address, brokers.address, SOURCE, TARGET, str(folder / "checkpoint")]
        self.job = Job(arguments, folder / "job.log")
        self.outcome = Outcome()

    def run(self, kinds: Sequence[str], kills: int) -> Outcome:
        self._feed()
        self.job.ensure()
        self._settle()
        for number in range(kills):
            for kind in kinds:
                self._feed()
                life = self._random.uniform(0, LONGEST_LIFE_SECONDS)
                threading.Event().wait(life)
                self._kill(kind)
                self._say(f"{number + 1}: {kind} killed after {life:.1f} s")
                self.job.ensure()
                if self._random.random() < 0.5:
                    self._settle()
        self._settle()
        self.outcome.restarts = self.job.starts - 1
        return self.outcome

    # -- events and results ----------------------------------------------------------------------------------------

    def _feed(self) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._brokers.address, "enable.idempotence": True, "log_level": 0}
        )
        first = self.outcome.events
        self.outcome.events += EVENTS_PER_KILL
        for number in range(first, self.outcome.events):
            producer.produce(SOURCE, f"{number}".encode(), key=f"{number}".encode())
            if number % 2 == 0 and number:
                again = self._random.randrange(number)
                producer.produce(SOURCE, f"{again}".encode(), key=f"{again}".encode())
        assert producer.flush(SETTLE_SECONDS) == 0

    def _settle(self) -> None:
        """Waits until all results are there; checks that there is nothing else."""
        expected = Counter(f"seen-{number}" for number in range(self.outcome.events))

        def all_there() -> bool:
            self.job.ensure()
            return read_committed(self._brokers.address, TARGET).total() >= expected.total()

        wait_until(all_there, f"{expected.total()} results\n{self.job.output()}", SETTLE_SECONDS, pause=0.5)
        found = read_committed(self._brokers.address, TARGET)
        if found != expected:
            missing, surplus = expected - found, found - expected
            raise AssertionError(
                f"missing: {missing.total()} {list(missing)[:5]}, surplus: {surplus.total()} {list(surplus)[:5]}"
            )
        self.outcome.results = found.total()

    # -- kills -----------------------------------------------------------------------------------------------------

    def _kill(self, kind: str) -> None:
        if kind == "driver":
            self.job.kill()
        elif kind == "broker":
            self._brokers.lose_one(TARGET, self._random)
        else:
            victims = self._cluster.executors() if kind == "executor" else self._python_workers()
            if not victims:  # Spark is starting them just now
                wait_until(
                    lambda: self._cluster.executors() if kind == "executor" else self._python_workers(),
                    f"a running {kind}\n{self.job.output()}",
                    SETTLE_SECONDS,
                )
                return self._kill(kind)
            victim = self._random.choice(victims)
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        self.outcome.kills[kind] += 1
        return None

    def _python_workers(self) -> list[psutil.Process]:
        found = []
        for executor in self._cluster.executors():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [
                    child
                    for child in executor.children(recursive=True)
                    if any(name in command_of(child) for name in PYTHON_WORKER)
                ]
        return found


def run(
    kinds: Sequence[str], kills: int, seed: int, folder: Path, say: Callable[[str], None], brokers: int = 1
) -> Outcome:
    made: Brokers = OneBroker(folder / "broker") if brokers == 1 else ThreeBrokers(folder / "brokers")
    with made as running:
        for topic in (SOURCE, TARGET):
            running.create(topic, PARTITIONS)
        with StandaloneCluster(folder / "cluster") as cluster:
            campaign = Campaign(running, cluster, folder, seed, say)
            try:
                return campaign.run(kinds, kills)
            finally:
                campaign.job.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=10, help="of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", type=Path, help="a folder for logs that stays")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)

    def say(line: str) -> None:
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(run(options.kinds.split(","), options.kills, options.seed, folder, say, options.brokers))


if __name__ == "__main__":
    main()
