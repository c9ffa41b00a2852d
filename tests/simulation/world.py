"""One run: a cluster, its clients, faults from the seed, then healing; promises are checked all the way."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

from moldau.client.settings import Address
from moldau.coordinators.transactions import machine as transaction_machine
from moldau.coordinators.transactions import state as transaction_state
from moldau.server import file_pieces
from moldau.server.coordination import shard_log
from moldau.work import turns
from tests.simulation.admin import Admin
from tests.simulation.calls import TOPIC, ClientProcess, Cluster
from tests.simulation.cast import Cast
from tests.simulation.clients import Noise, Producer, Reader, Told
from tests.simulation.courses import draw_disks, draw_plan, draw_subject, draw_work, only_one_loses_a_disk, when
from tests.simulation.disk import READING_OS, looked_into
from tests.simulation.ending import Ending
from tests.simulation.ensemble import SimulatedEnsemble
from tests.simulation.faults import Fault, inject
from tests.simulation.groups import MEMBERS, Committed, Known, Offsets, Onlooker, group_parts
from tests.simulation.machine import Machine, ProblemLog
from tests.simulation.network import Network
from tests.simulation.promises import BrokenPromise, Promises
from tests.simulation.scheduler import NodeLoop, Scheduler
from tests.simulation.transactions import COPY_GROUP, CommittedReader, Copied, Copier

BROKERS = (1, 2, 3)
START_SECONDS = 60.0
HEALING_SECONDS = 120.0
TURNS_BETWEEN_LOOKS = 8
#: One seed in so many is looked at after every turn.
CLOSELY_EVERY = 25
AFTERWARDS_SECONDS = 0.2
PATIENCE_SECONDS = 5.0


class Writer(Protocol):
    is_stopping: bool
    active: int


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    digest: int
    acknowledged: int
    turns: int
    virtual_seconds: float
    problem: str | None
    faults: Sequence[Fault]
    course: str


class World:
    def __init__(self, seed: int, course: str | None = None, faults: Sequence[Fault] | None = None) -> None:
        self.seed = seed
        plan = draw_plan(Random(f"plan {seed}"), BROKERS, course or draw_subject(seed))
        self.partitions, self.replicas, self._plan_settings = plan.partitions, plan.replicas, plan.settings
        # With a course that was asked for little else happens.
        of_disks = draw_disks(Random(f"disks {seed}"), BROKERS) if course is None else []
        self._disks = 2 if of_disks else plan.disks
        self._turns_between_looks = 1 if seed % CLOSELY_EVERY == CLOSELY_EVERY - 1 else TURNS_BETWEEN_LOOKS
        self.work = draw_work(Random(f"work {seed}"), BROKERS)
        if plan.is_about_transactions:
            self.work = replace(self.work, transactions=1)
        drawn = sorted([*plan.faults, *self.work.faults, *of_disks], key=when)
        self._asks_at = 0.0
        self.faults, self.course = drawn if faults is None else faults, plan.course
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.clients_loop = NodeLoop(self.scheduler, "clients")
        self.ensemble = SimulatedEnsemble(seed, self.scheduler, self.work.entries_between_snapshots)
        self.machines: dict[int, Machine] = {}
        self.others: list[Machine] = []
        self.told = Told()
        self.copied, self.committed = Copied(), Committed()
        self.copier: Copier | None = None
        self.promises = Promises(self)
        self.ending = Ending(self, self.promises)
        self.cast = Cast(self)

    def run(self) -> None:
        """Raises BrokenPromise."""
        settings = {**self.work.settings, **self._plan_settings}
        for broker_id, rate in zip(BROKERS, self.work.clock_rates, strict=True):
            self.machines[broker_id] = Machine(
                self.scheduler, self.network, self.ensemble, broker_id, rate, settings=settings, disks=self._disks
            )
        self._until(lambda: all(machine.core is not None for machine in self.machines.values()), "the cluster starts")
        addresses = [machine.address for machine in self.machines.values()]
        self.producer = Producer(
            self._process("producer"),
            addresses,
            self.partitions,
            self.replicas,
            self.told,
        )
        self._until(lambda: self.producer.is_started, "the producer starts")
        Reader(self._process("reader"), addresses, self.partitions, self.told)
        if self.work.reads_anywhere:
            Reader(self._process("reader anywhere"), addresses, self.partitions, self.told, anywhere=True)
        noise = Noise(self._process("noise"), addresses, self.partitions, self.told)
        self.writers: list[Writer] = [self.producer, noise]
        self.admin = Admin(self._process("admin"), addresses, self)
        self._begin_other_work(addresses)
        start = self.scheduler.now
        for fault in self.faults:
            self._pass_until(start + fault.at)
            inject(self, fault)
        # every fault has an end of its own
        self._pass_until(
            start + max((fault.at + fault.seconds for fault in self.faults), default=0.0) + AFTERWARDS_SECONDS
        )
        self.heal()

    def _process(self, name: str) -> ClientProcess:
        return ClientProcess(self.scheduler, self.network, name, self.clients_loop)

    def _begin_other_work(self, addresses: Sequence[Address]) -> None:
        known = Known(self.told, self.committed, self.promises.may_be_stale)
        if self.work.transactions:
            self.copier = Copier(self._process("copier"), addresses, self.work, len(BROKERS), self.copied)
            self.writers.append(self.copier)
            CommittedReader(self._process("committed"), addresses, self.copied, anywhere=self.work.reads_anywhere)
            process = self._process("onlooker")
            offsets = Offsets(process, Cluster(process, addresses), COPY_GROUP, TOPIC, known)
            self.onlooker = Onlooker(process, offsets, 0)
        if self.work.groups:
            processes = [self._process(name) for name in MEMBERS]
            self.writers += group_parts(processes, addresses, TOPIC, known)

    def heal(self) -> None:
        for machine in self.machines.values():
            machine.mend_disk()
            machine.mend_directories()
        self._until(self._is_healed, "leaders and full in-sync sets return", HEALING_SECONDS)
        if self.work.doubles:
            self._start_a_double()
        for writer in self.writers:
            writer.is_stopping = True
        self._until(lambda: not any(writer.active for writer in self.writers), "the producers end", HEALING_SECONDS)
        if self.copier is not None:
            self.onlooker.is_stopping = True
            self._until(lambda: not self.onlooker.active, "the onlooker ends", HEALING_SECONDS)
            self.copied_offset = self.onlooker.last
        self._until(self.ending.is_quiet, "followers and readers catch up", HEALING_SECONDS)
        self.ending.check()

    def _is_healed(self) -> bool:
        """What was lost with the last disk that had it comes back when somebody says that he can do without."""
        if self.course == only_one_loses_a_disk.__name__ and self.scheduler.now >= self._asks_at:
            image = self.promises.newest_image()
            if image is not None and all(broker.is_active for broker in image.brokers.values()):
                self._asks_at = self.scheduler.now + PATIENCE_SECONDS
                self.admin.run("elect unclean", BROKERS[0])
        return self.ending.is_healed()

    def _start_a_double(self) -> None:
        """Somebody starts a broker with an id that is taken: it is told so, and the cluster goes on."""
        taken = self.scheduler.rng.choice(BROKERS)
        double = Machine(self.scheduler, self.network, self.ensemble, taken, name=f"double{taken}")
        self.others.append(double)
        life = double.lives[0]
        self.scheduler.excused.add(life.loop.name)
        self._until(lambda: life.refusal is not None or life.is_ready, "the double is refused")
        if life.refusal is None or "another broker is alive" not in life.refusal:
            raise BrokenPromise(f"a second broker {taken} was told {life.refusal!r}")
        self._until(self.ending.is_healed, "a refused double is forgotten", HEALING_SECONDS)

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
        last = self.scheduler.turns + self._turns_between_looks
        self.scheduler.run_until(lambda: self.scheduler.turns >= last, deadline)
        with looked_into():
            self.promises.check()

    def close(self) -> None:
        for task_loop in [life.loop for machine in [*self.machines.values(), *self.others] for life in machine.lives]:
            end_loop(task_loop)
        for loop in list(self.scheduler.loops):
            end_loop(loop)


def end_loop(loop: Any) -> None:
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.retire()


@contextmanager
def simulated_surroundings(scheduler: Scheduler, last_epoch: int) -> Iterator[None]:
    """What the product takes from its process comes from here: reads of descriptors, the clock of slices. Producers may
    run out of epochs sooner."""
    ticks = count()
    handler = ProblemLog(scheduler)
    logger = logging.getLogger("moldau")
    logger.addHandler(handler)
    gc.disable()
    try:
        with (
            patch.object(file_pieces, "os", READING_OS),
            patch.object(shard_log, "os", READING_OS),
            patch.object(turns, "clock", lambda: float(next(ticks))),
            patch.object(transaction_state, "LAST_USABLE_EPOCH", last_epoch),
            patch.object(transaction_machine, "LAST_USABLE_EPOCH", last_epoch),
        ):
            yield
    finally:
        gc.enable()
        logger.removeHandler(handler)


def simulate(seed: int, course: str | None = None, faults: Sequence[Fault] | None = None) -> Outcome:
    """`faults` instead of those that are drawn from the seed."""
    world = World(seed, course, faults)
    problem = None
    with simulated_surroundings(world.scheduler, world.work.last_epoch):
        try:
            world.run()
        except BrokenPromise as broken:
            problem = str(broken)
        acknowledged = sum(map(len, world.told.acknowledged.values()))
        scheduler = world.scheduler
        outcome = Outcome(
            seed,
            scheduler.digest,
            acknowledged,
            scheduler.turns,
            scheduler.now - 1000.0,
            problem,
            world.faults,
            world.course,
        )
        world.close()
        return outcome
