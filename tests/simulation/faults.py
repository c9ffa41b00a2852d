"""Faults as data: when, what, to whom, for how long. Drawn from the seed; a list can be cut down by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.admin import ERRANDS, OF_COURSES
from tests.simulation.ensemble import LONGEST_SECONDS, SimulatedPort

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.world import World

KINDS = (
    "kill",
    "kill",
    "power",
    "stop",
    "pause",
    "cut",
    "cut one way",
    "slow link",
    "isolate",
    "expire",
    "no zookeeper",
    "slow disk",
    "wipe",
    "hiccup",
    "forgotten",
    "slow zookeeper",
    "move",
    "false fencing",
    "no quorum",
    "wall clock",
)
#: What only brokers with several log directories survive, or go on with.
OF_DIRECTORIES = ("failing directory", "replaced disk")
MOST_FAULTS = 12
SLOW_DISK_SECONDS = 0.5
SLOWEST_LINK_SECONDS = 0.3
SLOW_ZOOKEEPER_SECONDS = 0.25
SLOWEST_TURN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    kind: str
    broker: int | str
    other: int | str
    seconds: float


def draw_faults(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    faults, at = [], 0.3
    for _ in range(rng.randint(1, MOST_FAULTS)):
        faults.append(draw_fault(rng, brokers, rng.choice(KINDS), at))
        at += rng.choice((0.01, 0.2, 1.0, 4.0)) * rng.random()
    return faults


def draw_fault(rng: Random, brokers: Sequence[int], kind: str, at: float) -> Fault:
    broker, other = rng.sample(list(brokers), 2)
    seconds = rng.choice((0.05, 0.5, 3.0, 9.0)) * (0.5 + rng.random())
    return Fault(round(at, 3), kind, broker, other, round(seconds, 3))


def inject(world: World, fault: Fault) -> None:
    broker, other = world.cast.find(fault.broker), world.cast.find(fault.other)
    world.scheduler.note("fault", fault.kind, broker, other)
    if fault.kind in ERRANDS or fault.kind in OF_COURSES:
        world.admin.run(fault.kind, broker)
    else:
        INJECTIONS[fault.kind](Injection(world, world.machines[broker], world.machines[other], fault.seconds))


@dataclass(frozen=True, slots=True)
class Injection:
    world: World
    machine: Machine
    other: Machine
    seconds: float

    def later(self, call: Callable[[], None]) -> None:
        self.world.scheduler.after(self.seconds, call)

    @property
    def port(self) -> SimulatedPort | None:
        life = self.machine.life
        return None if life is None else life.port


def kill(to: Injection) -> None:
    to.machine.kill()
    to.later(to.machine.start)


def stop(to: Injection) -> None:
    to.machine.stop(to.seconds)


def power(to: Injection) -> None:
    # Without syncs a record survives as long as one of its replicas keeps its memory.
    if to.world.promises.may_lose_memory(to.machine.broker_id):
        to.machine.cut_power()
        to.later(to.machine.start)


def wipe(to: Injection) -> None:
    replace(to, to.machine.directories)


def replace_disk(to: Injection) -> None:
    """One of several."""
    replace(to, [to.world.scheduler.rng.choice(to.machine.directories)])


def replace(to: Injection, directories: Sequence[str]) -> None:
    if to.world.promises.may_lose_memory(to.machine.broker_id):
        port = to.port
        to.machine.replace(directories)
        if port is not None and to.world.scheduler.rng.random() < 0.7:
            port.end_session()  # it takes somebody longer than that to put in another disk
        to.later(to.machine.start)


def pause(to: Injection) -> None:
    to.machine.pause()
    to.later(to.machine.go_on)


def cut_both_ways(to: Injection) -> None:
    mine, other = to.machine.name, to.other.name
    cut(to.world, [(mine, other), (other, mine)], to.seconds)


def cut_one_way(to: Injection) -> None:
    cut(to.world, [(to.machine.name, to.other.name)], to.seconds)


def slow_link(to: Injection) -> None:
    """One way, for all that is sent."""
    way, slowness = (to.machine.name, to.other.name), to.world.network.slowness
    slowness[way] = SLOWEST_LINK_SECONDS * (0.2 + 0.8 * to.world.scheduler.rng.random())
    to.later(lambda: slowness.pop(way, None))


def stall(to: Injection) -> None:
    to.world.network.stall(to.machine.name, to.other.name, to.seconds)


def isolate(to: Injection) -> None:
    mine = to.machine.name
    others = [each.name for each in to.world.machines.values() if each is not to.machine]
    cut(to.world, [way for each in others for way in ((mine, each), (each, mine))], to.seconds)


def vanish(to: Injection) -> None:
    isolate(to)
    no_zookeeper(to)


def no_zookeeper(to: Injection) -> None:
    port = to.port
    if port is not None:
        port.cut_off()
        to.later(port.reconnect)


def forgotten(to: Injection) -> None:
    """It was silent for a while already, and cannot hear that its session has ended."""
    port = to.port
    if port is not None:
        port.cut_off()
        port.end_session()
        to.later(port.reconnect)


def no_quorum(to: Injection) -> None:
    """Nobody reaches ZooKeeper; sessions go on where they were, as they do after an election there."""
    for machine in to.world.machines.values():
        port = None if machine.life is None else machine.life.port
        if port is not None:
            port.cut_off(is_heard=True)
            to.later(port.reconnect)


def expire(to: Injection) -> None:
    if to.port is not None:
        to.port.expire()


def hiccup(to: Injection) -> None:
    if to.port is not None:
        to.port.hiccup()


def slow_zookeeper(to: Injection) -> None:
    port = to.port
    if port is not None:
        port.longest_seconds = SLOW_ZOOKEEPER_SECONDS
        to.later(lambda: setattr(port, "longest_seconds", LONGEST_SECONDS))


def slow_loop(to: Injection) -> None:
    """Each turn takes long, as if handlers computed too much, or others the machine's time."""
    life = to.machine.life
    if life is not None:
        life.loop.turn_seconds = SLOWEST_TURN_SECONDS * to.world.scheduler.rng.random()
        to.later(lambda: setattr(life.loop, "turn_seconds", 0.0))


