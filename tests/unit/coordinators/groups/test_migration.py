"""Groups that change their protocol: a classic group with its members becomes a consumer group, and back."""

from __future__ import annotations

from typing import cast

import pytest

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.embedded import read_assignment, read_subscription, write_assignment
from moldau.coordinators.machine import Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.consumer_groups import CLIENT, GROUP, Consumer, Coordinator, durable, settle, shown, topic

A = topic("A", 1, 4)
VERSION = 9


def subscription(*owned: int) -> bytes:
    """Version 1: the topic A, no user data, what is owned of it."""
    mine = b"".join(index.to_bytes(4, "big") for index in owned)
    held = b"\0\0\0\1\0\1A" + len(owned).to_bytes(4, "big") + mine if owned else b"\0\0\0\0"
    return b"\0\1" + b"\0\0\0\1\0\1A" + b"\xff\xff\xff\xff" + held


class Classic:
    """A classic consumer that works one request at a time."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()

    def join(self, name: str = "range", metadata: bytes | None = None) -> JoinGroupResponse:
        told = subscription(*sorted(self.owned)) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=told)],
        )
        answer = self._outcome(self._classic.join(request, CLIENT, VERSION, self.coordinator.now))
        self.member_id, self.generation = answer.member_id, answer.generation_id
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return self.join(name, metadata)
        return answer

    def sync(self, *partitions: int) -> SyncGroupResponse:
        """With an assignment of all these, if it is asked as the leader."""
        given = write_assignment(1, {"A": partitions})
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=given)],
        )
        answer = self._outcome(self._classic.sync(request, self.coordinator.now))
        self.owned = set(read_assignment(bytes(answer.assignment)).get("A", ()))
        return answer

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return self._outcome(self._classic.heartbeat(request, self.coordinator.now))

    def leave(self) -> list[MemberResponse]:
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
        return self._outcome(self._classic.leave(request, self.coordinator.now))

    def catch_up(self) -> None:
        """What a consumer does when it hears of a rebalance, until it hears no more of it."""
        for _ in range(5):
            if self.heartbeat() is ErrorCode.NONE:
                return
            self.join()
            self.sync()

    @property
    def _classic(self):  # type: ignore[no-untyped-def]
        return self.coordinator.machine.classic

    def _outcome(self, write: Write):  # type: ignore[no-untyped-def, type-arg]
        answer = self.coordinator.perform(write)
        self.coordinator.run_timers()
        if not isinstance(answer, Deferred):
            return answer
        found: list[object] = []
        answer.when_done(lambda value, error: found.append(value if error is None else error))
        return found[0]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(A, group_initial_rebalance_delay_ms="0")


@pytest.fixture
def classic(coordinator: Coordinator) -> Classic:
    """The only member of a stable classic group."""
    member = Classic(coordinator)
    member.join()
    member.sync(0, 1, 2, 3)
    return member


def test_a_classic_group_is_upgraded_with_its_members(coordinator: Coordinator, classic: Classic) -> None:
    consumer = Consumer(coordinator, "new", ("A",))
    consumer.beat()
    group = coordinator.group
    assert set(group.members) == {classic.member_id, "new"}
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    classic.catch_up()
    settle(coordinator, [consumer], rounds=2)
    classic.catch_up()
    assert {f"A-{index}" for index in classic.owned} | shown(consumer.owned, coordinator) == set(shown_all())
    assert len(classic.owned) == len(consumer.owned) == 2
    assert group.members[classic.member_id].epoch == classic.generation == group.assignment_epoch


def shown_all() -> list[str]:
    return [f"A-{index}" for index in range(4)]


def test_a_classic_member_keeps_what_it_has_not_given_back(coordinator: Coordinator, classic: Classic) -> None:
    consumer = Consumer(coordinator, "new", ("A",))
    consumer.beat()
    classic.join()
    assert (classic.generation, classic.heartbeat()) == (1, ErrorCode.REBALANCE_IN_PROGRESS)
    consumer.beat()
    assert consumer.owned == set()
    classic.sync()
    assert classic.owned == {0, 1}
    classic.join()
    consumer.beat()
    assert shown(consumer.owned, coordinator) == {"A-2", "A-3"}


def test_a_waiting_member_is_told_to_join_again(coordinator: Coordinator, classic: Classic) -> None:
    """The group is upgraded while a member waits for the others."""
    other = Classic(coordinator)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription())],
    )
    write = coordinator.machine.classic.join(request, CLIENT, 3, coordinator.now)
    waiting = cast("Deferred[JoinGroupResponse]", coordinator.perform(write))
    consumer = Consumer(coordinator, "new", ("A",))
    upgrade = coordinator.machine.consumer.heartbeat(consumer.request(), CLIENT, coordinator.now)
    told = [reply.value.error_code for reply in upgrade.replies if reply.deferred is waiting]
    assert told == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert other.member_id == ""


def test_the_last_new_member_takes_the_protocol_with_it(coordinator: Coordinator, classic: Classic) -> None:
    consumer = Consumer(coordinator, "new", ("A",))
    consumer.beat()
    classic.catch_up()
    consumer.leave()
    group = coordinator.machine.tables.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state, set(group.members)) == (GroupState.PREPARING_REBALANCE, {classic.member_id})
    answer = classic.join()
    assert (answer.error_code, answer.leader) == (ErrorCode.NONE, classic.member_id)
    classic.sync(0, 1, 2, 3)
    assert (classic.owned, classic.heartbeat()) == ({0, 1, 2, 3}, ErrorCode.NONE)


def test_a_new_member_that_dies_takes_the_protocol_with_it_too(coordinator: Coordinator, classic: Classic) -> None:
    Consumer(coordinator, "new", ("A",)).beat()
    for _ in range(50):
        coordinator.pass_time(1.0)
        if isinstance(coordinator.machine.tables.groups[GROUP], ConsumerGroup):
            classic.catch_up()
    assert isinstance(coordinator.machine.tables.groups[GROUP], ClassicGroup)


def test_a_classic_member_that_is_silent_is_removed(coordinator: Coordinator, classic: Classic) -> None:
    """After its own session time-out, not the consumer group's."""
    consumer = Consumer(coordinator, "new", ("A",))
    for _ in range(12):
        coordinator.pass_time(1.0)
        consumer.beat()
    settle(coordinator, [consumer])
    assert set(coordinator.group.members) == {"new"}
    assert len(consumer.owned) == 4


