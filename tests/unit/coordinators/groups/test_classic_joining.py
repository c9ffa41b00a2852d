"""Joining a classic group: ids, protocols, rebalances."""

from __future__ import annotations

import pytest

from moldau.types.errors import ErrorCode
from tests.fakes.group_shard import REBALANCE_MS, SESSION_MS, GroupShard, outcome
from tests.fakes.group_steps import joined, pair, settled, state, told

REBALANCE = REBALANCE_MS / 1000
SESSION = SESSION_MS / 1000


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard()


# --- ids ---


def test_a_new_member_gets_an_id_and_must_come_back_with_it(shard: GroupShard) -> None:
    first = outcome(shard.join(client="who"))
    assert first is None
    shard.log.commit()
    member_id = told(shard, client="who")
    assert member_id.startswith("who-")
    assert len(member_id) == len("who-") + 36
    assert state(shard) == "Empty"
    answer = joined(shard, member_id)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, member_id)


def test_before_version_4_a_new_member_joins_at_once(shard: GroupShard) -> None:
    deferred = shard.join(version=3)
    shard.pass_time(0)
    assert outcome(deferred).generation_id == 1


def test_an_id_that_is_not_used_in_time_is_forgotten(shard: GroupShard) -> None:
    member_id = told(shard)
    shard.pass_time(SESSION)
    assert outcome(shard.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_only_created_for_new_members(shard: GroupShard) -> None:
    assert outcome(shard.join("somebody")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.machine.tables.groups == {}


def test_a_member_that_was_given_an_id_keeps_the_others_waiting(shard: GroupShard) -> None:
    first = settled(shard)
    told(shard)
    waiting = shard.join(first.member_id)
    assert state(shard) == "PreparingRebalance"
    shard.pass_time(SESSION - 1)
    assert outcome(waiting) is None
    shard.pass_time(1)
    assert outcome(waiting).generation_id == 2


# --- protocols ---


def test_the_leader_learns_of_all_members_and_the_others_do_not(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    assert {each.member_id for each in leader.members} == {leader.member_id, follower.member_id}
    assert {bytes(each.metadata) for each in leader.members} == {b"metadata"}
    assert list(follower.members) == []
    assert follower.leader == leader.leader == leader.member_id


def test_most_votes_among_the_common_protocols_win(shard: GroupShard) -> None:
    offers = [{"x": b"", "y": b"", "z": b""}, {"y": b"", "x": b""}, {"w": b"", "y": b"", "x": b""}]
    ids = [told(shard, protocols=offer) for offer in offers]
    waiting = [shard.join(member_id, protocols=offer) for member_id, offer in zip(ids, offers, strict=True)]
    shard.pass_time(0)
    assert {outcome(each).protocol_name for each in waiting} == {"y"}


@pytest.mark.parametrize(
    "changes",
    [{"kind": "connect"}, {"protocols": {"sticky": b""}}, {"protocols": {}}],
    ids=["another type", "no common protocol", "no protocol"],
)
def test_who_does_not_fit_is_refused(shard: GroupShard, changes: dict[str, object]) -> None:
    first = settled(shard)
    assert outcome(shard.join(**changes)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert outcome(shard.join(first.member_id, **changes)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert shard.heartbeat(first.member_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("changes", [{"kind": ""}, {"protocols": {}}], ids=["no type", "no protocols"])
def test_the_first_member_must_tell_its_protocols(shard: GroupShard, changes: dict[str, object]) -> None:
    assert outcome(shard.join(**changes)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]


def test_a_member_may_change_its_only_protocol_when_it_is_alone_after_leaving(shard: GroupShard) -> None:
    first = settled(shard)
    shard.leave(first.member_id)
    shard.log.commit()
    assert joined(shard, kind="connect", protocols={"other": b""}).protocol_name == "other"


# --- rebalances ---


def test_the_group_waits_for_its_members_up_to_the_rebalance_timeout(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    waiting = shard.join(told(shard))
    shard.pass_time(SESSION - 1)
    assert shard.heartbeat(leader.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.heartbeat(follower.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = shard.join(follower.member_id)
    for _ in range(int(REBALANCE / SESSION)):
        shard.heartbeat(leader.member_id, 2)
        assert outcome(waiting) is None
        shard.pass_time(SESSION - 1)
    shard.pass_time(REBALANCE)
    assert outcome(waiting).generation_id == outcome(rejoined).generation_id == 3
    assert outcome(rejoined).leader == follower.member_id
    assert shard.heartbeat(leader.member_id, 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_missed_its_answer_gets_it_again(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    again = outcome(shard.join(follower.member_id))
    assert (again.generation_id, again.leader, list(again.members)) == (2, leader.member_id, [])
    assert state(shard) == "Stable"


def test_the_leader_of_a_stable_group_makes_it_rebalance(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    waiting = shard.join(leader.member_id)
    assert state(shard) == "PreparingRebalance"
    assert joined(shard, follower.member_id).generation_id == outcome(waiting).generation_id == 3


def test_new_metadata_makes_the_group_rebalance(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    waiting = shard.join(follower.member_id, protocols={"range": b"new"})
    assert shard.heartbeat(leader.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = joined(shard, leader.member_id)
    assert {bytes(each.metadata) for each in answer.members} == {b"metadata", b"new"}
    assert outcome(waiting).generation_id == 3


def test_a_newcomer_before_the_sync_sends_everybody_back_to_joining(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    shard.join(leader.member_id)
    joined(shard, follower.member_id)
    syncing = shard.sync(follower.member_id, 3)
    shard.join(told(shard))
    assert outcome(syncing).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert outcome(shard.sync(leader.member_id, 3)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_request_that_is_sent_again_takes_the_place_of_the_first(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    first = shard.join(follower.member_id, protocols={"range": b"new"})
    second = shard.join(follower.member_id, protocols={"range": b"new"})
    assert outcome(first).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    joined(shard, leader.member_id)
    assert outcome(second).generation_id == 3


# --- the first rebalance ---


def test_the_first_rebalance_waits_for_more_members() -> None:
    shard = GroupShard(group_initial_rebalance_delay_ms=3000)
    first = shard.join(told(shard))
    shard.pass_time(2)
    second = shard.join(told(shard))
    shard.pass_time(2)
    assert (outcome(first), outcome(second)) == (None, None)
    shard.pass_time(2)
    assert outcome(first).generation_id == outcome(second).generation_id == 1
    assert len(outcome(first).members) == 2


def test_the_first_rebalance_ends_when_the_rebalance_timeout_is_used_up() -> None:
    shard = GroupShard(group_initial_rebalance_delay_ms=3000)
    first = shard.join(told(shard), rebalance_ms=5000)
    for _ in range(4):
        shard.pass_time(1)
        shard.join(told(shard), rebalance_ms=5000)
    assert outcome(first) is None
    shard.pass_time(1)
    assert len(outcome(first).members) == 5


# --- size ---


def test_a_full_group_takes_nobody_else() -> None:
    shard = GroupShard(group_max_size=2)
    leader, follower = pair(shard)
    refused = outcome(shard.join())
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert outcome(shard.join(follower.member_id)).generation_id == 2
    waiting = shard.join(leader.member_id)
    assert joined(shard, follower.member_id).generation_id == outcome(waiting).generation_id == 3


def test_a_group_that_became_too_large_lets_the_first_in() -> None:
    shard = GroupShard()
    leader, follower = pair(shard)
    shard.configure(group_max_size=1)
    shard.crash()
    assert shard.heartbeat(leader.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    waiting = shard.join(follower.member_id)
    refused = outcome(shard.join(leader.member_id))
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert outcome(waiting).leader == follower.member_id
