"""A fetcher at a real leader's fetch handler, with real logs on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moldau.replication.fetch_sessions import HURRY_EPOCH, INITIAL_EPOCH
from moldau.replication.follower import FetchSettings
from moldau.replication.leader import Neighbours
from moldau.replication.partition import Partition
from moldau.replication.throttling import ReplicationQuota
from moldau.server.replicas.fetcher import ReplicaFetcher, ReplicaTools
from moldau.storage.log import PartitionLog
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.fakes.leader_broker import FetchPeer, LeaderBroker
from tests.fakes.waits import OffsetProbe
from tests.support.logs import append, open_log, settings, values_from
from tests.support.terms import term

LEADER, FOLLOWER = 1, 2
#: So long that a test which needs it never ends: what is awaited has to come by itself.
FOR_EVER_MS = 3_600_000
NEIGHBOURS = Neighbours(lambda: 0.0, lambda one: 100 + one, lambda _: True, lambda: 30_000)


class Cuts:
    """The manager's part: cuts at once."""

    async def truncate(self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool]) -> bool:
        if is_wanted():
            log.truncate_to(offset)
            return True
        return False

    async def restart_at(self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool]) -> bool:
        if is_wanted():
            log.truncate_fully_and_start_at(offset)
            return True
        return False


def fail(_log: PartitionLog, error: Exception) -> None:
    raise error


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


