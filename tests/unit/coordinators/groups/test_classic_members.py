"""Members of a classic group that sync, beat, leave, go silent or start again."""

from __future__ import annotations

import pytest

from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.group_shard import REBALANCE_MS, SESSION_MS, GroupShard, outcome
from tests.fakes.group_steps import joined, pair, settled, state, told

REBALANCE = REBALANCE_MS / 1000
SESSION = SESSION_MS / 1000


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard()


def codes(answers: object) -> list[int]:
    return [each.error_code for each in outcome(answers)]  # type: ignore[arg-type]


# --- sync ---


def test_everybody_gets_their_own_assignment_when_the_leader_hands_it_in(shard: GroupShard) -> None:
    first = settled(shard)
    other = shard.join(told(shard))
    joined(shard, first.member_id)
    other_id = outcome(other).member_id
    waiting = shard.sync(other_id, 2)
    assert outcome(waiting) is None
    leader = shard.sync(first.member_id, 2, {first.member_id: b"a", other_id: b"b"})
    assert outcome(leader) is None
    shard.log.commit()
    assert (outcome(leader).assignment, outcome(waiting).assignment) == (b"a", b"b")
    assert outcome(waiting).protocol_name == "range"
    assert outcome(shard.sync(other_id, 2)).assignment == b"b"


def test_a_follower_that_syncs_late_waits_for_the_commit_only(shard: GroupShard) -> None:
    first = settled(shard)
    other = shard.join(told(shard))
    joined(shard, first.member_id)
    shard.sync(first.member_id, 2, {outcome(other).member_id: b"b"})
    late = shard.sync(outcome(other).member_id, 2)
    assert outcome(late) is None
    shard.log.commit()
    assert outcome(late).assignment == b"b"


def test_who_is_not_in_the_assignment_gets_nothing(shard: GroupShard) -> None:
    first = joined(shard)
    answer = shard.sync(first.member_id, 1)
    shard.log.commit()
    assert outcome(answer).assignment == b""
    assert state(shard) == "Stable"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"kind": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(shard: GroupShard, changes: dict[str, object], code: ErrorCode) -> None:
    leader, _ = pair(shard)
    asked = {"member_id": leader.member_id, "generation": 2, **changes}
    assert outcome(shard.sync(**asked)) is code  # type: ignore[arg-type]


