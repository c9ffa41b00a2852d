"""Which partitions this broker follows, at which leader, by which fetcher: kept in step with the metadata image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from moldau.metadata.image import NO_LEADER, ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta
from moldau.replication.follower import Followed, Key
from moldau.replication.partition import Partition
from moldau.server.partition_table import PartitionTable
from moldau.server.replicas.fetcher import ReplicaFetcher, ReplicaTools
from moldau.work.slices import Work, pauses

PARTITIONS_PER_TURN = 64

#: Leader, and which of the fetchers that follow it.
Place = tuple[int, int]


class ReplicaFetchers:
    def __init__(
        self, local_id: int, partitions: PartitionTable, tools: ReplicaTools, fetchers_per_leader: Callable[[], int]
    ) -> None:
        self._local_id = local_id
        self._partitions = partitions
        self._tools = tools
        self._fetchers_per_leader = fetchers_per_leader
        self._fetchers: dict[Place, ReplicaFetcher] = {}
        self._followed: dict[Key, tuple[Place, Partition, int]] = {}
        self._paused = pauses(PARTITIONS_PER_TURN)
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many partitions are followed."""
        return len(self._followed)

    def followed(self) -> list[tuple[int, int, Followed]]:
        """With the leader, and which of the fetchers that follow it."""
        return [(*place, each) for place, fetcher in self._fetchers.items() for each in fetcher.plan]

    def load(self, image: ClusterImage) -> Work[None]:
        for topic in image.topics.values():
            yield from self._follow_all(topic, range(len(topic.partitions)))

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Work[None]:
        """Called behind the partition table, which has made the partitions what the image says."""
        for topic in delta.deleted:
            for index in range(len(topic.partitions)):
                self._forget((topic.id, index))
                if next(self._paused):
                    yield
        for topic in delta.created:
            yield from self._follow_all(topic, range(len(topic.partitions)))
        for change in delta.changed:
            yield from self._follow_all(change.new, change.partitions)

    def share_out(self) -> Work[None]:
        """There shall be another number of fetchers: what is followed goes to that one of them whose it is now."""
        for _, partition, _ in tuple(self._followed.values()):
            if next(self._paused):
                yield
            self._follow(partition)
        for place in [place for place in self._fetchers if place[1] >= self._fetchers_per_leader()]:
            ending = asyncio.get_running_loop().create_task(self._fetchers.pop(place).stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._followed.clear()
        await asyncio.gather(*self._ending, *(fetcher.stop() for fetcher in fetchers))

    def _follow_all(self, topic: TopicImage, indexes: Iterable[int]) -> Work[None]:
        for index in indexes:
            if next(self._paused):
                yield
            partition = self._partitions.find(topic.name, index)
            if partition is not None:
                self._follow(partition)

    def _follow(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.topic_partition.partition)
        leader = partition.leader
        if leader in (NO_LEADER, self._local_id) or partition.log is None:
            self._forget(key)
            return
        place = (leader, (partition.topic_id.int + key[1]) % self._fetchers_per_leader())
        followed = place, partition, partition.leader_epoch
        known = self._followed.get(key)
        if known == followed:
            return
        if known is not None and known[0] != place:
            self._fetchers[known[0]].forget(key)
        self._followed[key] = followed
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = ReplicaFetcher(*place, self._tools)
        fetcher.follow(partition)

    def _forget(self, key: Key) -> None:
        known = self._followed.pop(key, None)
        if known is not None:
            self._fetchers[known[0]].forget(key)
