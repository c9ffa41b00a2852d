"""Courses of events that hurt: each is what once went wrong somewhere, with its times from the seed.

Brokers are named by their part: "first" leads the partition that the course is about when it begins, "second" is
another of its replicas, "third" the remaining broker, if possible the controller. "leader" and "controller" are who
that is when the fault comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from moldau.coordinators.transactions.state import LAST_USABLE_EPOCH
from tests.simulation.admin import ERRANDS
from tests.simulation.faults import OF_DIRECTORIES, Fault, draw_fault, draw_faults

MOST_ERRANDS = 8
#: Longer than any run.
NO_TIMEOUT_MS = 600_000

Course = Callable[[Random], list[Fault]]


@dataclass(frozen=True, slots=True)
class Plan:
    partitions: int
    replicas: int
    faults: Sequence[Fault]
    course: str = ""
    is_about_transactions: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of brokers."""
    disks: int = 1
    """Of each broker."""


@dataclass(frozen=True, slots=True)
class Work:
    """What happens beside producing, reading and the plan: the transactions' version (0: none) and their last epoch,
    whether groups meet, what an administrator does and which disks fail, how fast clocks go, whether somebody starts a
    broker with an id that is taken, how often the metadata's log is cut, whether consumers read from any replica, and
    after which time transactions are aborted.
    """

    transactions: int
    last_epoch: int
    groups: bool
    faults: Sequence[Fault]
    clock_rates: Sequence[float]
    doubles: bool
    entries_between_snapshots: int
    reads_anywhere: bool
    transaction_timeout_ms: int

    @property
    def settings(self) -> Mapping[str, str]:
        """Of brokers."""
        if self.transaction_timeout_ms == NO_TIMEOUT_MS:
            return {}
        return {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(self.transaction_timeout_ms // 4)}


def draw_work(rng: Random, brokers: Sequence[int]) -> Work:
    transactions, last_epoch = rng.choice((0, 0, 0, 1, 2)), LAST_USABLE_EPOCH if rng.random() < 0.7 else 3
    groups = rng.random() < 0.3
    faults = draw_errands(rng, brokers) if rng.random() < 0.3 else []
    if rng.random() < 0.1:
        faults.append(draw_fault(rng, brokers, rng.choice(("full disk", "broken disk")), 6.0 * rng.random()))
    rates = [1.0 + 0.02 * (2 * rng.random() - 1) if rng.random() < 0.2 else 1.0 for _ in brokers]
    doubles, between = rng.random() < 0.03, rng.choice((1000, 1000, 12))
    anywhere = rng.random() < 0.25
    for kind in ("slow loop", "stall", "stall"):
        if rng.random() < 0.1:
            faults.append(draw_fault(rng, brokers, kind, 6.0 * rng.random()))
    timeout_ms = 1200 if rng.random() < 0.25 else NO_TIMEOUT_MS
    faults.sort(key=when)
    return Work(transactions, last_epoch, groups, faults, rates, doubles, between, anywhere, timeout_ms)


def draw_errands(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    errands, at = [draw_fault(rng, brokers, "make topic", 0.1)], 0.1
    for _ in range(rng.randint(1, MOST_ERRANDS)):
        at += rng.choice((0.1, 0.5, 2.0)) * rng.random()
        errands.append(draw_fault(rng, brokers, rng.choice(sorted(ERRANDS)), at))
    return errands


def when(fault: Fault) -> float:
    return fault.at


def draw_subject(seed: int) -> str | None:
    """The course of a run that is about transactions, or another one for which most runs have no use; None for all
    others. Each kind is drawn by itself, so that a further course changes few runs."""
    about, rare = Random(f"subject {seed}"), Random(f"rare {seed}")
    if about.random() < 0.05:
        return about.choice(ABOUT_TRANSACTIONS).__name__
    return rare.choice(RARE).__name__ if rare.random() < 0.15 else None


def draw_disks(rng: Random, brokers: Sequence[int]) -> list[Fault]:
    """What happens to disks of brokers that have several; in most runs they have one."""
    if rng.random() >= 0.2:
        return []
    at = [8.0 * rng.random() for _ in range(rng.randint(1, 3))]
    return [draw_fault(rng, brokers, rng.choice(OF_DIRECTORIES), each) for each in at]


def draw_plan(rng: Random, brokers: Sequence[int], wanted: str | None = None) -> Plan:
    """Two in five runs are what chance gives; the others hold, among some of that, a course of events."""
    partitions, replicas = rng.randint(1, 2), 2 if rng.random() < 0.2 else len(brokers)
    faults = draw_faults(rng, brokers)
    if rng.random() < 0.4 and wanted is None:
        return Plan(partitions, replicas, faults)
    course = rng.choice(COURSES) if wanted is None else NAMED[wanted]
    if course in (late_commit_of_an_old_controller, joins_unheard):
        replicas = 2
    if course is late_word_of_divergence:
        partitions = 2  # so that who is deposed follows the next leader already, in the other one
    if course in (one_partition_is_narrowed, only_one_loses_a_disk):
        alone, name = sorted(course(rng), key=when), course.__name__
        if course is only_one_loses_a_disk:
            return Plan(partitions, len(brokers), alone, name, disks=2)
        return Plan(2, len(brokers), alone, name, settings={"num.replica.fetchers": "2"})
    # What else happens comes before, or with luck between.
    others = faults[: rng.choice((0, 0, 0, 1, 2))]
    mixed = sorted([*others, *course(rng)], key=when)
    return Plan(partitions, replicas, mixed, course.__name__, course in ABOUT_TRANSACTIONS)


def last_one_loses_power(rng: Random) -> list[Fault]:
    """Two vanish shortly after each other, then the one that is left forgets what it had not synced."""
    kinds = ("kill", "vanish", "pause")
    away = 9.0 + 3.0 * rng.random()
    return [
        Fault(0.5, rng.choice(kinds), "second", "first", away),
        Fault(0.5 + rng.random(), rng.choice(kinds), "third", "first", away),
        Fault(3.0 + 6.5 * rng.random(), "power", "first", "second", 0.5 + 3.0 * rng.random()),
    ]


def zombies_in_turn(rng: Random) -> list[Fault]:
    """One leader after the other is cut off from everybody but clients, and deposed."""
    at, faults = 0.5, []
    for _ in range(rng.randint(2, 5)):
        seconds = rng.choice((0.5, 7.0, 10.0)) * (0.7 + rng.random())
        kind = rng.choice(("vanish", "forgotten", "forgotten", "expire", "kill"))
        faults.append(Fault(at, kind, "leader", "second", seconds))
        at += rng.choice((0.1, 1.0, seconds)) * (0.5 + rng.random())
    return faults


def late_proposal_for_a_wiped_disk(rng: Random) -> list[Fault]:
    """A leader proposes to take a follower in; before that arrives, the follower is back with an empty disk."""
    back = 0.65 + 0.2 * rng.random()
    wiped = back + 0.3 + 0.4 * rng.random()
    arrives = wiped + 0.4 + 0.5 * rng.random()
    return [
        Fault(0.5, "forgotten", "second", "first", back - 0.5),
        Fault(back - 0.05, "cut one way", "first", "third", arrives - back + 0.05),
        Fault(wiped, "wipe", "second", "first", 0.05),
        Fault(wiped, "cut one way", "first", "second", arrives - wiped + 0.5),
    ]


def late_commit_of_an_old_controller(rng: Random) -> list[Fault]:
    """A controller that is cut off from ZooKeeper, and replaced, hears late of a follower that wants to be taken in;
    what it decides is written when it is connected again, and that follower has lost its disk."""
    back = 0.6 + 0.1 * rng.random()
    lost = back + 0.4 + 0.2 * rng.random()
    wiped = lost + 0.2 + 0.2 * rng.random()
    return [
        Fault(0.5, "forgotten", "second", "first", back - 0.5),
        Fault(back - 0.02, "cut one way", "first", "third", lost - back + 0.05 + 0.15 * rng.random()),
        Fault(lost, "forgotten", "third", "first", wiped - lost + 0.05 + 0.4 * rng.random()),
        Fault(wiped, "wipe", "second", "first", 0.05),
    ]


def missing_the_last_batch(rng: Random) -> list[Fault]:
    """A follower that is not in sync has missed a moment, and returns over a slow link at a leader that is new and does
    not know yet what was acknowledged."""
    away = 0.3 + 0.5 * rng.random()
    death = 0.5 + away - 0.02 - 0.18 * rng.random()
    return [
        Fault(0.5, "forgotten", "second", "first", away),
        Fault(death - 0.12 * rng.random(), "cut one way", "first", "second", 0.5),
        Fault(death, rng.choice(("kill", "kill", "forgotten")), "first", "second", 2.0 + rng.random()),
        Fault(death, "slow link", "third", "second", 2.0),
    ]


def two_eligible_in_turn(rng: Random) -> list[Fault]:
    """Two replicas that cannot reach each other lead one after the other, since nobody else is left: each has records
    that the other one lacks."""
    deposed = 1.0 + 0.3 * rng.random()
    gone = deposed + 0.2 + 0.4 * rng.random()
    return [
        Fault(0.5, "kill", "third", "first", 5.0),
        Fault(0.7 + 0.2 * rng.random(), "cut", "first", "second", gone + 0.3 - 0.7 + rng.random()),
        Fault(deposed, "expire", "first", "second", 0.1),
        Fault(gone, "kill", "second", "first", 0.3 + 0.4 * rng.random()),
    ]


def late_fetch_of_an_older_epoch(rng: Random) -> list[Fault]:
    """What a follower asked for arrives two epochs later at the same leader; meanwhile it was told to cut its log."""
    held = 0.9 + 0.5 * rng.random()
    there, back = 0.7 + 0.1 * rng.random(), 1.1 + 0.2 * rng.random()
    return [
        Fault(0.5, "cut", "first", "third", back - 0.5 + 0.1 * rng.random()),
        Fault(0.55 + 0.1 * rng.random(), "cut one way", "second", "first", held),
        Fault(there, "move", "third", "first", 0.1),
        Fault(back - 0.15 * rng.random(), "no zookeeper", "second", "first", 1.5),
        Fault(back, "move", "first", "third", 0.1),
    ]


def late_word_of_divergence(rng: Random) -> list[Fault]:
    """A deposed leader is told where to cut its log, and hears of it when it follows the same leader two epochs on."""
    away = 0.3 + 0.3 * rng.random()
    back = 0.5 + away
    there = back + 0.15 + 0.2 * rng.random()
    cut = back + 0.02 + 0.04 * rng.random()  # it has asked by then, and has no answer
    return [
        Fault(0.5, "forgotten", "first", "second", away),
        Fault(cut, "cut one way", "leader", "first", there - cut + 1.0 + 0.4 * rng.random()),
        Fault(there, "move", "not leader", "first", 0.1),
        Fault(there + 0.3 + 0.5 * rng.random(), "move", "led before", "first", 0.1),
    ]


def leaders_in_quick_turn(rng: Random) -> list[Fault]:
    """Leaders move while the metadata comes late to some."""
    at, faults = 0.5, []
    for _ in range(rng.randint(3, 7)):
        if rng.random() < 0.5:
            who = rng.choice(("first", "second", "third"))
            faults.append(Fault(at, "slow zookeeper", who, "first", 0.3 + rng.random()))
        faults.append(Fault(at, "move", rng.choice(("first", "second", "third")), "first", 0.1))
        at += 0.3 * rng.random()
    return faults


def coordinator_dies_between_decision_and_markers(rng: Random) -> list[Fault]:
    """Who coordinates transactions has decided, its markers are on a slow way, and it dies; so does who comes next."""
    at, faults = 0.5, []
    for _ in range(rng.randint(2, 4)):
        faults += [Fault(at, "slow link", "coordinator", each, 1.0) for each in ("second", "third", "first")]
        at += 0.3 + 0.6 * rng.random()
        faults.append(Fault(at, "kill", "coordinator", "second", 3.0 + 4.0 * rng.random()))
        at += 1.0 + 2.0 * rng.random()
    return faults


def late_marker_of_an_old_coordinator(rng: Random) -> list[Fault]:
    """A marker is on its way when its coordinator is replaced; it arrives when the next one has ended that transaction,
    and another one is open."""
    at, faults = 1.0, []
    for _ in range(rng.randint(3, 5)):
        held = 0.5 + rng.random()
        faults += [
            Fault(at, "stall", "coordinator", "copy leader", held),
            Fault(at + 0.1 + 0.3 * rng.random(), "forgotten", "coordinator", "second", held),
        ]
        at += held + 0.5 + rng.random()
    return faults


def one_partition_is_narrowed(rng: Random) -> list[Fault]:
    """Of two partitions the first is left with one replica. Of the other one two vanish, and the one that is left
    forgets what it had not synced."""
    kinds = ("kill", "vanish", "pause")
    away = 9.0 + 3.0 * rng.random()
    return [
        Fault(0.3, "narrow", "second", "first", 0.1),
        *(Fault(0.5 + 8.0 * rng.random(), "change fetchers", "first", "second", 0.1) for _ in range(3)),
        Fault(1.5, rng.choice(kinds), "second", "first", away),
        Fault(1.5 + rng.random(), rng.choice(kinds), "third", "first", away),
        Fault(4.0 + 6.5 * rng.random(), "power", "first", "second", 0.5 + 3.0 * rng.random()),
        Fault(12.0 + 4.0 * rng.random(), rng.choice(("widen", "change fetchers")), "second", "first", 0.1),
    ]


def joins_unheard(rng: Random) -> list[Fault]:
    """A leader alone in sync proposes to take a follower in, and loses ZooKeeper before it can read that it is done."""
    heals = 3.0 + 2.0 * rng.random()
    return [
        Fault(0.5, "kill", "second", "first", 0.4),
        Fault(0.7, "cut", "second", "first", heals - 0.7),
        Fault(heals - 0.2 * rng.random(), "no zookeeper", "first", "second", 20.0),
    ]


def only_one_loses_a_disk(rng: Random) -> list[Fault]:
    """Of a topic that asks for no more one broker alone is in sync; it comes back with one of its two disks, and the
    others, who lack something, after it."""
    alone = 1.5 + 2.0 * rng.random()
    lost = alone + 0.3 + 2.0 * rng.random()
    others = lost + 2.0 + 6.0 * rng.random()
    return [
        Fault(0.1, "make loose topic", "first", "second", 0.1),
        Fault(alone - 0.5 * rng.random(), "kill", "second", "first", others - alone + rng.random()),
        Fault(alone, "kill", "third", "first", others - alone + rng.random()),
        Fault(lost, "replaced disk", "first", "second", 0.05 + rng.random()),
    ]


#: One run in twenty is about one of these; nothing comes of them without transactions.
ABOUT_TRANSACTIONS: Sequence[Course] = (
    coordinator_dies_between_decision_and_markers,
    late_marker_of_an_old_coordinator,
)


COURSES: Sequence[Course] = (
    last_one_loses_power,
    zombies_in_turn,
    late_proposal_for_a_wiped_disk,
    late_commit_of_an_old_controller,
    missing_the_last_batch,
    two_eligible_in_turn,
    late_fetch_of_an_older_epoch,
    late_word_of_divergence,
    leaders_in_quick_turn,
)
#: One run in seven is one of these: they need a cluster of their own, or little else beside them.
RARE: Sequence[Course] = (one_partition_is_narrowed, joins_unheard, only_one_loses_a_disk)
NAMED = {each.__name__: each for each in (*COURSES, *ABOUT_TRANSACTIONS, *RARE)}
