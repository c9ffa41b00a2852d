"""One run: a cluster, its clients, faults from the seed, then healing; promises are checked all the way."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

from moldau.server import answers
from moldau.server.coordination import shard_log
from moldau.work import turns
from tests.simulation.clients import ClientProcess, Noise, Producer, Reader, Told
from tests.simulation.disk import READING_OS
from tests.simulation.ensemble import SimulatedEnsemble
from tests.simulation.faults import Fault, draw_faults, inject
from tests.simulation.machine import Machine, ProblemLog
from tests.simulation.network import Network
from tests.simulation.promises import BrokenPromise, Promises
from tests.simulation.scheduler import Scheduler

BROKERS = (1, 2, 3)
START_SECONDS = 60.0
HEALING_SECONDS = 120.0
TURNS_BETWEEN_LOOKS = 8
AFTERWARDS_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    digest: int
    acknowledged: int
    turns: int
    virtual_seconds: float
    problem: str | None
    faults: Sequence[Fault]


class World:
    def __init__(self, seed: int, faults: Sequence[Fault] | None = None) -> None:
        self.seed = seed
        plan = Random(f"plan {seed}")
        self.partitions = plan.randint(1, 2)
        self.faults = draw_faults(plan, BROKERS) if faults is None else faults
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.ensemble = SimulatedEnsemble(seed, self.scheduler)
        self.machines: dict[int, Machine] = {}
        self.told = Told()
        self.promises = Promises(self)

    def run(self) -> None:
        """Raises BrokenPromise."""
        for broker_id in BROKERS:
            self.machines[broker_id] = Machine(self.scheduler, self.network, self.ensemble, broker_id)
        self._until(lambda: all(machine.core is not None for machine in self.machines.values()), "the cluster starts")
        addresses = [machine.address for machine in self.machines.values()]
        self.producer = Producer(
            ClientProcess(self.scheduler, self.network, "producer"), addresses, self.partitions, self.told
        )
        self._until(lambda: self.producer.is_started, "the producer starts")
        Reader(ClientProcess(self.scheduler, self.network, "reader"), addresses, self.partitions, self.told)
        noise = Noise(ClientProcess(self.scheduler, self.network, "noise"), addresses, self.partitions)
        self.writers = (self.producer, noise)
        start = self.scheduler.now
        for fault in self.faults:
            self._pass_until(start + fault.at)
            inject(self, fault)
        # every fault has an end of its own
        self._pass_until(start + max(fault.at + fault.seconds for fault in self.faults) + AFTERWARDS_SECONDS)
        self.heal()

    def heal(self) -> None:
        for machine in self.machines.values():
            machine.start()
        self._until(self.promises.is_healed, "leaders and full in-sync sets return", HEALING_SECONDS)
        for writer in self.writers:
            writer.is_stopping = True
        self._until(lambda: not any(writer.active for writer in self.writers), "the producers end", HEALING_SECONDS)
        self._until(self.promises.is_quiet, "followers and the reader catch up", HEALING_SECONDS)
        self.promises.check_the_end()

    def _pass_until(self, when: float) -> None:
        while self.scheduler.now < when:
            self._pass_some_turns(when)

    def _until(self, look: Any, what: str, seconds: float = START_SECONDS) -> None:
        end = self.scheduler.now + seconds
        while not look():
            if self.scheduler.now >= end:
                raise BrokenPromise(f"not within {seconds:g} s: {what}; {self.promises.described()}")
            self._pass_some_turns(end)

    def _pass_some_turns(self, deadline: float) -> None:
        last = self.scheduler.turns + TURNS_BETWEEN_LOOKS
        self.scheduler.run_until(lambda: self.scheduler.turns >= last, deadline)
        self.promises.check()

    def close(self) -> None:
        for task_loop in [life.loop for machine in self.machines.values() for life in machine.lives]:
            end_loop(task_loop)
        for loop in list(self.scheduler.loops):
            end_loop(loop)


def end_loop(loop: Any) -> None:
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.retire()


@contextmanager
def simulated_surroundings(problems: list[str]) -> Iterator[None]:
    """What the product takes from its process comes from here: reads of descriptors, the clock of slices."""
    ticks = count()
    handler = ProblemLog(problems)
    logger = logging.getLogger("moldau")
    logger.addHandler(handler)
    gc.disable()
    try:
        with (
            patch.object(answers, "os", READING_OS),
            patch.object(shard_log, "os", READING_OS),
            patch.object(turns, "clock", lambda: float(next(ticks))),
        ):
            yield
    finally:
        gc.enable()
        logger.removeHandler(handler)


def simulate(seed: int, faults: Sequence[Fault] | None = None) -> Outcome:
    world = World(seed, faults)
    problem = None
    with simulated_surroundings(world.scheduler.problems):
        try:
            world.run()
        except BrokenPromise as broken:
            problem = str(broken)
        acknowledged = sum(map(len, world.told.acknowledged.values()))
        scheduler = world.scheduler
        outcome = Outcome(
            seed, scheduler.digest, acknowledged, scheduler.turns, scheduler.now - 1000.0, problem, world.faults
        )
        world.close()
        return outcome
