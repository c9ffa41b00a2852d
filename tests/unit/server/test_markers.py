"""Transaction markers: written by the partition's leader, counted when committed, and told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.machine import ProducerStamp
from moldau.coordinators.transactions.machine import Markers
from moldau.replication.partition import Partition
from moldau.server.appends import AppendQueue
from moldau.server.connection import AnswerGate
from moldau.server.coordination.markers import MarkerWriter, by_topic
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.support.logs import NOW, TOPIC_PARTITION, append, open_log
from tests.support.terms import term

PRODUCER = ProducerStamp(7, 0)
GONE = TopicPartition("gone", 0)


class World:
    """A partition with an open transaction of `PRODUCER`."""

    def __init__(self, folder: Path, in_sync: tuple[int, ...] = (1,)) -> None:
        self.partition = Partition(TOPIC_PARTITION, UUID(int=1), 1)
        self.partition.log = self.log = open_log(str(folder))
        self.partition.lead(term(1, isr=in_sync))
        append(self.log, b"value", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
        self.partition.advance(self.log.log_end_offset)
        self.ended: list[tuple[TopicPartition, ProducerStamp, bool]] = []
        loop = asyncio.get_running_loop()
        blocking = cast(Any, lambda work: loop.run_in_executor(None, work))
        appends = AppendQueue(loop.call_soon, blocking, self._failed, lambda _: None, AnswerGate())
        self.writer = MarkerWriter(cast(Any, self), appends, lambda: NOW, self._told)

    def get(self, topic: str, index: int) -> Partition:
        if TopicPartition(topic, index) != TOPIC_PARTITION:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partition

    def _told(self, partition: TopicPartition, producer: ProducerStamp, committed: bool) -> None:
        self.ended.append((partition, producer, committed))

    def _failed(self, _log: Any, error: Exception) -> None:
        raise error

    def move_away(self) -> None:
        """Other brokers have the partition now."""
        self.partition.follow(term(2, replicas=(2, 3), isr=(2, 3)))
        self.partition.log = None

    async def write(
        self, commit: bool = True, epoch: int = 0, version: int = 1, where: TopicPartition = TOPIC_PARTITION
    ) -> ErrorCode:
        markers = Markers("x", PRODUCER.producer_id, epoch, 0, commit, frozenset([where]), version)
        return await self.writer.write(markers, where)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_the_transaction_and_is_told_with_its_outcome(tmp_path: Path, commit: bool) -> None:
    async def main() -> None:
        one = World(tmp_path)
        assert one.log.last_stable_offset(one.partition.high_watermark) == 0
        assert await one.write(commit) is ErrorCode.NONE
        assert one.log.last_stable_offset(one.partition.high_watermark) == 2
        aborted = [(each.producer_id, each.first_offset) for each in one.log.aborted_transactions(0, 2)]
        assert aborted == ([] if commit else [(PRODUCER.producer_id, 0)])
        assert one.ended == [(TOPIC_PARTITION, PRODUCER, commit)]

    run(main)


def test_a_marker_counts_when_it_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        one = World(tmp_path, in_sync=(1, 2))
        writing = asyncio.ensure_future(one.write())
        for _ in range(3):
            await asyncio.sleep(0)
        assert one.log.log_end_offset == 2
        assert not writing.done()
        assert one.ended == []
        one.partition.lead(term(1, isr=(1,), partition_epoch=1))
        assert await writing is ErrorCode.NONE
        assert len(one.ended) == 1

    run(main)


def test_a_marker_whose_leader_is_deposed_is_not_told_as_written(tmp_path: Path) -> None:
    async def main() -> None:
        one = World(tmp_path, in_sync=(1, 2))
        writing = asyncio.ensure_future(one.write())
        for _ in range(3):
            await asyncio.sleep(0)
        one.partition.follow(term(2, epoch=1))
        assert await writing is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert one.ended == []
        assert await one.write() is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(main)


def test_partitions_that_are_not_here_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        one = World(tmp_path)
        assert await one.write(where=GONE) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        one.move_away()
        assert await one.write() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert one.ended == []

    run(main)


def test_where_transactions_have_epochs_of_their_own_a_late_marker_of_an_older_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        one = World(tmp_path)
        assert await one.write(epoch=0, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert one.log.last_stable_offset(one.partition.high_watermark) == 0
        assert await one.write(epoch=1, version=2) is ErrorCode.NONE
        assert await one.write(epoch=1, version=2) is ErrorCode.NONE  # repeated: it ends nothing

    run(main)


def test_markers_are_sent_by_topic() -> None:
    parts = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("b", 0)]
    assert by_topic(parts) == {"a": [2], "b": [0, 1]}
