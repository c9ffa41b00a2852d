"""The partition table follows the image: logs come and go with this broker's place among the replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from moldau.config.topic import TopicConfig
from moldau.metadata import codec, paths
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import apply
from moldau.metadata.store import Change, Changes, Versioned
from moldau.replication.partition import Partition
from moldau.server.partition_table import PartitionTable
from moldau.storage.log import PartitionLog
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.work.turns import run
from tests.support.logs import append
from tests.support.managers import Managed

HERE, OTHER = 1, 2
TOPIC_ID = UUID(int=500)
T0 = TopicPartition("t", 0)


class Following:
    """A table over real logs, given one image after the other."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.managed = Managed([folder], broker={name.replace("_", "."): value for name, value in settings.items()})
        self.image = EMPTY_IMAGE
        self.table = PartitionTable(
            HERE, self.managed.logs, lambda topic: TopicConfig.resolve(topic.configs, self.managed.config)
        )

    async def take(self, *partitions: tuple[Sequence[int], int, int], topic_id: UUID = TOPIC_ID) -> ClusterImage:
        """Each partition: replicas, leader, leader epoch."""
        revision = self.image.version + 1
        entries = [(paths.topic("t"), codec.encode_topic(topic_id, len(partitions)))]
        for index, (replicas, leader, epoch) in enumerate(partitions):
            entries.append((paths.partition("t", index), codec.encode_partition(replicas, replicas, leader, epoch)))
        changes = tuple(Change(path, Versioned(value, revision, revision, revision)) for path, value in entries)
        old = self.image
        self.image, delta = apply(old, Changes(revision, changes))
        preparing = self.table.preparing(old, self.image, delta)
        if preparing is not None:
            await preparing
        self.prepared = preparing is not None
        await run(self.table.apply(old, self.image, delta))
        return self.image


def following(folder: Path, scenario: Callable[[Following], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        following = Following(folder, **settings)
        await following.managed.start()
        await scenario(following)
        await following.managed.logs.close()

    asyncio.run(main())


def test_a_log_is_made_only_where_this_broker_is_a_replica(tmp_path: Path) -> None:
    async def scenario(state: Following) -> None:
        await state.take(([HERE], HERE, 0), ([OTHER], OTHER, 0))
        assert state.table.get("t", 0).log is state.managed.logs.table.get(T0)
        assert state.table.get("t", 1).log is None
        with pytest.raises(KafkaError) as refused:
            state.table.get("t", 1).leader_log()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    following(tmp_path, scenario)
    assert (tmp_path / "t-0").is_dir()
    assert not (tmp_path / "t-1").exists()


def test_a_known_partition_that_is_given_to_this_broker_gets_a_log_before_the_image_is_applied(tmp_path: Path) -> None:
    async def scenario(state: Following) -> None:
        await state.take(([OTHER], OTHER, 0))
        assert not state.prepared
        await state.take(([OTHER, HERE], OTHER, 0))
        assert state.prepared
        partition = state.table.get("t", 0)
        assert partition.log is not None
        assert not partition.leads
        await state.take(([OTHER, HERE], HERE, 1))
        assert not state.prepared, "nothing joins: an election prepares nothing"
        assert partition.leads
        assert partition.leader_log() is partition.log

    following(tmp_path, scenario)


def test_a_partition_that_is_taken_from_this_broker_loses_its_log_and_refuses_at_once(tmp_path: Path) -> None:
    async def scenario(state: Following) -> None:
        await state.take(([HERE, OTHER], HERE, 0))
        partition = state.table.get("t", 0)
        await state.take(([OTHER], OTHER, 1))
        assert partition.log is None
        assert state.managed.logs.table.get(T0) is None
        with pytest.raises(KafkaError) as refused:
            partition.leader_log()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await state.take(([OTHER, HERE], OTHER, 1))
        assert partition.log is not None
        assert partition.log.log_end_offset == 0, "what comes back begins anew"

    following(tmp_path, scenario)


def test_a_topic_created_anew_under_its_name_in_one_change_never_sees_the_old_data(tmp_path: Path) -> None:
    async def scenario(state: Following) -> None:
        await state.take(([HERE], HERE, 0))
        before = state.managed.logs.table.get(T0)
        await state.take(([HERE], HERE, 0), topic_id=UUID(int=501))
        after = state.table.get("t", 0)
        assert after.topic_id == UUID(int=501)
        assert after.log is not None
        assert after.log is not before

    following(tmp_path, scenario)


def test_what_a_new_leader_has_not_on_its_disk_as_the_topic_asks_is_told_also_to_who_comes_later(
    tmp_path: Path,
) -> None:
    async def scenario(state: Following) -> None:
        await state.take(([HERE, OTHER], OTHER, 0), ([HERE, OTHER], OTHER, 0))
        append(log_of(state, 0), b"0")
        append(log_of(state, 1), b"0")
        told: list[Partition] = []
        await state.take(([HERE, OTHER], HERE, 1), ([HERE, OTHER], OTHER, 0))
        state.table.bring_to_disk(told.append)
        assert told == [state.table.get("t", 0)]
        await state.take(([HERE, OTHER], HERE, 1), ([HERE, OTHER], HERE, 1))
        assert state.table.get("t", 1) in told

    following(tmp_path, scenario, log_flush_interval_messages="1")


def log_of(state: Following, index: int) -> PartitionLog:
    found = state.table.get("t", index).log
    assert found is not None
    return found
