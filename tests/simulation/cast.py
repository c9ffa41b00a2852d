"""Who plays which part in a course of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.coordinators.sharding import partition_for
from moldau.types.internal_topics import TRANSACTIONS_TOPIC
from tests.simulation.calls import TOPIC
from tests.simulation.transactions import COPY, OWNER

if TYPE_CHECKING:
    from moldau.metadata.image import PartitionImage
    from tests.simulation.world import World


class Cast:
    def __init__(self, world: World) -> None:
        self._world = world
        self.partition = 0
        self._parts: dict[str, int] = {}
        self._led_before = 0

    def find(self, who: int | str) -> int:
        """The broker id of a part; parts are given out when the first is asked for."""
        if isinstance(who, int):
            return who
        if not self._parts:
            self._give_out()
        state = self._state()
        leader = self._parts["first"] if state is None or state.leader < 0 else state.leader
        if who == "leader":
            return leader
        if who == "not leader":
            self._led_before = leader
            return next(each for each in self._world.machines if each not in (leader, self._parts["first"]))
        if who == "coordinator":
            return self._coordinator()
        if who == "copy leader":
            return self._copy_leader()
        if who == "led before":
            return self._led_before or leader
        return self._parts[who]

    def _state(self) -> PartitionImage | None:
        image = self._world.promises.newest_image()
        if image is None or TOPIC not in image.topics:
            return None
        return image.topics[TOPIC].partitions[self.partition]

    def _coordinator(self) -> int:
        """Of the transactions that there are."""
        image = self._world.promises.newest_image()
        topic = None if image is None else image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return self._parts["first"]
        leader = topic.partitions[partition_for(OWNER, len(topic.partitions))].leader
        return leader if leader >= 0 else self._parts["first"]

    def _copy_leader(self) -> int:
        """Of what transactions are written to; not their coordinator, if possible, who needs no network there."""
        image, coordinator = self._world.promises.newest_image(), self._coordinator()
        topic = None if image is None else image.topics.get(COPY)
        leaders = [] if topic is None else [state.leader for state in topic.partitions]
        others = [each for each in self._world.machines if each != coordinator]
        return next((leader for leader in leaders if leader in others), others[0])

    def _give_out(self) -> None:
        image = self._world.promises.newest_image()
        controller = 0 if image is None or image.controller is None else image.controller.id
        others = list(self._world.machines)
        if image is not None and TOPIC in image.topics:
            partitions = image.topics[TOPIC].partitions
            self.partition = max(range(len(partitions)), key=lambda index: fitness(partitions[index], controller))
            state = partitions[self.partition]
            first = state.leader if state.leader >= 0 else state.replicas[0]
            others.remove(first)
            others.sort(key=lambda each: (each not in state.replicas, each == controller))
        else:
            first = others.pop(0)
        self._parts = {"first": first, "second": others[0], "third": others[1]}


def fitness(state: PartitionImage, controller: int) -> tuple[bool, bool]:
    return state.leader != controller, controller not in state.replicas
