"""What must be true at any time, and what once all faults are over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.metadata.image import ClusterImage, PartitionImage
from moldau.replication.partition import Partition
from moldau.server.core import BrokerCore
from moldau.storage.log import PartitionLog
from moldau.wire.records import iter_batches, iter_records
from tests.simulation.clients import NOISE, TOPIC

if TYPE_CHECKING:
    from tests.simulation.world import World


class BrokenPromise(AssertionError):
    pass


class Promises:
    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[tuple[int, int], int] = {}
        self._marks: dict[tuple[str, int, int], int] = {}
        self._images: dict[int, ClusterImage] = {}
        self._tainted: set[int] = set()
        self._highest: dict[int, int] = {}

    # --- who is there ---

    def cores(self) -> Iterator[tuple[int, BrokerCore]]:
        for broker_id, machine in self._world.machines.items():
            if machine.core is not None:
                yield broker_id, machine.core

    def replicas(self, index: int) -> Iterator[tuple[int, Partition, PartitionLog]]:
        for broker_id, core in self.cores():
            partition = core.partitions.find(TOPIC, index)
            if partition is not None and partition.log is not None:
                yield broker_id, partition, partition.log

    def newest_image(self) -> ClusterImage | None:
        return max((core.images.image for _, core in self.cores()), key=lambda image: image.version, default=None)

    # --- at any time ---

    def check(self) -> None:
        if self._world.scheduler.problems:
            raise BrokenPromise(self._world.scheduler.problems[0])
        self._check_images()
        self._forgive()
        for index in range(self._world.partitions):
            for broker_id, partition, _ in self.replicas(index):
                if partition.leads:
                    self._check_leader(index, broker_id, partition)

    def _check_images(self) -> None:
        for broker_id, core in self.cores():
            image = core.images.image
            known = self._images.get(image.version)
            if known is None:
                self._images[image.version] = image
                self._check_members(image)
            elif known is not image and (known.topics != image.topics or known.brokers != image.brokers):
                raise BrokenPromise(f"broker {broker_id} has another image at revision {image.version}")

    def _check_members(self, image: ClusterImage) -> None:
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                if not set(state.isr) <= set(state.replicas):
                    raise BrokenPromise(f"{topic.name}-{index}: in sync {state.isr}, replicas {state.replicas}")
                if state.leader >= 0:
                    self._one_leader(topic.name, index, state.leader_epoch, state.leader)

    def _one_leader(self, topic: str, index: int, epoch: int, leader: int) -> None:
        known = self._leaders.setdefault((index, epoch), leader) if topic == TOPIC else leader
        if known != leader:
            raise BrokenPromise(f"{topic}-{index}: {known} and {leader} lead in epoch {epoch}")

    def _check_leader(self, index: int, broker_id: int, partition: Partition) -> None:
        self._one_leader(TOPIC, index, partition.leader_epoch, broker_id)
        mark, image = partition.high_watermark, self.newest_image()
        key = (self._life_of(broker_id), index, partition.leader_epoch)
        if mark < self._marks.get(key, 0):
            raise BrokenPromise(f"{TOPIC}-{index}: the mark of {broker_id} fell from {self._marks[key]} to {mark}")
        self._marks[key] = mark
        self._highest[index] = max(mark, self._highest.get(index, 0))
        if image is not None and TOPIC in image.topics:
            self._check_in_sync(index, image)

    def _check_in_sync(self, index: int, image: ClusterImage) -> None:
        """Whatever was below any leader's mark is in every member of the in-sync set, whoever leads now."""
        state, mark = self._newest_state(index, image), self._highest[index]
        for broker_id, replica, log in self.replicas(index):
            if broker_id in state.isr and self._is_registered(image, broker_id) and log.log_end_offset < mark:
                raise BrokenPromise(
                    f"{TOPIC}-{index}: {broker_id} is in sync {state.isr} and ends at {log.log_end_offset}, the top "
                    f"mark was {mark}; it knows leader {replica.leader} in {replica.leader_epoch}; {self.described()}"
                )

    def _newest_state(self, index: int, image: ClusterImage) -> PartitionImage:
        """A leader takes its term from an image that is being applied, before that is the broker's current one."""
        terms = [replica.leadership.term for _, replica, _ in self.replicas(index) if replica.leadership is not None]
        return max([image.topics[TOPIC].partitions[index], *terms], key=lambda state: state.partition_epoch)

    def _life_of(self, broker_id: int) -> str:
        return f"{broker_id}#{len(self._world.machines[broker_id].lives)}"

    def _is_registered(self, image: ClusterImage, broker_id: int) -> bool:
        core = self._world.machines[broker_id].core
        broker = image.brokers.get(broker_id)
        return core is not None and broker is not None and broker.incarnation == core.membership.incarnation

    # --- what faults may do ---

    def may_lose_memory(self, broker_id: int) -> bool:
        if self._tainted or self._world.machines[broker_id].life is None:
            return False
        self._tainted.add(broker_id)
        return True

    def _forgive(self) -> None:
        """A broker that lost its memory counts again once it is in every in-sync set, in this life."""
        image = self.newest_image()
        if image is None or TOPIC not in image.topics:
            return
        partitions = image.topics[TOPIC].partitions
        for broker_id in sorted(self._tainted):
            if self._is_registered(image, broker_id) and all(broker_id in state.isr for state in partitions):
                self._tainted.discard(broker_id)

    # --- in the end ---

    def is_healed(self) -> bool:
        images = [core.images.image for _, core in self.cores()]
        if len(images) < len(self._world.machines):
            return False
        return all(
            TOPIC in image.topics
            and all(
                state.leader >= 0 and set(state.isr) == set(state.replicas) for state in image.topics[TOPIC].partitions
            )
            and all(broker.is_active for broker in image.brokers.values())
            for image in images
        )

    def is_quiet(self) -> bool:
        for index in range(self._world.partitions):
            found = list(self.replicas(index))
            ends = {(log.log_end_offset, partition.high_watermark) for _, partition, log in found}
            if len(found) < len(self._world.machines) or len(ends) != 1:
                return False
            end, mark = ends.pop()
            if mark != end or self._world.told.read.get(index) != end:
                return False
        return self.is_healed()

    def check_the_end(self) -> None:
        for index in range(self._world.partitions):
            contents = {broker_id: content(log) for broker_id, _, log in self.replicas(index)}
            first = next(iter(contents.values()))
            for broker_id, data in contents.items():
                if data != first:
                    raise BrokenPromise(f"{TOPIC}-{index}: the logs differ: {sizes(contents)}, first at {broker_id}")
            self._check_values(index, first)
            for broker_id, partition, _ in self.replicas(index):
                if partition.produce_waits:
                    raise BrokenPromise(f"{TOPIC}-{index}: somebody waits for ever at {broker_id}")

    def _check_values(self, index: int, data: bytes) -> None:
        told = self._world.told
        found = [(record.offset, record.value or b"") for batch in iter_batches(data) for record in iter_records(batch)]
        values = [value for _, value in found if not value.startswith(NOISE)]
        if values != told.sent[index]:
            raise BrokenPromise(
                f"{TOPIC}-{index}: sent were {told.sent[index][-5:]} at the end, kept {values[-5:]}, "
                f"{len(told.sent[index])} and {len(values)}; {first_difference(told.sent[index], values)}"
            )
        at = dict(found)
        for (partition, offset), value in told.offsets.items():
            if partition == index and at.get(offset) != value:
                raise BrokenPromise(f"{TOPIC}-{index}: {value!r} was told at {offset}, where {at.get(offset)!r} is")

    def described(self) -> str:
        image = self.newest_image()
        if image is None:
            return "no broker serves"
        fenced = [broker.id for broker in image.brokers.values() if not broker.is_active]
        partitions = image.topics[TOPIC].partitions if TOPIC in image.topics else ()
        states = [(state.leader, state.leader_epoch, state.isr, state.elr) for state in partitions]
        logs = [
            (index, broker_id, partition.leader_epoch, partition.high_watermark, log.log_end_offset)
            for index in range(len(partitions))
            for broker_id, partition, log in self.replicas(index)
        ]
        up = [broker_id for broker_id, _ in self.cores()]
        return (
            f"revision {image.version}, controller {image.controller}, up {up}, fenced {fenced}, partitions {states}, "
            f"logs (partition, broker, epoch, mark, end) {logs}, read {self._world.told.read}"
        )


def content(log: PartitionLog) -> bytes:
    pieces, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, log.log_end_offset)
        data = log._files.pread(part.file.fileno, part.length, part.position)
        pieces.append(data)
        for batch in iter_batches(data):
            offset = batch.header.next_offset
    return b"".join(pieces)


def sizes(contents: dict[int, bytes]) -> dict[int, int]:
    return {broker_id: len(data) for broker_id, data in contents.items()}


def first_difference(one: list[bytes], other: list[bytes]) -> str:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"record {number} is {right!r} instead of {left!r}"
    return "one is longer"
