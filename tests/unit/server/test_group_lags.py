"""The lag of groups, over the group coordinator's own state: what this broker knows, and what other leaders tell."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from moldau.metadata.image import EMPTY_IMAGE, NO_LEADER, PartitionImage, TopicImage
from moldau.server.group_lags import GroupLags
from moldau.server.peers.peer import PeerLostError
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.fakes.group_shard import GROUP, GroupShard

US, OTHER, THIRD = 1, 2, 3
FIRST, SECOND = UUID(int=1), UUID(int=2)
Told = Mapping[TopicPartition, int | ErrorCode]


def place(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, index)


@dataclass
class Led:
    """A partition of this broker."""

    high_watermark: int
    leads: bool = True
    log: object = "there"


class Leader:
    """Answers for its partitions with a mark or an error; lost where it knows nothing."""

    def __init__(self, told: Told | None) -> None:
        self.told = told
        self.asked: list[set[TopicPartition]] = []

    async def call(self, request: ListOffsetsRequest, *_: object, **__: object) -> ListOffsetsResponse:
        wanted = {place(each.partition_index, topic.name) for topic in request.topics for each in topic.partitions}
        self.asked.append(wanted)
        if self.told is None:
            raise PeerLostError("gone")
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=each.topic, partitions=[self._answer(each)]) for each in wanted]
        )

    def _answer(self, wanted: TopicPartition) -> ListOffsetsPartitionResponse:
        assert self.told is not None
        found = self.told[wanted]
        if isinstance(found, ErrorCode):
            return ListOffsetsPartitionResponse(partition_index=wanted.partition, error_code=found, offset=-1)
        return ListOffsetsPartitionResponse(partition_index=wanted.partition, offset=found)


class Cluster:
    """One coordinator, the partitions of its broker, and leaders elsewhere."""

    def __init__(self, leaders: tuple[int, ...], here: Mapping[int, Led] | None = None, **peers: Leader) -> None:
        self.shard = GroupShard()
        self.here = dict(here or {})
        self.peers = {OTHER: peers.get("other", Leader({})), THIRD: peers.get("third", Leader({}))}
        partitions = tuple(PartitionImage((US, OTHER, THIRD), (US,), leader, 1, 1) for leader in leaders)
        self.image = replace(EMPTY_IMAGE, topics={"t": TopicImage("t", FIRST, partitions)})
        self.lags = GroupLags(US, lambda: self.image, cast(Any, self), self.shard.runtime, cast(Any, self))

    def find(self, topic: str, index: int) -> Led | None:
        return self.here.get(index) if topic == "t" else None

    def get(self, broker_id: int) -> Leader:
        return self.peers[broker_id]

    def commit(self, offsets: Mapping[int, int], topic: str = "t", topic_id: UUID = FIRST) -> None:
        self.shard.commit({place(index, topic): offset for index, offset in offsets.items()}, topic_id=topic_id)
        self.shard.log.commit()

    def refresh(self) -> None:
        asyncio.run(self.lags.refresh())

    def told(self) -> dict[tuple[str, ...], float]:
        """Values by their names, with the partition where there is one."""
        found: dict[tuple[str, ...], float] = {}
        for name, value in self.lags.samples():
            tags = dict(name.tags)
            assert tags["consumergroup"] == GROUP
            found[name.name, *(each for each in [tags.get("partition")] if each is not None)] = value
        return found


def test_where_this_broker_leads_it_knows_the_lag_and_asks_nobody() -> None:
    cluster = Cluster((US, US), {0: Led(10), 1: Led(7)})
    cluster.commit({0: 4, 1: 7})
    cluster.refresh()
    assert cluster.told() == {
        ("members",): 0,
        ("current_offset", "0"): 4,
        ("current_offset", "1"): 7,
        ("current_offset_sum",): 11,
        ("lag", "0"): 6,
        ("lag", "1"): 0,
        ("lag_sum",): 6,
    }
    assert not cluster.peers[OTHER].asked and not cluster.peers[THIRD].asked


def test_other_leaders_are_asked_once_each_for_what_groups_have_committed() -> None:
    other, third = Leader({place(1): 20, place(2): 30}), Leader({place(3): 5})
    cluster = Cluster((US, OTHER, OTHER, THIRD, THIRD), {0: Led(10)}, other=other, third=third)
    cluster.commit({0: 10, 1: 18, 2: 30, 3: 5})
    cluster.refresh()
    told = cluster.told()
    assert [told["lag", str(index)] for index in range(4)] == [0, 2, 0, 0]
    assert told["lag_sum",] == 2
    assert other.asked == [{place(1), place(2)}] and third.asked == [{place(3)}]


def test_a_lag_that_nobody_tells_is_no_lag_of_0() -> None:
    cluster = Cluster((US, OTHER, THIRD), {0: Led(10)}, other=Leader(None))
    cluster.peers[THIRD] = Leader({place(2): ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    cluster.commit({0: 4, 1: 4, 2: 4})
    cluster.refresh()
    told = cluster.told()
    assert told["lag", "0"] == 6 and told["current_offset_sum",] == 12
    assert not {("lag", "1"), ("lag", "2"), ("lag_sum",)} & told.keys()


def test_what_was_told_before_is_not_told_again_once_its_leader_is_lost() -> None:
    cluster = Cluster((OTHER,), other=Leader({place(0): 9}))
    cluster.commit({0: 4})
    cluster.refresh()
    assert cluster.told()["lag", "0"] == 5
    cluster.peers[OTHER] = Leader(None)
    cluster.refresh()
    assert ("lag", "0") not in cluster.told()


def test_a_partition_without_a_leader_is_asked_of_nobody() -> None:
    cluster = Cluster((NO_LEADER,))
    cluster.commit({0: 4})
    cluster.refresh()
    assert cluster.told()["current_offset", "0"] == 4
    assert not cluster.peers[OTHER].asked


def test_a_follower_does_not_take_its_own_mark_for_the_leaders() -> None:
    cluster = Cluster((OTHER,), {0: Led(6, leads=False)}, other=Leader({place(0): 9}))
    cluster.commit({0: 4})
    cluster.refresh()
    assert cluster.told()["lag", "0"] == 5


def test_a_log_that_failed_tells_no_lag() -> None:
    cluster = Cluster((US,), {0: Led(6, log=None)})
    cluster.commit({0: 4})
    assert ("lag", "0") not in cluster.told()


def test_an_offset_beyond_the_mark_is_not_behind() -> None:
    cluster = Cluster((US,), {0: Led(3)})
    cluster.commit({0: 4})
    assert cluster.told()["lag", "0"] == 0


def test_offsets_of_a_deleted_topic_of_the_same_name_are_passed_over() -> None:
    cluster = Cluster((US,), {0: Led(3)})
    cluster.commit({0: 2}, topic_id=SECOND)
    told = cluster.told()
    assert ("lag", "0") not in told and told["current_offset_sum",] == 0


def test_offsets_of_topics_that_are_gone_are_not_told() -> None:
    cluster = Cluster((US,))
    cluster.commit({0: 2}, topic="gone")
    assert cluster.told() == {("members",): 0}


def test_nobody_is_asked_where_nobody_wants_to_know() -> None:
    cluster = Cluster((OTHER,), other=Leader({place(0): 9}))
    cluster.commit({0: 4})
    cluster.lags.is_wanted = False
    cluster.refresh()
    assert not cluster.peers[OTHER].asked
