"""Faults as data: when, what, to whom, for how long. Drawn from the seed; a list can be cut down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.world import World

KINDS = (
    "kill",
    "kill",
    "power",
    "pause",
    "cut",
    "cut one way",
    "isolate",
    "expire",
    "no zookeeper",
    "slow disk",
    "wipe",
    "hiccup",
)
MOST_FAULTS = 12
SLOW_DISK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    kind: str
    broker: int
    other: int
    seconds: float


def draw_faults(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    """Half of all runs are what chance gives; the others hold, among that, a course of events that hurts."""
    faults, at = [], 0.3
    for _ in range(rng.randint(1, MOST_FAULTS)):
        broker, other = rng.sample(list(brokers), 2)
        seconds = rng.choice((0.05, 0.5, 3.0, 9.0)) * (0.5 + rng.random())
        faults.append(Fault(round(at, 3), rng.choice(KINDS), broker, other, round(seconds, 3)))
        at += rng.choice((0.01, 0.2, 1.0, 4.0)) * rng.random()
    if rng.random() < 0.5:
        kept = rng.randint(0, min(3, len(faults)))
        course = rng.choice((last_one_loses_power, zombies_in_turn, late_fetch_of_a_wiped_disk, behind_and_back))
        faults = sorted([*faults[:kept], *course(rng, rng.sample(list(brokers), 3))], key=lambda fault: fault.at)
    return faults


def last_one_loses_power(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    """Two vanish shortly after each other, then the one that is left forgets what it had not synced."""
    first, second, last = brokers
    kinds = ("kill", "vanish", "pause")
    away = 9.0 + 3.0 * rng.random()
    return [
        Fault(0.5, rng.choice(kinds), first, last, away),
        Fault(0.5 + rng.random(), rng.choice(kinds), second, last, away),
        Fault(3.0 + 6.5 * rng.random(), "power", last, first, 0.5 + 3.0 * rng.random()),
    ]


def zombies_in_turn(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    """One after the other is cut off from everybody but clients, so that each may have led and been deposed."""
    at, faults = 0.5, []
    for number in range(rng.randint(2, 5)):
        broker, other = brokers[number % 3], brokers[(number + 1) % 3]
        seconds = rng.choice((0.5, 7.0, 10.0)) * (0.7 + rng.random())
        faults.append(Fault(at, rng.choice(("vanish", "vanish", "expire", "kill")), broker, other, seconds))
        at += rng.choice((0.1, 1.0, seconds)) * (0.5 + rng.random())
    return faults


def late_fetch_of_a_wiped_disk(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    """What a broker sent in its earlier life arrives when it is back with an empty disk."""
    follower, leader, other = brokers
    held = 9.0 + 3.0 * rng.random()
    return [
        Fault(0.5, "cut one way", follower, leader, held),
        Fault(0.5, "cut one way", follower, other, held),
        Fault(0.5 + 0.3 * rng.random(), "wipe", follower, other, 0.1),
    ]


def behind_and_back(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    """A follower misses a moment, and returns at a leader that is new and does not know yet what is acknowledged."""
    follower, leader, _ = brokers
    at, faults = 0.5, []
    for _ in range(rng.randint(2, 5)):
        faults.append(Fault(at, "expire", follower, leader, 0.1))
        at += 0.02 * rng.random()
        faults.append(Fault(at, rng.choice(("expire", "kill", "vanish")), leader, follower, 0.3 + rng.random()))
        at += 0.3 + 2.0 * rng.random()
    return faults


def inject(world: World, fault: Fault) -> None:
    world.scheduler.note("fault", fault.kind, fault.broker, fault.other)
    machine, later = world.machines[fault.broker], world.scheduler.after
    mine, other = machine.name, world.machines[fault.other].name
    if fault.kind == "kill":
        machine.kill()
        later(fault.seconds, machine.start)
    elif fault.kind == "power":
        # Without syncs a record survives as long as one of its replicas keeps its memory.
        if world.promises.may_lose_memory(fault.broker):
            machine.cut_power()
            later(fault.seconds, machine.start)
    elif fault.kind == "wipe":
        if world.promises.may_lose_memory(fault.broker):
            machine.wipe()
            later(fault.seconds, machine.start)
    elif fault.kind == "pause":
        machine.pause()
        later(fault.seconds, machine.go_on)
    elif fault.kind in ("cut", "cut one way"):
        ways = [(mine, other)] if fault.kind == "cut one way" else [(mine, other), (other, mine)]
        cut(world, ways, fault.seconds)
    elif fault.kind in ("isolate", "vanish"):
        others = [each.name for each in world.machines.values() if each is not machine]
        cut(world, [way for each in others for way in ((mine, each), (each, mine))], fault.seconds)
        if fault.kind == "vanish":
            cut_from_zookeeper(world, machine, fault.seconds)
    elif fault.kind == "expire":
        if machine.life is not None and machine.life.port is not None:
            machine.life.port.expire()
    elif fault.kind == "hiccup":
        if machine.life is not None and machine.life.port is not None:
            machine.life.port.hiccup()
    elif fault.kind == "no zookeeper":
        cut_from_zookeeper(world, machine, fault.seconds)
    else:
        machine.disk_seconds = SLOW_DISK_SECONDS
        later(fault.seconds, lambda: setattr(machine, "disk_seconds", 0.002))


def cut_from_zookeeper(world: World, machine: Machine, seconds: float) -> None:
    life = machine.life
    if life is not None and life.port is not None:
        life.port.cut_off()
        world.scheduler.after(seconds, life.port.reconnect)


def cut(world: World, ways: Sequence[tuple[str, str]], seconds: float) -> None:
    for way in ways:
        world.network.cut(*way)
        world.scheduler.after(seconds, lambda way=way: world.network.heal(*way))
