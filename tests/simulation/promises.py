"""What must be true at any time; what must be true once all faults are over is in ending.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from moldau.metadata.image import BrokerImage, ClusterImage, PartitionImage
from moldau.metadata.zookeeper.store import LEASE_SHARE
from moldau.replication.partition import Partition
from moldau.server.core import BrokerCore
from moldau.storage.log import PartitionLog
from tests.simulation.ensemble import SESSION_SECONDS
from tests.simulation.fences import Fences
from tests.simulation.histories import Histories, Place, wrong_producers

if TYPE_CHECKING:
    from tests.simulation.world import World


LEASE_SECONDS = SESSION_SECONDS * LEASE_SHARE
SLACK_SECONDS = 0.05


class BrokenPromise(AssertionError):
    pass


class Term(NamedTuple):
    since: float
    epoch: int
    leader: int


class Promises:
    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[tuple[Place, int], int] = {}
        self._marks: dict[tuple[str, Place, int], int] = {}
        self._images: dict[int, ClusterImage] = {}
        self._newest: ClusterImage | None = None
        self._looked_at: dict[int, ClusterImage] = {}
        self._tainted: set[int] = set()
        #: Partitions that have one replica, or had one a moment ago, and who holds all of them.
        self._sole: dict[Place, int] = {}
        #: Topics of which an administrator has said that any replica may lead, whatever it lacks.
        self.elected_uncleanly: set[str] = set()
        self._highest: dict[Place, int] = {}
        self._terms: dict[Place, list[Term]] = {}
        self._epochs: dict[Place, tuple[int, tuple[int, int]]] = {}
        self._histories = Histories()
        self.fences = Fences(world)

    # --- who is there ---

    def cores(self) -> Iterator[tuple[int, BrokerCore]]:
        for broker_id, machine in self._world.machines.items():
            core = machine.core
            if core is not None:
                yield broker_id, core

    def replicas(self, topic: str, index: int) -> Iterator[tuple[int, Partition, PartitionLog]]:
        for broker_id, core in self.cores():
            partition = core.partitions.find(topic, index)
            if partition is not None and partition.log is not None:
                yield broker_id, partition, partition.log

    def newest_image(self) -> ClusterImage | None:
        """That anybody has had: who had it may be gone."""
        newest = self._newest
        for _, core in self.cores():
            image = core.images.image
            if newest is None or image.version > newest.version:
                newest = image
        self._newest = newest
        return newest

    # --- at any time ---

    def check(self) -> None:
        if self._world.scheduler.problems:
            raise BrokenPromise(self._world.scheduler.problems[0])
        cores, image = list(self.cores()), self.newest_image()
        if image is None:
            return
        self._check_images(cores)
        self._forgive(image)
        self._check_leases(image)
        for broker_id, core in cores:
            for partition in core.partitions:
                if partition.log is not None:
                    self._check_replica(broker_id, core, partition, partition.log, image)

    def _check_replica(
        self, broker_id: int, core: BrokerCore, partition: Partition, log: PartitionLog, image: ClusterImage
    ) -> None:
        place = (partition.topic_id, partition.topic_partition.partition)
        if partition.leads:
            self._check_leader(place, broker_id, partition, log)
        if log.log_end_offset < self._highest.get(place, 0):
            self._check_in_sync(place, broker_id, core, partition, image)
        wrong = self._histories.look(place, log)
        if wrong is not None:
            raise BrokenPromise(f"{partition.topic_partition} at {broker_id}: {wrong}; {self.described()}")

    # --- leaders ---

    def _check_leader(self, place: Place, broker_id: int, partition: Partition, log: PartitionLog) -> None:
        self._one_leader(place, partition.leader_epoch, broker_id)
        if self._begins(place, partition.leader_epoch, broker_id):
            wrong = wrong_producers(log)
            if wrong is not None:
                raise BrokenPromise(f"{partition.topic_partition} at {broker_id}, which leads from now on: {wrong}")
        mark = partition.high_watermark
        key = (self._life_of(broker_id), place, partition.leader_epoch)
        before = self._marks.get(key, 0)
        if mark < before:
            raise BrokenPromise(f"{partition.topic_partition}: the mark of {broker_id} fell from {before} to {mark}")
        self._marks[key] = mark
        self._highest[place] = max(mark, self._highest.get(place, 0))

    def _one_leader(self, place: Place, epoch: int, leader: int) -> None:
        known = self._leaders.setdefault((place, epoch), leader)
        if known != leader:
            raise BrokenPromise(f"{place}: {known} and {leader} lead in epoch {epoch}")

    def _check_in_sync(
        self, place: Place, broker_id: int, core: BrokerCore, partition: Partition, image: ClusterImage
    ) -> None:
        """Whatever was below any leader's mark is in every member of the in-sync set, whoever leads now, and in who is
        eligible: unless that is somebody who has just come back, of whom the controller has not yet said what he kept,
        or waits for its disk.
        """
        topic, index = partition.topic_partition
        state = self._newest_state(topic, index, image)
        if state is None or not is_registered(image, broker_id, core):
            return
        is_eligible = broker_id in state.elr and is_fit(image.brokers[broker_id], state)
        if broker_id not in state.isr and not is_eligible:
            return
        if self._may_lose(topic, image):
            return
        assert partition.log is not None
        raise BrokenPromise(
            f"{topic}-{index}: {broker_id} is in sync {state.isr} or eligible {state.elr}, and ends at "
            f"{partition.log.log_end_offset}, the top "
            f"mark was {self._highest[place]}; it knows leader {partition.leader} in {partition.leader_epoch}; "
            f"{self.described()}"
        )

    def _may_lose(self, topic: str, image: ClusterImage) -> bool:
        is_asked_for = topic in self.elected_uncleanly
        return is_asked_for or image.topics[topic].configs.get("unclean.leader.election.enable") == "true"

    def _newest_state(self, topic: str, index: int, image: ClusterImage) -> PartitionImage | None:
        """A leader takes its term from an image that is being applied, before that is the broker's current one."""
        if topic not in image.topics or index >= len(image.topics[topic].partitions):
            return None
        terms = [
            replica.leadership.term
            for _, replica, _ in self.replicas(topic, index)
            if replica.leadership is not None and replica.topic_id == image.topics[topic].id
        ]
        return max([image.topics[topic].partitions[index], *terms], key=lambda state: state.partition_epoch)

    def _life_of(self, broker_id: int) -> str:
        return f"{broker_id}#{len(self._world.machines[broker_id].lives)}"

    # --- leases ---

    def _begins(self, place: Place, epoch: int, broker_id: int) -> bool:
        """A term begins when its leader takes it up: until then nobody but the one before can have answered."""
        terms = self._terms.setdefault(place, [])
        if terms and epoch <= terms[-1].epoch:
            return False
        terms.append(Term(self._world.scheduler.now, epoch, broker_id))
        return True

    def _check_leases(self, image: ClusterImage) -> None:
        """Who was deposed longer ago than a lease lasts answers nothing that only a leader may."""
        answered, self._world.told.answered = self._world.told.answered, []
        for each in answered:
            place = (image.topics[each.topic].id, each.partition)
            terms = self._terms.get(place, [])
            ends = [after.since for term, after in pairwise(terms) if term.leader == each.broker_id]
            is_last = bool(terms) and terms[-1].leader == each.broker_id
            if ends and not is_last and max(ends) < each.asked_at - LEASE_SECONDS - SLACK_SECONDS:
                raise BrokenPromise(
                    f"{each.topic}-{each.partition}: {each.broker_id} {each.what}, asked at {each.asked_at:.3f}, but "
                    f"led until {max(ends):.3f}; {self.described()}"
                )
            if not ends and not is_last and not self._was_elected(place, each.broker_id):
                raise BrokenPromise(f"{each.topic}-{each.partition}: {each.broker_id} {each.what}, and never led")

    def _was_elected(self, place: Place, broker_id: int) -> bool:
        """Perhaps for so short a time that nobody has looked."""
        return any(leader == broker_id and at == place for (at, _), leader in self._leaders.items())

    def may_be_stale(self, topic: str, index: int, broker_id: int, asked_at: float) -> bool:
        """Whether it may answer beside a newer leader: it does not lead, or not for long."""
        image = self.newest_image()
        terms = None if image is None else self._terms.get((image.topics[topic].id, index))
        return not terms or terms[-1].leader != broker_id or terms[-1].since > asked_at

    # --- images ---

    def _check_images(self, cores: list[tuple[int, BrokerCore]]) -> None:
        for broker_id, core in cores:
            image = core.images.image
            if self._looked_at.get(broker_id) is image:
                continue
            self._looked_at[broker_id] = image
            known = self._images.get(image.version)
            if known is None:
                self._images[image.version] = image
                self._check_members(image)
                wrong = self.fences.look(image)
                if wrong is not None:
                    raise BrokenPromise(f"{wrong}; {self.described()}")
            elif known != image:
                raise BrokenPromise(f"broker {broker_id} has another image at revision {image.version}")

    def _check_members(self, image: ClusterImage) -> None:
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                if not set(state.isr) <= set(state.replicas):
                    raise BrokenPromise(f"{topic.name}-{index}: in sync {state.isr}, replicas {state.replicas}")
                fenced = [each for each in state.isr if is_shut_out(image, each)]
                if fenced:
                    raise BrokenPromise(f"{topic.name}-{index}: {fenced} are fenced and in sync {state.isr}")
                if state.leader >= 0:
                    self._one_leader((topic.id, index), state.leader_epoch, state.leader)
                if state.leader >= 0 and state.leader not in state.isr:
                    raise BrokenPromise(f"{topic.name}-{index}: {state.leader} leads and is not in sync {state.isr}")
                if set(state.elr) & set(state.isr):
                    raise BrokenPromise(f"{topic.name}-{index}: in sync {state.isr}, eligible {state.elr}")
                self._check_epochs((topic.id, index), image.version, state)
                self._note_sole_holder((topic.id, index), state)

    def _note_sole_holder(self, place: Place, state: PartitionImage) -> None:
        staying = [each for each in state.replicas if each not in state.adding]
        if len(staying) == 1:
            self._sole[place] = staying[0]
        elif len(state.isr) > 1:
            self._sole.pop(place, None)

    def _check_epochs(self, place: Place, version: int, state: PartitionImage) -> None:
        """They never fall, and a change raises them."""
        epochs = (state.leader_epoch, state.partition_epoch)
        seen_at, seen = self._epochs.get(place, (version, epochs))
        later, earlier = (epochs, seen) if version >= seen_at else (seen, epochs)
        if not (later[0] >= earlier[0] and later[1] >= earlier[1]):
            raise BrokenPromise(f"{place}: epochs {seen} at revision {seen_at}, {epochs} at revision {version}")
        if version >= seen_at:
            self._epochs[place] = (version, epochs)

    # --- what faults may do ---

    def may_lose_memory(self, broker_id: int) -> bool:
        """Not while another one has lost its own, nor where nobody else was asked to keep what it holds."""
        if self._tainted or self._world.machines[broker_id].life is None or broker_id in self._sole.values():
            return False
        self._tainted.add(broker_id)
        return True

    def _forgive(self, image: ClusterImage) -> None:
        """A broker that lost its memory counts again once it is in every in-sync set, in this life."""
        for broker_id in sorted(self._tainted):
            core = self._world.machines[broker_id].core
            if core is None or not is_registered(image, broker_id, core):
                continue
            states = [state for topic in image.topics.values() for state in topic.partitions]
            if states and all(broker_id in state.isr for state in states if broker_id in state.replicas):
                self._tainted.discard(broker_id)

    def described(self) -> str:
        image = self.newest_image()
        if image is None:
            return "no broker serves"
        fenced = [broker.id for broker in image.brokers.values() if not broker.is_active]
        states = {
            f"{topic.name}-{index}": (state.leader, state.leader_epoch, state.isr, state.elr)
            for topic in image.topics.values()
            for index, state in enumerate(topic.partitions)
        }
        logs = [
            (
                str(partition.topic_partition),
                broker_id,
                partition.leader_epoch,
                partition.high_watermark,
                partition.log.log_end_offset,
            )
            for broker_id, core in self.cores()
            for partition in core.partitions
            if partition.log is not None
        ]
        up = [broker_id for broker_id, _ in self.cores()]
        return (
            f"revision {image.version}, controller {image.controller}, up {up}, fenced {fenced}, partitions {states}, "
            f"logs (partition, broker, epoch, mark, end) {logs}, read {self._world.told.read}"
        )


def is_registered(image: ClusterImage, broker_id: int, core: BrokerCore) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.incarnation == core.membership.incarnation


def is_fit(broker: BrokerImage, state: PartitionImage) -> bool:
    """Whether it takes part, with the log directory that its replica is said to be in."""
    directory = state.directory_of(broker.id)
    serving = set(broker.directories) - set(broker.offline_directories)
    return broker.is_active and (directory is None or directory in serving)


def is_shut_out(image: ClusterImage, broker_id: int) -> bool:
    """By the controller: one that has just registered anew is fenced until the controller has looked at it, and takes
    what it was before out of the in-sync sets only then."""
    broker, state = image.brokers[broker_id], image.broker_states.get(broker_id)
    return state is not None and state.entry.epoch == broker.epoch and state.entry.fenced
