"""Faults as data: when, what, to whom, for how long. Drawn from the seed; a list can be cut down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    faults, at = [], 0.3
    for _ in range(rng.randint(1, MOST_FAULTS)):
        broker, other = rng.sample(list(brokers), 2)
        seconds = rng.choice((0.05, 0.5, 3.0, 9.0)) * (0.5 + rng.random())
        faults.append(Fault(round(at, 3), rng.choice(KINDS), broker, other, round(seconds, 3)))
        at += rng.choice((0.01, 0.2, 1.0, 4.0)) * rng.random()
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
    elif fault.kind == "isolate":
        others = [each.name for each in world.machines.values() if each is not machine]
        cut(world, [way for each in others for way in ((mine, each), (each, mine))], fault.seconds)
    elif fault.kind == "expire":
        if machine.life is not None and machine.life.port is not None:
            machine.life.port.expire()
    elif fault.kind == "hiccup":
        if machine.life is not None and machine.life.port is not None:
            machine.life.port.hiccup()
    elif fault.kind == "no zookeeper":
        life = machine.life
        if life is not None and life.port is not None:
            life.port.cut_off()
            later(fault.seconds, life.port.reconnect)
    else:
        machine.disk_seconds = SLOW_DISK_SECONDS
        later(fault.seconds, lambda: setattr(machine, "disk_seconds", 0.002))


def cut(world: World, ways: Sequence[tuple[str, str]], seconds: float) -> None:
    for way in ways:
        world.network.cut(*way)
        world.scheduler.after(seconds, lambda way=way: world.network.heal(*way))