class Pair:
    """Partitions on a leader and on a follower, and the fetcher between them."""

    def __init__(self, folder: Path, count: int = 1, max_wait_ms: int = FOR_EVER_MS, **config: object) -> None:
        self.leaders = [self._partition(folder / f"l{index}", index, LEADER, config) for index in range(count)]
        self.followers = [self._partition(folder / f"f{index}", index, FOLLOWER, config) for index in range(count)]
        self.broker = LeaderBroker(self.leaders)
        self.peer = FetchPeer(self.broker)
        self.rate: int | None = None
        self.now = 0.0
        quota = ReplicationQuota(lambda: self.rate, lambda: self.now)
        wanted = FetchSettings(FOLLOWER, lambda: 102, max_wait_ms=max_wait_ms)
        self.tools = ReplicaTools(
            self.peer,
            Cuts(),
            fail,
            lambda _: None,
            lambda work: asyncio.ensure_future(at_once(work)),
            asyncio.get_running_loop().time,
            lambda: wanted,
            quota,
        )
        self.fetcher = ReplicaFetcher(LEADER, 0, self.tools)

    def _partition(self, folder: Path, index: int, broker_id: int, config: dict[str, object]) -> Partition:
        folder.mkdir()
        one = Partition(TopicPartition("t", index), UUID(int=9), broker_id, NEIGHBOURS)
        one.log = open_log(str(folder), config=settings(**config))
        return one

    def elect(self, epoch: int = 5, isr: tuple[int, ...] = (LEADER,), indexes: tuple[int, ...] = (0,)) -> None:
        """The image comes to the leader, then to the follower."""
        for index in indexes:
            self.leaders[index].lead(state(epoch, isr))
            self.follow(epoch, isr, index)

    def follow(self, epoch: int = 5, isr: tuple[int, ...] = (LEADER,), index: int = 0) -> None:
        self.followers[index].follow(state(epoch, isr))
        self.fetcher.follow(self.followers[index])

    def produce(self, *values: bytes, index: int = 0) -> None:
        one = self.leaders[index]
        assert one.log is not None
        append(one.log, *values, epoch=one.leader_epoch)
        one.log_grew()
        one.advance(one.log.log_end_offset)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Everything here happens in turns of the loop, and in pauses of the fetcher."""
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)

    def is_equal(self, index: int = 0) -> bool:
        return contents(self.leaders[index]) == contents(self.followers[index])


def state(epoch: int, isr: tuple[int, ...]) -> Any:
    return term(LEADER, epoch=epoch, replicas=(LEADER, FOLLOWER), isr=isr, partition_epoch=epoch)


def contents(one: Partition) -> list[tuple[int, bytes | None]]:
    assert one.log is not None
    return values_from(one.log, one.log.log_start_offset)


def log_of(one: Partition) -> PartitionLog:
    assert one.log is not None
    return one.log


def running(work: Callable[[Pair], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def main() -> None:
        pair = Pair(folder, **options)
        try:
            async with asyncio.timeout(60):
                await work(pair)
        finally:
            await pair.fetcher.stop()

    asyncio.run(main())


def test_a_follower_copies_learns_the_mark_and_joins(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.elect()
        pair.produce(b"0", b"1")
        pair.produce(b"2")
        await pair.until(lambda: bool(pair.broker.proposals))
        assert pair.is_equal()
        assert log_of(pair.followers[0]).leader_epochs.entries == [(5, 0)]
        ((partition, change),) = pair.broker.proposals
        assert (partition, change.members) == (pair.leaders[0], ((1, 101), (2, 102)))
        pair.leaders[0].lead(state(5, (1, 2)))
        acknowledged = OffsetProbe()
        pair.leaders[0].produce_waits.add(4, acknowledged)
        pair.produce(b"3")
        assert acknowledged.told == []
        await pair.until(lambda: acknowledged.told == ["reached"])
        pair.produce(b"4")
        await pair.until(lambda: pair.followers[0].high_watermark >= 4)

    running(work, tmp_path)


def test_who_only_calls_himself_a_replica_acknowledges_nothing(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.broker.introduced_as = None
        pair.elect(isr=(1, 2))
        pair.produce(b"0")
        await pair.until(pair.is_equal)
        await pair.until(lambda: pair.leaders[0].waiting_fetches == 1)
        assert pair.leaders[0].high_watermark == 0

    running(work, tmp_path)


def test_an_idle_partition_is_named_once(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.elect(indexes=(0, 1))
        await pair.until(lambda: len(pair.peer.requests) == 1)
        for number in range(3):
            pair.produce(b"%d" % number)
            await pair.until(pair.is_equal)
        named = [
            [one.partition for topic in request.topics for one in topic.partitions] for request in pair.peer.requests
        ]
        assert named[0] == [0, 1]
        assert named[1:3] == [[0], [0]]

    running(work, tmp_path, count=2)


def test_a_history_that_leaves_the_leaders_is_cut(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        leader, follower = log_of(pair.leaders[0]), log_of(pair.followers[0])
        for epoch, values in ((1, (b"a", b"b")), (3, (b"c",))):
            for value in values:
                append(leader, value, epoch=epoch)
        for epoch, values in ((1, (b"a", b"b", b"x")), (2, (b"y", b"z")), (4, (b"w",))):
            for value in values:
                append(follower, value, epoch=epoch)
        pair.followers[0].high_watermark = 2
        pair.elect(epoch=5)
        pair.produce(b"d")
        await pair.until(pair.is_equal)
        assert follower.leader_epochs.entries == leader.leader_epochs.entries == [(1, 0), (3, 2), (5, 3)]

    running(work, tmp_path)


def test_a_follower_begins_anew_where_its_leaders_log_begins(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        append(log_of(pair.followers[0]), b"old", epoch=1)
        for number in range(6):
            append(log_of(pair.leaders[0]), b"%d" % number, epoch=1)
        log_of(pair.leaders[0]).advance_log_start(4)
        pair.elect()
        await pair.until(pair.is_equal)
        assert log_of(pair.followers[0]).log_start_offset == 4

    running(work, tmp_path)


def test_what_comes_while_a_fetch_is_held_calls_it_back(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.elect(indexes=(0,))
        pair.produce(b"0")
        await pair.until(lambda: pair.is_equal() and pair.leaders[0].waiting_fetches == 1)
        pair.elect(indexes=(1,))
        pair.produce(b"1", index=1)
        await pair.until(lambda: pair.is_equal(1))
        pair.produce(b"2")
        await pair.until(pair.is_equal)

    running(work, tmp_path, count=2)


def test_a_fetch_that_is_called_back_names_only_what_is_new(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.elect(indexes=(0,))
        pair.produce(b"0")
        await pair.until(lambda: pair.is_equal() and pair.leaders[0].waiting_fetches == 1)
        pair.elect(indexes=(1,))
        pair.produce(b"1", index=1)
        await pair.until(lambda: pair.is_equal(1))
        fetches = [one for one in pair.peer.requests if one.session_epoch != HURRY_EPOCH]
        assert len(fetches) < len(pair.peer.requests), "nothing was called back"
        named = [[each.partition for topic in one.topics for each in topic.partitions] for one in fetches]
        assert named[:2] == [[0], [0]]
        assert named[2:4] in ([[1], [1]], [[1]])

    running(work, tmp_path, count=2)


def test_a_fetch_that_comes_behind_its_call_back_does_not_wait(tmp_path: Path) -> None:
    """The two take different connections."""

    async def work(pair: Pair) -> None:
        leader = pair.broker
        pair.leaders[0].lead(state(5, (LEADER,)))
        target = FetchPartition(partition=0, current_leader_epoch=5, partition_max_bytes=1000)
        replica = ReplicaState(replica_id=FOLLOWER, replica_epoch=102)
        first = FetchRequest(
            replica_state=replica,
            session_epoch=INITIAL_EPOCH,
            max_wait_ms=0,
            topics=[FetchTopic(topic_id=UUID(int=9), partitions=[target])],
        )
        session = (await leader.fetch(first)).session_id
        hurry = FetchRequest(replica_state=replica, session_id=session, session_epoch=HURRY_EPOCH)
        assert (await leader.fetch(hurry)).error_code == 0
        second = FetchRequest(
            replica_state=replica, session_id=session, session_epoch=1, max_wait_ms=FOR_EVER_MS, min_bytes=1
        )
        assert (await leader.fetch(second)).error_code == 0

    running(work, tmp_path)


def test_nobody_but_a_broker_calls_back(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.broker.introduced_as = None
        replica = ReplicaState(replica_id=FOLLOWER, replica_epoch=102)
        hurry = FetchRequest(replica_state=replica, session_id=1, session_epoch=HURRY_EPOCH)
        assert (await pair.broker.fetch(hurry)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    running(work, tmp_path)


def test_a_fetch_of_a_newer_epoch_waits_for_the_leaders_image(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        append(log_of(pair.leaders[0]), b"0", epoch=1)
        pair.leaders[0].follow(term(FOLLOWER, epoch=4, isr=(1, 2)))
        pair.follow(5)
        await pair.until(lambda: pair.leaders[0].waiting_fetches == 1)
        pair.leaders[0].lead(state(5, (1, 2)))
        await pair.until(pair.is_equal)
        assert len(pair.peer.requests) <= 4

    running(work, tmp_path)


def test_a_leader_that_is_away_is_asked_again(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.peer.is_away = True
        pair.elect()
        pair.produce(b"0")
        await pair.until(lambda: pair.peer.lost >= 3)
        pair.peer.is_away = False
        await pair.until(pair.is_equal)

    running(work, tmp_path)


def test_a_follower_syncs_before_it_acknowledges_if_the_topic_asks_for_that(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.elect()
        pair.produce(b"0")
        await pair.until(lambda: bool(pair.broker.proposals))
        assert log_of(pair.followers[0]).recovery_point == 1

    running(work, tmp_path, flush_messages=1)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_only_who_is_not_in_sync_is_throttled(tmp_path: Path, side: str) -> None:
    async def work(pair: Pair) -> None:
        if side == "leader":
            pair.broker.rate = 0
            pair.broker.broker.leader_quota.record(10)
        else:
            pair.rate = 0
            pair.fetcher._tools.quota.record(10)
        pair.elect()
        pair.produce(b"0")
        for _ in range(50):
            await asyncio.sleep(0)
        assert not pair.is_equal()
        pair.leaders[0].lead(state(5, (1, 2)))
        pair.follow(5, (1, 2))
        await pair.until(pair.is_equal)

    name = f"{side}_replication_throttled_replicas"
    running(work, tmp_path, max_wait_ms=20, **{name: "*"})