def test_a_classic_member_joins_a_consumer_group(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "new", ("A",))
    settle(coordinator, [consumer], rounds=2)
    classic = Classic(coordinator)
    assert classic.join().error_code == ErrorCode.NONE
    classic.sync()
    for _ in range(3):
        coordinator.pass_time(1.0)
        consumer.beat()
        classic.catch_up()
    assert len(classic.owned) == len(consumer.owned) == 2


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0\0\7", b"\xff\xff\0\0"])
def test_what_cannot_be_read_is_not_let_in(coordinator: Coordinator, metadata: bytes) -> None:
    Consumer(coordinator, "new", ("A",)).beat()
    with pytest.raises(KafkaError) as refused:
        Classic(coordinator).join(metadata=metadata)
    assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_protocol_that_others_lack_is_not_let_in(coordinator: Coordinator, classic: Classic) -> None:
    Consumer(coordinator, "new", ("A",)).beat()
    with pytest.raises(KafkaError) as refused:
        Classic(coordinator).join("roundrobin")
    assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_no_upgrade_against_the_policy(policy: str) -> None:
    coordinator = Coordinator(A, group_initial_rebalance_delay_ms="0", group_consumer_migration_policy=policy)
    member = Classic(coordinator)
    member.join()
    member.sync(0)
    assert Consumer(coordinator, "new", ("A",)).beat() is ErrorCode.GROUP_ID_NOT_FOUND


def test_no_downgrade_against_the_policy() -> None:
    coordinator = Coordinator(A, group_initial_rebalance_delay_ms="0", group_consumer_migration_policy="upgrade")
    classic = Classic(coordinator)
    classic.join()
    classic.sync(0)
    consumer = Consumer(coordinator, "new", ("A",))
    consumer.beat()
    consumer.leave()
    assert set(coordinator.group.members) == {classic.member_id}


def test_an_empty_group_changes_with_who_joins(coordinator: Coordinator, classic: Classic) -> None:
    classic.leave()
    consumer = Consumer(coordinator, "new", ("A",))
    consumer.beat()
    assert len(consumer.owned) == 4
    consumer.leave()
    again = Classic(coordinator)
    assert again.join().leader == again.member_id
    assert isinstance(coordinator.machine.tables.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_crash_finds_the_group_as_it_was(coordinator: Coordinator, classic: Classic, is_compacted: bool) -> None:
    consumer = Consumer(coordinator, "new", ("A",))
    consumer.beat()
    classic.catch_up()
    before = durable(coordinator.group)
    coordinator.crash(coordinator.compacted() if is_compacted else None)
    assert durable(coordinator.group) == before
    consumer.leave()
    coordinator.crash(coordinator.compacted() if is_compacted else None)
    group = coordinator.machine.tables.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {classic.member_id}


def test_subscriptions_of_all_versions_are_read() -> None:
    first = read_subscription(bytes.fromhex("0000 00000001 000141 ffffffff".replace(" ", "")))
    third = read_subscription(
        bytes.fromhex("0003 00000001 000141 ffffffff 00000001 000141 00000002 00000000 00000001 00000001 ffff")
    )
    later = read_subscription(bytes.fromhex("0009 00000001 000141 ffffffff 00000000 00000001 ffff 1234"))
    assert first is not None and third is not None and later is not None
    assert (first.version, first.topics, first.owned) == (0, {"A"}, {})
    assert (third.version, third.owned) == (3, {"A": [0, 1]})
    assert (later.version, later.topics) == (9, {"A"})
