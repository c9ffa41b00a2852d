"""How a member of a consumer group moves from what it holds to what it is meant to have.

    STABLE ──a new target takes partitions away──► UNREVOKED_PARTITIONS ──the member reports them gone──┐
      ▲  └────────────────────a new target takes nothing away──────────────────────────────────────────▼
      │                                                                              next epoch: it gets what is free
      └───it has all───┬───UNRELEASED_PARTITIONS ◄──others still hold some of its partitions───────────┘
                       └────looks again at each heartbeat

A member's epoch rises to the target's only when it has given back what is not its own any more. No partition is given
to a member while another one holds it, so that no two members ever consume the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from moldau.coordinators.groups.consumer_member import ConsumerMember, Held, MemberState, Owned, Target


class Circumstances(NamedTuple):
    """What a member's next step depends on, besides the member."""

    target_epoch: int
    target: Target
    #: Whether nobody else holds this partition.
    is_free: Callable[[UUID, int], bool]
    #: Whether the member is subscribed to this topic; the target may be older than the subscription.
    is_subscribed: Callable[[UUID], bool]
    #: What the member says it owns; None if it does not say.
    owned: Owned | None = None
    subscription_changed: bool = False


def reconcile(member: ConsumerMember, around: Circumstances) -> ConsumerMember:
    """The member after this heartbeat; the same object if nothing changes."""
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if around.owned is None or overlap(member.revoking, around.owned):
            return drop_unsubscribed(member, around)
        return step(replace(member, revoking={}), around)
    if member.state is MemberState.UNRELEASED_PARTITIONS or member.epoch != around.target_epoch:
        return step(member, around)
    return drop_unsubscribed(member, around)


def drop_unsubscribed(member: ConsumerMember, around: Circumstances) -> ConsumerMember:
    """What the member does not want any more is taken back at once, before there is a new target."""
    if not around.subscription_changed:
        return member
    unwanted = {topic_id: held for topic_id, held in member.assigned.items() if not around.is_subscribed(topic_id)}
    if not unwanted:
        return member
    kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in unwanted}
    still_owned = {topic_id: held for topic_id, held in unwanted.items() if owns(around.owned, topic_id, held)}
    if not still_owned:
        return replace(member, assigned=kept, previous_epoch=member.epoch)
    return replace(
        member,
        assigned=kept,
        revoking={**member.revoking, **still_owned},
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_epoch=member.epoch,
    )


def step(member: ConsumerMember, around: Circumstances) -> ConsumerMember:
    kept, revoking = split(member.assigned, around)
    if any(owns(around.owned, topic_id, held) for topic_id, held in revoking.items()):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    gained, must_wait = available(kept, around)
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE,
        epoch=around.target_epoch,
        previous_epoch=member.epoch,
        assigned=gained,
        revoking={},
    )


def split(assigned: Held, around: Circumstances) -> tuple[Held, Held]:
    """What the member keeps of its partitions, and what it must give back."""
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, held in assigned.items():
        wanted = around.target.get(topic_id, frozenset()) if around.is_subscribed(topic_id) else frozenset()
        for partition, epoch in held.items():
            side = kept if partition in wanted else revoking
            side.setdefault(topic_id, {})[partition] = epoch
    return kept, revoking


def available(kept: Held, around: Circumstances) -> tuple[Held, bool]:
    """What the member has after it was given all that is free, and whether more is to come."""
    result = {topic_id: dict(held) for topic_id, held in kept.items()}
    must_wait = False
    for topic_id, partitions in around.target.items():
        held = kept.get(topic_id, {})
        if len(held) == len(partitions) or not around.is_subscribed(topic_id):
            continue
        for partition in sorted(partitions - held.keys()):
            if around.is_free(topic_id, partition):
                result.setdefault(topic_id, {})[partition] = around.target_epoch
            else:
                must_wait = True
    return result, must_wait


def overlap(held: Held, owned: Owned) -> bool:
    return any(not held[topic_id].keys().isdisjoint(owned.get(topic_id, ())) for topic_id in held)


def owns(owned: Owned | None, topic_id: UUID, held: Mapping[int, int]) -> bool:
    """A member that does not say what it owns may own all it was given."""
    return owned is None or not held.keys().isdisjoint(owned.get(topic_id, ()))
