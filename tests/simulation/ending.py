"""What must be true once all faults are over and everything was given time to settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.wire.records import iter_batches, iter_records
from tests.simulation.calls import TOPIC
from tests.simulation.clients import NOISE
from tests.simulation.histories import content, wrong_order, wrong_producers
from tests.simulation.promises import BrokenPromise, Promises
from tests.simulation.transactions import COPY, broken_atomicity

if TYPE_CHECKING:
    from moldau.metadata.image import ClusterImage
    from tests.simulation.world import World


class Ending:
    def __init__(self, world: World, promises: Promises) -> None:
        self._world, self._promises = world, promises

    def is_healed(self) -> bool:
        """Leaders, full in-sync sets, nobody fenced, nothing on its way: in everybody's eyes."""
        images = [core.images.image for _, core in self._promises.cores()]
        return len(images) == len(self._world.machines) and all(is_whole(image) for image in images)

    def is_quiet(self) -> bool:
        """Everything is everywhere, and read."""
        if not self.is_healed():
            return False
        image = self._promises.newest_image()
        assert image is not None
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                found = list(self._promises.replicas(topic.name, index))
                ends = {(log.log_end_offset, partition.high_watermark) for _, partition, log in found}
                if {broker_id for broker_id, _, _ in found} != set(state.replicas) or len(ends) != 1:
                    return False
                end, mark = ends.pop()
                if mark != end or not self._is_read(topic.name, index, end):
                    return False
        return True

    def _is_read(self, topic: str, index: int, end: int) -> bool:
        if topic == TOPIC:
            told = self._world.told
            return all(position.get(index, end) == end for position in (told.read, told.read_anywhere))
        return topic != COPY or self._world.copied.positions.get(index) == end

    # --- judging ---

    def check(self) -> None:
        image = self._promises.newest_image()
        assert image is not None
        for topic in image.topics.values():
            for index in range(len(topic.partitions)):
                self._check_logs(topic.name, index)
        for index in self._world.told.sent:
            _, _, log = next(self._promises.replicas(TOPIC, index))
            self._check_values(index, content(log, log.log_start_offset))
        if self._world.copier is not None:
            broken = broken_atomicity(self._world.copied, self._world.copied_offset)
            if broken is not None:
                raise BrokenPromise(broken)
        self._check_nobody_waits()

    def _check_logs(self, topic: str, index: int) -> None:
        replicas = list(self._promises.replicas(topic, index))
        # A leader that is deposed before anybody has heard that records are deleted keeps its later beginning.
        start = max(log.log_start_offset for _, _, log in replicas)
        contents = {}
        for broker_id, _, log in replicas:
            contents[broker_id] = content(log, start)
            wrong = wrong_producers(log) or wrong_order(log)
            if wrong is not None:
                raise BrokenPromise(f"{topic}-{index} at {broker_id}: {wrong}")
        first = next(iter(contents.values()))
        for broker_id, data in contents.items():
            if data != first:
                sizes = {broker_id: len(data) for broker_id, data in contents.items()}
                raise BrokenPromise(f"{topic}-{index}: the logs differ: {sizes}, first at {broker_id}")

    def _check_nobody_waits(self) -> None:
        for broker_id, core in self._promises.cores():
            for partition in core.partitions:
                if partition.produce_waits or partition.start_waits or partition.staged:
                    raise BrokenPromise(f"{partition.topic_partition}: somebody waits for ever at {broker_id}")
                fetches = (*partition.end_waits, *partition.mark_waits, *partition.stable_waits)
                if any(fetch._done for fetch in fetches):  # type: ignore[attr-defined]
                    raise BrokenPromise(f"{partition.topic_partition}: a fetch is kept for ever at {broker_id}")
            for coordinator in core._coordinators:
                if coordinator.runtime.is_loading():
                    raise BrokenPromise(f"{coordinator.topic}: a shard is loading for ever at {broker_id}")
                for shard in coordinator.runtime.shards():
                    if shard.waiting:
                        raise BrokenPromise(f"{coordinator.topic}: an answer waits for ever at {broker_id}")

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


def is_whole(image: ClusterImage) -> bool:
    if TOPIC not in image.topics or not all(broker.is_active for broker in image.brokers.values()):
        return False
    return all(
        state.leader >= 0 and set(state.isr) == set(state.replicas) and not state.adding and not state.removing
        for topic in image.topics.values()
        for state in topic.partitions
    )


def first_difference(one: list[bytes], other: list[bytes]) -> str:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"record {number} is {right!r} instead of {left!r}"
    return "one is longer"
