"""Runs cases on the brokers in turn: one warm-up run each, then repetitions that alternate between the brokers.

Alternating spreads what else the machine does over both. The cases under load share one broker of each kind, which
both stay up, so that Java's compiler is as warm as it would be in use; an idle broker costs the other next to nothing.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from confluent_kafka import KafkaException

from bench.cases import Case
from bench.load import Load, LoadFailed, LoadGenerator
from bench.locks import Lock
from bench.outcomes import Outcome, Values
from bench.peers import Peer
from bench.scenarios import Scenario, SmallRequests, Stage, Throughput
from moldau.client.errors import ClientError
from tests.support.process import BrokerFailed, BrokerProcess
from tests.support.waiting import Timeout

FIRST_WARM_UP: tuple[Scenario, ...] = (
    Throughput(Load(1_000_000, size=1000)),
    SmallRequests(Load(20_000, linger_ms=0, settings=("batch.num.messages=1",))),
)
QUICK_FIRST_WARM_UP: tuple[Scenario, ...] = (Throughput(Load(100_000, size=1000)),)

FAILURES = (BrokerFailed, ClientError, LoadFailed, Timeout, KafkaException, psutil.Error, subprocess.TimeoutExpired)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    cases: Sequence[Case]
    peers: Sequence[Peer]
    repetitions: int
    quick: bool

    @property
    def steps(self) -> int:
        runs = self.repetitions + 1
        standing = sum(runs for case in self.cases if case.scenario.standing)
        own = sum(self.repetitions for case in self.cases if not case.scenario.standing)
        warm_ups = len({case.locked for case in self.cases if case.scenario.standing})
        return (standing + own + warm_ups) * len(self.peers)


@dataclass(frozen=True, slots=True)
class Standing:
    broker: BrokerProcess
    lock: Lock | None = None


class Runner:
    def __init__(self, plan: Plan, generator: LoadGenerator, directory: Path, tell: Tell, step: Callable[[], None]):
        self._plan = plan
        self._generator = generator
        self._directory = directory
        self._tell = tell
        self._step = step
        self._topics = 0
        self.outcomes = [Outcome(case, tuple(Peer)) for case in plan.cases]

    def run(self) -> None:
        """Fills the outcomes as it goes on, so that there is something to show if it is interrupted."""
        under_load = [outcome for outcome in self.outcomes if outcome.case.scenario.standing]
        on_their_own = [outcome for outcome in self.outcomes if not outcome.case.scenario.standing]
        for locked in (False, True):
            together = [outcome for outcome in under_load if outcome.case.locked is locked]
            if together:
                self._run_together(together, locked)
        for outcome in on_their_own:
            with self._blamed_on([outcome]):
                self._run_on_fresh(outcome)

    def _run_together(self, outcomes: Sequence[Outcome[Case]], locked: bool) -> None:
        with self._blamed_on(outcomes), self._standing_brokers(locked) as brokers:
            for outcome in outcomes:
                with self._blamed_on([outcome]):
                    self._run_on_standing(outcome, brokers)

    @contextmanager
    def _blamed_on(self, outcomes: Sequence[Outcome[Case]]) -> Iterator[None]:
        """A case that fails must not cost the others."""
        try:
            yield
        except FAILURES as failure:
            for outcome in outcomes:
                outcome.failure = str(failure)
            self._tell(f"{', '.join(outcome.case.name for outcome in outcomes)} failed: {failure}")

    @contextmanager
    def _standing_brokers(self, locked: bool) -> Iterator[dict[Peer, Standing]]:
        with ExitStack() as stack:
            brokers = {}
            for peer in self._plan.peers:
                lock = Lock.make(self._directory / f"{peer.value}-keys") if locked else None
                brokers[peer] = Standing(stack.enter_context(self._fresh_broker(peer, lock)), lock)
            for peer, broker in brokers.items():
                self._tell(f"warming {peer.title} up")
                for scenario in QUICK_FIRST_WARM_UP if self._plan.quick else FIRST_WARM_UP:
                    scenario.run(self._stage(broker))
                self._step()
            yield brokers

    def _run_on_standing(self, outcome: Outcome[Case], brokers: dict[Peer, Standing]) -> None:
        scenario = outcome.case.scenario
        for broker in brokers.values():
            scenario.run(self._stage(broker))
            self._step()
        for number in range(self._plan.repetitions):
            for peer in self._turns(number):
                self._record(outcome, peer, scenario.run(self._stage(brokers[peer])))

    def _run_on_fresh(self, outcome: Outcome[Case]) -> None:
        for number in range(self._plan.repetitions):
            for peer in self._turns(number):
                with self._fresh_broker(peer) as broker:
                    values = outcome.case.scenario.run(self._stage(Standing(broker)))
                self._record(outcome, peer, values)

    def _turns(self, number: int) -> Sequence[Peer]:
        return self._plan.peers if number % 2 == 0 else self._plan.peers[::-1]

    def _stage(self, standing: Standing) -> Stage:
        broker = standing.broker
        if not broker.running:
            raise BrokerFailed(f"{broker.name} has ended\n{broker.output()}")
        self._topics += 1
        return Stage(broker, self._generator, f"bench{self._topics}", standing.lock)

    def _record(self, outcome: Outcome[Case], peer: Peer, values: Values) -> None:
        outcome.repetitions[peer].append(values)
        first = outcome.case.figures[0]
        self._tell(f"{outcome.case.name}: {peer.title}: {first.name} {values[first.key]:,.4g} {first.unit}")
        self._step()

    @contextmanager
    def _fresh_broker(self, peer: Peer, lock: Lock | None = None) -> Iterator[BrokerProcess]:
        folder = self._directory / peer.value
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with peer.broker(folder, lock) as broker:
                yield broker
        finally:
            shutil.rmtree(folder, ignore_errors=True)
