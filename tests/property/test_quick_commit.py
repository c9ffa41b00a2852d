"""The short way of offset commits answers, writes, keeps and counts exactly what the long way does."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.security.standard import StandardAuthorizer
from moldau.types.errors import ErrorCode
from moldau.wire.codec import decode, encode
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.primitives import string
from tests.fakes.unlimited import Unlimited
from tests.support.committing import A_AGAIN, CLASSIC, CONSUMER, MEMBER, A, B, CommitDesk
from tests.support.terms import term

FLEXIBLE_FROM, INSTANCE_FROM, NO_RETENTION_FROM, LAST = 8, 7, 5, 10
UNKNOWN = UUID(int=50)

PARTITIONS = st.builds(
    OffsetCommitRequestPartition,
    partition_index=st.sampled_from([0, 0, 1, 1, 2, 7]),
    committed_offset=st.integers(0, 1 << 40),
    committed_leader_epoch=st.sampled_from([-1, 4]),
    committed_metadata=st.sampled_from(["", "", None, "note", "n\u00f6te", "n" * 30]),
)
TOPICS = st.builds(
    lambda named, partitions: OffsetCommitRequestTopic(name=named[0], topic_id=named[1], partitions=partitions),
    st.sampled_from([("a", A.id)] * 4 + [("b", B.id)] * 2 + [("?", UNKNOWN)]),
    st.lists(PARTITIONS, max_size=2),
)


@dataclass(frozen=True, slots=True)
class Commit:
    client: int
    group: str
    generation: int
    member: str
    instance: str | None
    retention_ms: int
    topics: list[OffsetCommitRequestTopic]
    version: int
    flipped: tuple[int, int] | None = None

    def encode(self, number: int, desk: CommitDesk) -> bytes:
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=desk.classic_member if self.member == "its own" else self.member,
            group_instance_id=self.instance if self.version >= INSTANCE_FROM else None,
            retention_time_ms=self.retention_ms if self.version < NO_RETENTION_FROM else -1,
            topics=self.topics,
        )
        head = b"\x00\x08" + self.version.to_bytes(2, "big") + number.to_bytes(4, "big") + string("client")
        frame = head + (b"\x00" if self.version >= FLEXIBLE_FROM else b"") + encode(request, self.version)
        if self.flipped is not None:
            changed = bytearray(frame)
            changed[8 + self.flipped[0] % (len(frame) - 8)] ^= 1 << self.flipped[1]
            frame = bytes(changed)
        return frame


COMMITS = st.builds(
    Commit,
    client=st.integers(0, 2),
    group=st.sampled_from(["g", "h", CLASSIC, CLASSIC, CONSUMER, CONSUMER]),
    generation=st.sampled_from([-1, -1, 0, 1, 1, 2, 3]),
    member=st.sampled_from(["", "", "its own", "its own", MEMBER, MEMBER]),
    instance=st.sampled_from([None, None, MEMBER, "another"]),
    retention_ms=st.sampled_from([-1, -1, -1, 5000]),
    topics=st.lists(TOPICS, max_size=3),
    version=st.integers(2, LAST),
    flipped=st.none() | st.none() | st.none() | st.tuples(st.integers(0, 200), st.integers(0, 7)),
)


def plain(version: int = 9, client: int = 0, **changed: Any) -> Commit:
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=5, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="a", topic_id=A.id, partitions=[partition])
    fields = {"group": "g", "generation": -1, "member": "", "instance": None, "retention_ms": -1, "topics": [topic]}
    return Commit(client=client, version=version, **{**fields, **changed})


# -- what may happen between two turns of the loop ---------------------------------------------------------------------


def nothing(_desk: CommitDesk) -> None: ...


def held_by_all(desk: CommitDesk) -> None:
    desk.held_by_all()


def another_leader(desk: CommitDesk) -> None:
    if desk.partition.leads:
        desk.partition.follow(term(2, epoch=desk.partition.leader_epoch + 1, replicas=desk.partition.replicas))


def leader_again(desk: CommitDesk) -> None:
    """In another term; the coordinator has not heard of it yet."""
    if desk.partition.log is not None:
        replicas = tuple(desk.partition.replicas)
        desk.partition.lead(term(1, epoch=desk.partition.leader_epoch + 1, replicas=replicas, isr=replicas))


def coordinator_follows(desk: CommitDesk) -> None:
    """A shard that begins is loading until its log is read."""
    desk.follow()


def too_few(desk: CommitDesk) -> None:
    epoch, replicas = desk.partition.leader_epoch, tuple(desk.partition.replicas)
    if desk.partition.leads and desk.partition.log is not None:
        desk.partition.lead(term(1, epoch=epoch, replicas=replicas, isr=(1,), partition_epoch=9))


def folder_lost(desk: CommitDesk) -> None:
    desk.lose_folder()


def disk_full(desk: CommitDesk) -> None:
    desk.disk.is_full = True


def topic_deleted(desk: CommitDesk) -> None:
    desk.change_topics(B)


def topic_made_again(desk: CommitDesk) -> None:
    desk.change_topics(A_AGAIN, B)


def refused_by_rules(desk: CommitDesk) -> None:
    desk.authorizer = StandardAuthorizer()


def time_passes(desk: CommitDesk) -> None:
    desk.now_ms += 4000
    desk.fire()


def compressed(desk: CommitDesk) -> None:
    desk.codec = 4


HARMLESS = [nothing, nothing, held_by_all, held_by_all, time_passes, compressed]
FATES: list[Callable[[CommitDesk], None]] = [
    *HARMLESS, another_leader, leader_again, coordinator_follows, coordinator_follows, too_few, folder_lost, disk_full,
    topic_deleted, topic_made_again, refused_by_rules,
]  # fmt: skip
TURNS = st.lists(
    st.tuples(
        # Of two requests of one client the second begins when the first is answered: a moment earlier on the short way.
        st.lists(COMMITS, min_size=1, max_size=3, unique_by=lambda commit: commit.client),
        st.sampled_from(FATES),
        st.booleans(),
    ),
    max_size=6,
)
Turns = list[tuple[list[Commit], Callable[[CommitDesk], None], bool]]


async def play(turns: Turns, quick: bool, replicas: tuple[int, ...]) -> tuple[CommitDesk, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        desk = CommitDesk(Path(folder), quick, replicas, minimum=len(replicas))
        desk.join()
        number = 0
        for commits, fate, is_at_once in turns:
            for commit in commits:
                number += 1
                if is_at_once:  # the long way would write what was staged before
                    await desk.settle()
                desk.receive(commit.client, commit.encode(number, desk))
            if not is_at_once or fate in (time_passes, coordinator_follows):
                await desk.settle()  # else it happens while the batches are staged
            fate(desk)
            if fate is not coordinator_follows:  # which may load its log while the next requests come
                await desk.settle()
        await desk.settle()
        desk.held_by_all()
        await desk.settle()
        outcome = desk.outcome()
        await desk.groups.stop()
        return desk, outcome


def compare(turns: Turns, replicas: tuple[int, ...] = (1,)) -> CommitDesk:
    async def main() -> CommitDesk:
        desk, short = await play(turns, True, replicas)
        _, long = await play(turns, False, replicas)
        if desk.disk.is_full:  # on the long way the next request finds it out, and then waits for nobody itself
            for outcome in (short, long):
                outcome["counted"].pop("kafka.network:type=RequestMetrics,name=RemoteTimeMs,request=OffsetCommit", None)
        for name, value in long.items():
            assert short[name] == value, name
        return desk

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    server = logging.getLogger("moldau.server")
    before = server.level
    server.setLevel(logging.CRITICAL)
    yield
    server.setLevel(before)


@given(TURNS)
def test_both_ways_do_the_same(turns: Turns) -> None:
    compare(turns)


@given(TURNS)
def test_both_ways_wait_for_replicas_alike(turns: Turns) -> None:
    compare(turns, (1, 2))


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_both_ways_meet_each_fate_alike(fate: Callable[[CommitDesk], None], replicas: tuple[int, ...]) -> None:
    for is_at_once in (True, False):
        for version in range(2, LAST + 1):
            commits = [plain(version, client) for client in range(3)]
            turns = [(commits, nothing, False), (commits, fate, is_at_once), (commits, held_by_all, False)]
            assert compare(turns, replicas).taken >= len(commits)


MEMBERS = [
    {"group": CLASSIC, "generation": 1, "member": "its own"},
    {"group": CLASSIC, "generation": 1, "member": "its own", "instance": MEMBER},
    {"group": CLASSIC, "generation": 0, "member": "its own"},
    {"group": CLASSIC, "generation": 1, "member": "its own", "instance": "another"},
    {"group": CLASSIC},
    {"group": "unheard of", "generation": 3},
    *({"group": CONSUMER, "generation": epoch, "member": MEMBER} for epoch in range(4)),
]


@pytest.mark.parametrize("who", MEMBERS)
def test_both_ways_ask_the_group_alike(who: dict[str, Any]) -> None:
    for version in range(2, LAST + 1):
        compare([([plain(version, **who)], nothing, False), ([plain(version, **who)], nothing, False)])


def test_the_short_way_is_taken_for_what_is_common() -> None:
    """Else the tests above would compare the long way with itself."""
    for version in range(2, LAST + 1):
        for replicas in ((1,), (1, 2)):
            desk = compare([([plain(version), plain(version, 1)], held_by_all, False)], replicas)
            assert desk.taken == 2
            member = plain(version, group=CLASSIC, generation=1, member="its own")
            assert compare([([member], held_by_all, False)], replicas).taken == 1


def test_a_batch_that_is_lost_is_told_at_each_partition() -> None:
    async def main() -> None:
        for version in range(2, LAST + 1):
            with tempfile.TemporaryDirectory() as folder:
                desk = CommitDesk(Path(folder), quick=True)
                desk.disk.is_full = True
                desk.receive(0, plain(version, topics=plain().topics * 2).encode(1, desk))
                await desk.settle()
                assert desk.taken == 1
                sent = desk.outcome()["answers"][0]
                head = 9 if version >= FLEXIBLE_FROM else 8
                answer, end = decode(OffsetCommitResponse, version, sent, head)
                assert end == len(sent)
                codes = [[each.error_code for each in topic.partitions] for topic in answer.topics]
                assert codes == [[ErrorCode.NOT_COORDINATOR]] * 2
                await desk.groups.stop()

    asyncio.run(main())


def test_the_next_request_of_a_client_waits_for_the_answer() -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            desk = CommitDesk(Path(folder), quick=True, replicas=(1, 2), minimum=2)
            for number in range(3):
                desk.receive(0, plain().encode(number, desk))
            await desk.settle()
            assert (desk.taken, desk.clients[0].requests_waiting) == (1, 2)
            desk.held_by_all()
            assert desk.taken == 1  # not from within the coordinator
            await desk.settle()
            assert desk.taken == 2
            await desk.groups.stop()

    asyncio.run(main())


def test_who_is_limited_takes_the_long_way() -> None:
    class Limited(Unlimited):
        active = True

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            desk = CommitDesk(Path(folder), quick=True)
            desk.quotas = Limited()
            desk.receive(0, plain().encode(1, desk))
            await desk.settle()
            assert desk.taken == 0
            assert desk.outcome()["answers"][0]
            await desk.groups.stop()

    asyncio.run(main())
