"""Steps that many tests of classic groups take."""

from __future__ import annotations

from moldau.types.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupResponse
from tests.fakes.group_shard import GroupShard, outcome


def told(shard: GroupShard, **changes: object) -> str:
    """The id that a new member is given."""
    deferred = shard.join(**changes)  # type: ignore[arg-type]
    shard.log.commit()
    answer = outcome(deferred)
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    return str(answer.member_id)


def joined(shard: GroupShard, member_id: str = "", **changes: object) -> JoinGroupResponse:
    """Joins a group that waits for nobody else."""
    deferred = shard.join(member_id or told(shard, **changes), **changes)  # type: ignore[arg-type]
    shard.pass_time(0)
    shard.log.commit()
    answer = outcome(deferred)
    assert isinstance(answer, JoinGroupResponse)
    return answer


def settled(shard: GroupShard, **changes: object) -> JoinGroupResponse:
    """The only member of a stable group."""
    answer = joined(shard, **changes)
    shard.sync(answer.member_id, answer.generation_id, {answer.member_id: b"all"})
    shard.log.commit()
    return answer


def pair(shard: GroupShard) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """Leader and follower of a stable group."""
    first = settled(shard)
    other = told(shard)
    waiting = shard.join(other)
    leader = joined(shard, first.member_id)
    follower = outcome(waiting)
    shard.sync(leader.member_id, leader.generation_id, {leader.member_id: b"l", follower.member_id: b"f"})
    shard.sync(follower.member_id, follower.generation_id)
    shard.log.commit()
    return leader, follower


def state(shard: GroupShard) -> str:
    return shard.machine.tables.groups["group"].state_name
