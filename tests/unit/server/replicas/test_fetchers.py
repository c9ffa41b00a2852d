"""Several fetchers at one leader: each follows its share, and their number may change while they do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from moldau.server.replicas.fetchers import ReplicaFetchers
from moldau.work.slices import at_once
from tests.unit.server.replicas.test_fetcher import FOLLOWER, LEADER, Pair, running, state

PARTITIONS = 6
TOPIC_ID = 9


def shares(fetchers: ReplicaFetchers) -> dict[int, set[int]]:
    """Partitions, by the fetcher that follows them."""
    found: dict[int, set[int]] = {}
    for leader, index, followed in fetchers.followed():
        assert leader == LEADER
        found.setdefault(index, set()).add(followed.key[1])
    return found


def test_what_is_followed_is_shared_out_and_shared_out_anew(tmp_path: Path) -> None:
    wanted = [3]

    async def work(pair: Pair) -> None:
        table = cast(Any, SimpleNamespace(find=lambda _topic, index: pair.followers[index]))
        fetchers = ReplicaFetchers(FOLLOWER, table, pair.tools, lambda: wanted[0])
        for index in range(PARTITIONS):
            pair.leaders[index].lead(state(5, (LEADER,)))
            pair.followers[index].follow(state(5, (LEADER,)))
        topic = SimpleNamespace(name="t", partitions=range(PARTITIONS))
        at_once(fetchers.load(cast(Any, SimpleNamespace(topics={"t": topic}))))
        assert shares(fetchers) == {0: {0, 3}, 1: {1, 4}, 2: {2, 5}}
        await copied(pair, b"by three")
        for count, expected in (
            (1, {0: {0, 1, 2, 3, 4, 5}}),
            (2, {0: {1, 3, 5}, 1: {0, 2, 4}}),
            (4, {0: {3}, 1: {0, 4}, 2: {1, 5}, 3: {2}}),
        ):
            wanted[0] = count
            at_once(fetchers.share_out())
            assert shares(fetchers) == expected
            await copied(pair, b"by %d" % count)
        await fetchers.stop()

    running(work, tmp_path, count=PARTITIONS)


async def copied(pair: Pair, value: bytes) -> None:
    for index in range(PARTITIONS):
        pair.produce(value, index=index)
    await pair.until(lambda: all(pair.is_equal(index) for index in range(PARTITIONS)))


def test_a_cut_that_is_under_way_is_left_to_who_follows_now(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.elect()
        pair.produce(b"0")
        await pair.until(pair.is_equal)
        (followed,) = pair.fetcher.plan
        assert pair.fetcher.plan.follows(followed)
        pair.fetcher.forget(followed.key)
        assert not pair.fetcher.plan.follows(followed)
        pair.fetcher.follow(pair.followers[0])
        assert not pair.fetcher.plan.follows(followed)

    running(work, tmp_path)