def test_members_that_never_sync_are_given_up(shard: GroupShard) -> None:
    first = settled(shard)
    other = shard.join(told(shard))
    joined(shard, first.member_id)
    other_id = outcome(other).member_id
    shard.sync(first.member_id, 2, {})
    shard.log.commit()
    for _ in range(int(REBALANCE / SESSION) + 1):
        shard.pass_time(SESSION - 0.1)
        shard.heartbeat(first.member_id, 2)
        shard.heartbeat(other_id, 2)
    shard.pass_time(SESSION - 0.1)
    assert shard.heartbeat(first.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.heartbeat(other_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_too_large_for_the_log_is_refused_and_stays(shard: GroupShard) -> None:
    first = joined(shard)
    shard.log.refusal = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    assert outcome(shard.sync(first.member_id, 1, {first.member_id: b"x"})) is ErrorCode.UNKNOWN_SERVER_ERROR
    shard.log.refusal = None
    assert state(shard) == "CompletingRebalance"
    answer = shard.sync(first.member_id, 1, {first.member_id: b"x"})
    shard.log.commit()
    assert outcome(answer).assignment == b"x"


# --- sessions ---


def test_a_silent_member_is_given_up_after_its_session(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    shard.pass_time(SESSION - 1)
    assert shard.heartbeat(follower.member_id, 2) is ErrorCode.NONE
    shard.pass_time(SESSION - 1)
    assert shard.heartbeat(follower.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.heartbeat(leader.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    answer = joined(shard, follower.member_id)
    assert (answer.generation_id, answer.leader, len(answer.members)) == (3, follower.member_id, 1)


def test_heartbeats_write_nothing_and_move_no_timer(shard: GroupShard) -> None:
    leader, _ = pair(shard)
    armed = dict(shard.timers.armed)
    for _ in range(5):
        shard.now += 1
        assert shard.heartbeat(leader.member_id, 2) is ErrorCode.NONE
    assert shard.timers.armed == armed
    assert shard.log.under_way == 0


def test_a_commit_is_as_good_as_a_heartbeat(shard: GroupShard) -> None:
    first = settled(shard)
    for _ in range(3):
        shard.pass_time(SESSION - 1)
        answer = shard.commit({TopicPartition("t", 0): 1}, member_id=first.member_id, generation=1)
        shard.log.commit()
        assert outcome(answer) == [ErrorCode.NONE]


def test_members_that_wait_for_the_others_do_not_expire(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    waiting = shard.join(leader.member_id)
    for _ in range(4):
        shard.pass_time(SESSION - 1)
        shard.heartbeat(follower.member_id, 2)
    assert outcome(waiting) is None
    assert joined(shard, follower.member_id).generation_id == 3
    assert outcome(waiting).generation_id == 3
    shard.pass_time(SESSION)
    assert shard.heartbeat(leader.member_id, 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_sync_is_refused_late_must_be_heard_of_again(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    shard.join(leader.member_id)
    joined(shard, follower.member_id)
    waiting = shard.sync(follower.member_id, 3)
    shard.pass_time(SESSION - 1)
    shard.heartbeat(leader.member_id, 3)
    shard.pass_time(SESSION - 1)
    shard.join(leader.member_id, protocols={"range": b"new"})
    assert outcome(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.heartbeat(follower.member_id, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.pass_time(SESSION)
    assert shard.heartbeat(follower.member_id, 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_waits_is_given_up_after_five_minutes(shard: GroupShard) -> None:
    patient = {"session_ms": 1_000_000, "rebalance_ms": 3_600_000}
    first = settled(shard, **patient)
    waiting = shard.join(told(shard))
    shard.pass_time(299)
    assert outcome(waiting) is None
    shard.pass_time(1)
    assert outcome(waiting).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# --- leaving ---


def test_when_a_member_leaves_the_others_share_what_it_had(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    assert codes(shard.leave(leader.member_id)) == [ErrorCode.NONE]
    assert shard.heartbeat(follower.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(shard, follower.member_id).leader == follower.member_id


def test_the_last_member_leaves_an_empty_group(shard: GroupShard) -> None:
    first = settled(shard)
    answer = shard.leave(first.member_id)
    assert outcome(answer) is None
    shard.log.commit()
    assert codes(answer) == [ErrorCode.NONE]
    assert state(shard) == "Empty"
    assert shard.machine.tables.groups["group"].protocol_type == "consumer"


def test_several_leave_at_once_each_with_their_own_answer(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    pending = told(shard)
    answers = shard.leave(leader.member_id, "nobody", pending, leader.member_id, "")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes(answers) == [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown, unknown]
    assert joined(shard, follower.member_id).generation_id == 3


def test_a_member_that_waits_hears_that_it_was_removed(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    waiting = shard.join(follower.member_id, protocols={"range": b"new"})
    shard.leave(follower.member_id)
    assert outcome(waiting).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert joined(shard, leader.member_id).generation_id == 3


def test_nobody_can_leave_a_group_that_is_not_there(shard: GroupShard) -> None:
    assert outcome(shard.leave("somebody")) is ErrorCode.UNKNOWN_MEMBER_ID


# --- static members ---


def static(shard: GroupShard, instance: str, **changes: object) -> str:
    waiting = shard.join(instance=instance, **changes)  # type: ignore[arg-type]
    shard.pass_time(0)
    shard.log.commit()
    return str(outcome(waiting).member_id)


def test_a_static_member_joins_without_being_sent_back(shard: GroupShard) -> None:
    assert static(shard, "i").startswith("i-")


def test_a_static_member_that_starts_again_keeps_its_assignment(shard: GroupShard) -> None:
    old = static(shard, "i")
    shard.sync(old, 1, {old: b"mine"}, instance="i")
    shard.log.commit()
    waiting = shard.join(instance="i")
    assert outcome(waiting) is None
    shard.log.commit()
    answer = outcome(waiting)
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (1, answer.member_id, True)
    assert [each.member_id for each in answer.members] == [answer.member_id]
    assert outcome(shard.sync(answer.member_id, 1, instance="i")).assignment == b"mine"
    shard.crash()
    assert outcome(shard.sync(answer.member_id, 1, instance="i")).assignment == b"mine"


def test_before_version_9_a_returning_leader_is_told_its_old_id(shard: GroupShard) -> None:
    old = static(shard, "i")
    shard.sync(old, 1, {old: b"mine"}, instance="i")
    waiting = shard.join(instance="i", version=8)
    shard.log.commit()
    answer = outcome(waiting)
    assert (answer.leader, answer.skip_assignment, list(answer.members)) == (old, False, [])


def test_the_older_self_of_a_static_member_is_fenced(shard: GroupShard) -> None:
    old = static(shard, "i")
    shard.sync(old, 1, instance="i")
    shard.join(instance="i")
    shard.log.commit()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert shard.heartbeat(old, 1, instance="i") is fenced
    assert outcome(shard.sync(old, 1, instance="i")) is fenced
    assert outcome(shard.join(old, instance="i")) is fenced
    assert codes(shard.leave((old, "i"))) == [fenced]
    assert outcome(shard.commit({}, member_id=old, generation=1, instance="i")) is fenced
    assert shard.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_older_self_that_waits_hears_it_at_once(shard: GroupShard) -> None:
    leader = settled(shard)
    waiting = shard.join(instance="i")
    shard.join(instance="i")
    assert outcome(waiting).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert joined(shard, leader.member_id).generation_id == 2


def test_a_static_member_with_another_protocol_makes_the_group_rebalance(shard: GroupShard) -> None:
    old = static(shard, "i", protocols={"range": b"", "sticky": b""})
    shard.sync(old, 1, instance="i")
    shard.log.commit()
    new = shard.join(instance="i", protocols={"sticky": b"", "range": b""})
    assert outcome(new).generation_id == 2
    assert outcome(new).protocol_name == "sticky"


def test_an_administrator_removes_static_members_by_their_instance(shard: GroupShard) -> None:
    static(shard, "i")
    assert codes(shard.leave(("", "other"))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    answer = shard.leave(("", "i"))
    shard.log.commit()
    assert codes(answer) == [ErrorCode.NONE]
    assert state(shard) == "Empty"


def test_static_members_that_are_late_stay_until_their_session_ends(shard: GroupShard) -> None:
    old = static(shard, "i", session_ms=200_000)
    shard.sync(old, 1, instance="i")
    new = shard.join(told(shard))
    shard.pass_time(REBALANCE)
    answer = outcome(new)
    assert (answer.generation_id, len(answer.members), answer.leader) == (2, 2, answer.member_id)


# --- what survives ---


def test_a_stable_group_survives_a_crash(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    shard.crash()
    assert state(shard) == "Stable"
    assert shard.heartbeat(leader.member_id, 2) is ErrorCode.NONE
    assert outcome(shard.sync(follower.member_id, 2)).assignment == b"f"
    assert outcome(shard.join(follower.member_id)).generation_id == 2
    shard.pass_time(SESSION)
    assert shard.heartbeat(leader.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_waits_is_sent_to_the_next_coordinator(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    joining = shard.join(leader.member_id)
    shard.crash()
    assert outcome(joining) is ErrorCode.NOT_COORDINATOR
    assert shard.heartbeat(follower.member_id, 2) is ErrorCode.NONE


def test_an_assignment_that_is_lost_is_not_told(shard: GroupShard) -> None:
    leader, follower = pair(shard)
    shard.join(leader.member_id)
    joined(shard, follower.member_id)
    answer = shard.sync(leader.member_id, 3, {leader.member_id: b"new"})
    shard.log.lose()
    assert outcome(answer) is ErrorCode.NOT_COORDINATOR
    assert outcome(shard.sync(leader.member_id, 2)).assignment == b"l"


def test_an_empty_group_survives_with_its_generation(shard: GroupShard) -> None:
    first = settled(shard)
    shard.leave(first.member_id)
    shard.log.commit()
    shard.crash()
    assert state(shard) == "Empty"
    assert joined(shard).generation_id == 3