def slow_disk(to: Injection) -> None:
    to.machine.disk_seconds = SLOW_DISK_SECONDS
    to.later(lambda: setattr(to.machine, "disk_seconds", 0.002))


def move(to: Injection) -> None:
    to.world.admin.move_leader(to.world.cast.partition, to.machine.broker_id)


def full_disk(to: Injection) -> None:
    """A little fits still; a broker without a folder ends."""
    to.machine.spoil_disk(full=True, room=to.world.scheduler.rng.choice((0, 100, 2000)))
    to.later(to.machine.mend_disk)


def broken_disk(to: Injection) -> None:
    to.machine.spoil_disk(full=False)
    to.later(to.machine.mend_disk)


def failing_directory(to: Injection) -> None:
    """One of several."""
    machine = to.machine
    if len(machine.directories) > 1 and not machine.disk.broken:
        machine.break_directory(to.world.scheduler.rng.choice(machine.directories))
        to.later(machine.mend_directories)


def false_fencing(to: Injection) -> None:
    """Somebody takes a broker that lives for dead."""
    to.world.promises.fences.accuse(to.machine.broker_id)
    image = to.world.promises.newest_image()
    broker = None if image is None else image.brokers.get(to.machine.broker_id)
    for _, core in to.world.promises.cores():
        if broker is not None and core.controller.is_active:
            core.controllership.evidence_of_death(broker.id, broker.incarnation)


def wall_clock(to: Injection) -> None:
    """It jumps, by up to an hour or so, and back."""
    jump = int((to.seconds - 3.0) * 600_000)
    to.machine.wall_jump_ms += jump
    to.later(lambda: setattr(to.machine, "wall_jump_ms", to.machine.wall_jump_ms - jump))


INJECTIONS: dict[str, Callable[[Injection], None]] = {
    "kill": kill,
    "power": power,
    "stop": stop,
    "wipe": wipe,
    "pause": pause,
    "cut": cut_both_ways,
    "cut one way": cut_one_way,
    "slow link": slow_link,
    "stall": stall,
    "slow loop": slow_loop,
    "isolate": isolate,
    "vanish": vanish,
    "no zookeeper": no_zookeeper,
    "forgotten": forgotten,
    "no quorum": no_quorum,
    "expire": expire,
    "hiccup": hiccup,
    "slow zookeeper": slow_zookeeper,
    "slow disk": slow_disk,
    "full disk": full_disk,
    "broken disk": broken_disk,
    "failing directory": failing_directory,
    "replaced disk": replace_disk,
    "move": move,
    "false fencing": false_fencing,
    "wall clock": wall_clock,
}


def cut(world: World, ways: Sequence[tuple[str, str]], seconds: float) -> None:
    for way in ways:
        world.network.cut(*way)
        world.scheduler.after(seconds, lambda way=way: world.network.heal(*way))
