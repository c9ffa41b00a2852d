"""The controller's rules under any history of brokers, leaders and administrators.

Beside the shape of each partition, one thing is followed: which replicas hold all that was committed. A record is
committed when all of an in-sync set that is large enough have it, so a leader with such a set commits after each
change, and only its members hold everything. Nobody else may ever be elected without being called recovering, and
nobody at all whose log was lost with its disk, unless an unclean election allows it. Each broker has two disks: one
holds its replicas of all partitions 0, the other those of partitions 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st

from moldau.metadata.controller.claim import claim
from moldau.metadata.controller.config_changes import ResourceChanges, incremental_alter_configs
from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.duties import DutySettings, Evidence, duties
from moldau.metadata.controller.elect import ElectionKind, elect_leaders
from moldau.metadata.controller.in_sync import WantedIsr, alter_partitions
from moldau.metadata.controller.log_directories import directories_failed, place_in_directories
from moldau.metadata.controller.reassignment import WantedReplicas, alter_reassignments
from moldau.metadata.controller.shutdown import begin_shutdown
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import NO_LEADER, PartitionImage
from moldau.metadata.store import Operation
from moldau.work.slices import Work, at_once
from tests.support.metadata import Cluster

BROKERS = (1, 2, 3, 4)
TOPICS = {"one": (1, False), "two": (2, False), "loose": (1, True)}
#: Of each topic: they are reassigned one by one, to different numbers of replicas.
PARTITIONS = (0, 1)
PLACES = tuple((topic, index) for topic in TOPICS for index in PARTITIONS)
#: More than that to do for one image would mean that the duties never end.
ROUNDS = 30


@dataclass
class World:
    cluster: Cluster = field(default_factory=lambda: Cluster(dict.fromkeys(BROKERS)))
    alive: set[int] = field(default_factory=lambda: set(BROKERS))
    holders: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    asked: ElectionKind | None = None
    boots: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BROKERS, 0))
    disks: dict[int, list[int]] = field(default_factory=lambda: {each: [10 * each, 10 * each + 1] for each in BROKERS})
    #: Of each partition, who has an empty log in place of what was lost with a disk.
    emptied: dict[tuple[str, int], set[int]] = field(default_factory=lambda: {place: set() for place in PLACES})

    def __post_init__(self) -> None:
        for broker in BROKERS:
            self.cluster.register(broker, directories=self.directories(broker))
        for name, (minimum, unclean) in TOPICS.items():
            configs = (("min.insync.replicas", str(minimum)), ("unclean.leader.election.enable", str(unclean).lower()))
            self.cluster.create(NewTopic(name, len(PARTITIONS), 3, configs=configs))
        self.holders = {place: set(self.partition(*place).isr) for place in PLACES}
        self.cluster.decide(lambda image: claim(image, 1))

    def directories(self, broker: int, without: int | None = None) -> tuple[UUID, ...]:
        return tuple(UUID(int=disk) for slot, disk in enumerate(self.disks[broker]) if slot != without)

    def replace_disk(self, broker: int, slot: int) -> None:
        self.disks[broker][slot] += 100
        for topic in TOPICS:
            self.holders[topic, slot].discard(broker)
            self.emptied[topic, slot].add(broker)

    def tell_where(self, broker: int, directories: Collection[UUID]) -> None:
        """The broker says where its replicas are, as far as they are in these directories."""
        image = self.cluster.image
        places = {
            (image.topics[topic].id, slot): UUID(int=self.disks[broker][slot])
            for topic, slot in PLACES
            if broker in self.partition(topic, slot).replicas and UUID(int=self.disks[broker][slot]) in directories
        }
        epoch = image.brokers[broker].epoch
        self.decide(place_in_directories(image, broker, epoch, places, self.cluster.config))

    def partition(self, topic: str, index: int) -> PartitionImage:
        return self.cluster.image.topics[topic].partitions[index]

    def needed(self, topic: str, partition: PartitionImage) -> int:
        """How many of its own replicas have to be in sync for its leader to commit anything."""
        return min(int(self.cluster.image.topics[topic].configs["min.insync.replicas"]), len(partition.replicas))

    def decide(self, work: Work[Decision[object]], parts: int | None = None) -> bool:
        """Commits the first parts of what is decided, and looks at the world after each."""
        decision = at_once(work)
        for part in decision.parts[:parts]:
            self.commit(part)
        return bool(decision.operations)

    def commit(self, part: Sequence[Operation]) -> None:
        before = {place: self.partition(*place) for place in PLACES}
        self.cluster.commit(part)
        for place in PLACES:
            self.check(place, before[place], self.partition(*place))

    def check(self, place: tuple[str, int], old: PartitionImage, new: PartitionImage) -> None:
        image = self.cluster.image
        assert set(new.isr) <= set(new.replicas)
        assert set(new.elr) <= set(new.replicas) - set(new.isr)
        assert len(set(new.replicas)) == len(new.replicas)
        assert {*new.adding, *new.removing} <= set(new.replicas)
        assert (new.leader in new.isr) or (new.leader == NO_LEADER and not new.isr)
        assert new.partition_epoch == old.partition_epoch + (new != old)
        assert old.leader_epoch <= new.leader_epoch <= old.leader_epoch + 1
        if new.leader != old.leader or not set(old.replicas) <= set(new.replicas):
            assert new.leader_epoch == old.leader_epoch + 1
        for joined in set(new.isr) - set(old.isr):
            assert image.brokers[joined].is_active
        if len(new.isr) >= self.needed(place[0], new):
            assert not new.elr
        self.check_data(place, old, new)

    def check_data(self, place: tuple[str, int], old: PartitionImage, new: PartitionImage) -> None:
        holders = self.holders[place]
        holders.intersection_update(new.replicas)
        active = {broker.id for broker in self.cluster.image.brokers.values() if broker.is_active}
        if new.leader not in active:
            # Nobody leads, or one that has not heard yet that it does not.
            return
        if new.recovering and new.leader not in holders:
            assert (
                TOPICS[place[0]][1]
                or self.asked is ElectionKind.UNCLEAN
                or (new.leader in (old.leader, old.last_known_leader) and not holders)
            ), (holders, old, new)
            holders.clear()
            holders.add(new.leader)
        assert new.leader in holders, (old, new)
        emptied = self.emptied[place]
        assert new.leader not in emptied or TOPICS[place[0]][1] or self.asked is ElectionKind.UNCLEAN, (old, new)
        emptied.difference_update(active.intersection(new.isr))
        # Whoever is in sync has caught up with the leader.
        holders.update(active.intersection(new.isr))
        if active.issuperset(new.isr) and len(new.isr) >= self.needed(place[0], new):
            holders.intersection_update(new.isr)

    def duties(self, parts: int | None = None) -> bool:
        image = self.cluster.image
        caught_up = {broker.id: broker.epoch for broker in image.brokers.values()}
        settings_ = DutySettings(self.cluster.config, balance_at_ms=0)
        return self.decide(duties(image, self.alive, Evidence(caught_up), 1, settings_), parts)

    def settle(self) -> None:
        """A controller that is alive does all it has to."""
        self.alive.add(1) if not self.alive else None
        controller = min(self.alive)
        if self.cluster.image.controller is None or self.cluster.image.controller.id != controller:
            self.cluster.decide(lambda image: claim(image, controller))
        for _ in range(ROUNDS):
            if not self.duties():
                break
        else:
            raise AssertionError("the duties do not end")
        image = self.cluster.image
        for broker in image.brokers.values():
            assert broker.fenced == (broker.id not in self.alive)
        for name, index in PLACES:
            partition, (_, unclean) = self.partition(name, index), TOPICS[name]
            usable = {
                each for each in partition.replicas if image.brokers[each].is_active and self.serves(partition, each)
            }
            assert partition.leader == NO_LEADER or partition.leader in usable
            assert set(partition.isr) <= usable
            if partition.leader == NO_LEADER:
                assert not usable & set(partition.elr or (partition.last_known_leader,))
                assert not (unclean and usable)

    def serves(self, partition: PartitionImage, broker: int) -> bool:
        folder, registered = partition.directory_of(broker), self.cluster.image.brokers[broker]
        return folder is None or (folder in registered.directories and folder not in registered.offline_directories)


Step = Callable[[World], None]
brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(sorted(TOPICS))
places = st.sampled_from(PLACES)
orders = st.permutations(BROKERS).flatmap(lambda order: st.integers(1, 4).map(lambda count: tuple(order[:count])))


STARTS = ("clean", "killed", "unclean", "wiped", "other disk 0", "other disk 1", "without disk 1")


def starts(broker: int, how: str, tells: bool = True) -> Step:
    """One that `tells` says what it has kept before it is taken in."""

    def step(world: World) -> None:
        present = world.cluster.image.brokers[broker]
        if how in ("unclean", "wiped"):
            world.boots[broker] += 1
            for holders in world.holders.values():
                holders.discard(broker)
        for slot in PARTITIONS:
            if how in ("wiped", f"other disk {slot}"):
                world.replace_disk(broker, slot)
        missing = 1 if how == "without disk 1" else None
        world.cluster.register(
            broker,
            fenced=True,
            boot_id=f"boot{world.boots[broker] or ''}",
            directories=world.directories(broker, missing),
            clean=how == "clean",
            previous_epoch=present.epoch if how == "clean" else -1,
        )
        if present.state is not None and tells:
            kept = set(present.state.entry.directories) & set(world.directories(broker, missing))
            world.tell_where(broker, kept)
        world.alive.add(broker)

    return step


def dies(broker: int) -> Step:
    return lambda world: world.alive.discard(broker)


def works(parts: int | None) -> Step:
    return lambda world: world.settle() if parts is None else void(world.duties(parts))


def void(_: object) -> None:
    return None


def alters(place: tuple[str, int], members: frozenset[int]) -> Step:
    def step(world: World) -> None:
        partition, image, (topic, index) = world.partition(*place), world.cluster.image, place
        leader = image.brokers.get(partition.leader)
        if leader is None or leader.id not in world.alive:
            return
        isr = tuple((each, image.brokers[each].epoch) for each in partition.replicas if each in {*members, leader.id})
        wanted = WantedIsr(
            image.topics[topic].id, index, partition.leader_epoch, partition.partition_epoch, isr, recovering=False
        )
        decision = at_once(alter_partitions(image, leader.id, leader.epoch, [wanted], world.cluster.config))
        if decision.operations:
            # The leader proposes those that have caught up with it.
            world.holders[place].update(each for each, _ in isr)
            world.emptied[place].difference_update(each for each, _ in isr)
            world.commit(decision.operations)

    return step


def reassigns(place: tuple[str, int], replicas: tuple[int, ...] | None) -> Step:
    def step(world: World) -> None:
        wanted = WantedReplicas(*place, replicas)
        world.decide(alter_reassignments(world.cluster.image, [wanted], world.cluster.config))

    return step


def leaves(broker: int) -> Step:
    def step(world: World) -> None:
        image = world.cluster.image
        world.decide(begin_shutdown(image, broker, image.brokers[broker].epoch, world.cluster.config))

    return step


def elects(kind: ElectionKind) -> Step:
    def step(world: World) -> None:
        world.asked = kind
        world.decide(elect_leaders(world.cluster.image, kind, None, world.cluster.config))
        world.asked = None

    return step


def needs(topic: str, minimum: int) -> Step:
    """Another number of replicas must be in sync from now on."""

    def step(world: World) -> None:
        change = SettingChange("min.insync.replicas", int(AlterOperation.SET), str(minimum))
        changes = ResourceChanges(ResourceType.TOPIC, topic, [change])
        world.decide(incremental_alter_configs(world.cluster.image, [changes], world.cluster.config))

    return step


def reports(broker: int) -> Step:
    """The broker, once it is taken in, says in which directory its replicas are: also those that it has made anew."""

    def step(world: World) -> None:
        present = world.cluster.image.brokers[broker]
        if not present.fenced:
            world.tell_where(broker, present.directories)

    return step


def folder_fails(broker: int) -> Step:
    def step(world: World) -> None:
        image = world.cluster.image
        present = image.brokers[broker]
        decision = directories_failed(image, broker, present.epoch, present.directories)
        if decision.operations:
            world.commit(decision.operations)

    return step


steps = st.one_of(
    st.builds(starts, brokers, st.sampled_from(STARTS), st.booleans()),
    st.builds(dies, brokers),
    st.builds(works, st.sampled_from((None, None, 1))),
    st.builds(alters, places, st.frozensets(brokers)),
    st.builds(reassigns, places, st.none() | orders),
    st.builds(leaves, brokers),
    st.builds(elects, st.sampled_from(ElectionKind)),
    st.builds(needs, topics, st.integers(1, 3)),
    st.builds(reports, brokers),
    st.builds(folder_fails, brokers),
)


#: Two go, and the one that is left loses its memory; the other partition has no other replica.
ONE_IS_LEFT: list[Step] = [
    *(step for broker in (2, 3, 4) for step in (dies(broker), works(None))),
    dies(1),
    works(None),
    starts(1, "unclean"),
]

#: The last one in sync comes back with another disk.
A_DISK_IS_REPLACED: list[Step] = [*ONE_IS_LEFT[:-1], starts(1, "other disk 0"), works(None), starts(2, "killed")]


@settings(max_examples=150, deadline=None)
@given(st.lists(orders, max_size=2), st.lists(steps, max_size=30))
@example([(1,), (1, 2, 3)], ONE_IS_LEFT)
@example([(1, 2, 3), (1,)], ONE_IS_LEFT)
@example([(1, 2, 3), (1,)], A_DISK_IS_REPLACED)
def test_no_history_breaks_a_partition(replicas: list[tuple[int, ...]], history: list[Step]) -> None:
    """`replicas`: of the first partitions of each topic."""
    world = World()
    for topic in TOPICS:
        for index, wanted in enumerate(replicas):
            reassigns((topic, index), wanted)(world)
            alters((topic, index), frozenset(wanted))(world)
    for step in history:
        step(world)
    world.settle()
    world.alive.update(BROKERS)
    world.settle()
