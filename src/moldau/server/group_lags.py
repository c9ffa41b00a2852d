"""How far consumer groups are behind, under the names of kafka_exporter; told by the coordinator of each group.

A lag is the partition's high watermark less the offset that is committed. Where this broker leads the partition it
knows the mark; for the others it asks their leaders once for each look at the metrics. Where a leader gives no answer
in time the offset is told without a lag: that is no lag of 0. An offset that was committed for another topic of the
same name is passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.groups.offset_codec import read_value
from moldau.coordinators.runtime import CoordinatorRuntime
from moldau.metadata.image import NO_LEADER, ClusterImage
from moldau.metrics import MetricName, Sample
from moldau.server.partition_table import PartitionTable
from moldau.server.peers.peer import PeerLostError, Peers
from moldau.types.ids import TopicPartition
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

CONSUMER, LATEST = -1, -1
ASK_SECONDS = 3.0
KAFKA, GROUP = "kafka", "consumergroup"


class GroupLags:
    def __init__(
        self,
        broker_id: int,
        image: Callable[[], ClusterImage],
        partitions: PartitionTable,
        groups: CoordinatorRuntime[GroupMachine],
        peers: Peers,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._groups = groups
        self._peers = peers
        self._marks: Mapping[TopicPartition, int] = {}
        self.is_wanted = True

    async def refresh(self) -> None:
        """Asks the other leaders for the marks of what groups here have committed."""
        if not self.is_wanted:
            return
        asked = await run(self._elsewhere())
        answers = await asyncio.gather(*(self._ask(leader, wanted) for leader, wanted in asked.items()))
        self._marks = {place: mark for answer in answers for place, mark in answer.items()}

    def _machines(self) -> list[GroupMachine]:
        return [shard.machine for shard in self._groups.shards()]

    def _elsewhere(self) -> Work[dict[int, set[TopicPartition]]]:
        image, found, paused = self._image(), dict[int, set[TopicPartition]](), pauses()
        for machine in self._machines():
            for topics in tuple(machine.tables.offsets.committed.values()):
                for topic, offsets in tuple(topics.items()):
                    for index in tuple(offsets):
                        state = image.partition(topic, index)
                        if state is not None and state.leader not in (NO_LEADER, self._broker_id):
                            found.setdefault(state.leader, set()).add(TopicPartition(topic, index))
                        if next(paused):
                            yield
        return found

    async def _ask(self, leader: int, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in wanted:
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in topics.items()],
        )
        try:
            answer = await self._peers.get(leader).call(request, ListOffsetsResponse, timeout_seconds=ASK_SECONDS)
        except PeerLostError:
            return {}
        return {
            TopicPartition(topic.name, found.partition_index): found.offset
            for topic in answer.topics
            for found in topic.partitions
            if not found.error_code
        }

    def samples(self) -> Iterator[Sample]:
        for machine in self._machines():
            for group_id, group in tuple(machine.tables.groups.items()):
                yield MetricName(KAFKA, GROUP, "members", (("consumergroup", group_id),)), group.member_count
            for group_id, topics in tuple(machine.tables.offsets.committed.items()):
                for topic in tuple(topics):
                    yield from self._of_topic(machine, group_id, topic)

    def _of_topic(self, machine: GroupMachine, group_id: str, topic: str) -> Iterator[Sample]:
        present = self._image().topics.get(topic)
        if present is None:
            return
        total = total_lag = 0
        is_whole = True
        for index, value in tuple(machine.tables.offsets.committed.get(group_id, {}).get(topic, {}).items()):
            committed = read_value(value)
            if committed.is_of_another_topic(present.id):
                continue
            tags = (("consumergroup", group_id), ("topic", topic), ("partition", str(index)))
            total += committed.offset
            yield MetricName(KAFKA, GROUP, "current_offset", tags), committed.offset
            mark = self._mark(topic, index)
            if mark is None:
                is_whole = False
                continue
            lag = max(0, mark - committed.offset)
            total_lag += lag
            yield MetricName(KAFKA, GROUP, "lag", tags), lag
        of_all = (("consumergroup", group_id), ("topic", topic))
        yield MetricName(KAFKA, GROUP, "current_offset_sum", of_all), total
        if is_whole:
            yield MetricName(KAFKA, GROUP, "lag_sum", of_all), total_lag

    def _mark(self, topic: str, index: int) -> int | None:
        partition = self._partitions.find(topic, index)
        if partition is not None and partition.leads and partition.log is not None:
            return partition.high_watermark
        return self._marks.get(TopicPartition(topic, index))
