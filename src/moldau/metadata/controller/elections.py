"""One partition from one state to the next: who is in sync, who is eligible, who leads, and in which epoch.

Every rule that touches a partition says what it wants as a Draft and lets `settle` do the rest, in this order:

0. whoever is fenced, leaving, or has lost the directory leaves the in-sync set;
1. a reassignment whose target is in sync is complete: what it removes leaves;
2. whoever leaves an in-sync set that is smaller than the minimum stays eligible to lead (ELR, KIP-966): nothing is
   committed without it from then on. Not so one that came back from an unclean stop;
3. a leader is chosen: the present one if it can, else the first replica in sync or, with nobody in sync, the first
   eligible one; else the last leader, unless its disk was lost or may have been, as *recovering*; else, where the topic
   allows unclean elections, any replica that is there, recovering too;
4. the leader epoch rises with each new leader, and whenever a replica leaves. A change of the in-sync set alone raises
   only the partition epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.tables import topic_settings
from moldau.metadata.controller.min_insync import MIN_INSYNC_REPLICAS
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import NO_LEADER, PartitionImage, TopicImage

UNCLEAN_ELECTIONS = "unclean.leader.election.enable"


class Election(Enum):
    CLEAN = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What a topic's settings say about elections."""

    min_in_sync: int
    unclean: bool

    def needed_of(self, replicas: Collection[int]) -> int:
        """How many must be in sync for anything to be committed, in a partition with these replicas. Partitions of one
        topic may have different numbers of them."""
        return min(self.min_in_sync, len(replicas))

    @property
    def election(self) -> Election:
        return Election.UNCLEAN if self.unclean else Election.CLEAN


def rules_of(topic: TopicImage, broker: BrokerConfig) -> TopicRules:
    minimum, unclean = (_setting(topic, broker, name) for name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTIONS))
    return TopicRules(int(minimum), bool(unclean))


def _setting(topic: TopicImage, broker: BrokerConfig, name: str) -> Any:
    text = topic.configs.get(name)
    return broker.topic_defaults[name] if text is None else topic_settings()[name].parse(text)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a partition shall have, before eligible replicas, leader and epochs follow from it."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovering: bool

    @classmethod
    def of(cls, partition: PartitionImage) -> Draft:
        return cls(partition.isr, partition.replicas, partition.adding, partition.removing, partition.recovering)


def settle(
    old: PartitionImage, draft: Draft, standing: Standing, rules: TopicRules, election: Election
) -> PartitionImage:
    """The partition as the draft wants it; equal to `old` where nothing changes. Partition epoch and version are left
    to whoever writes it."""
    old = standing.located(old)
    draft = completed(replace(draft, isr=tuple(each for each in draft.isr if standing.is_fit(each, old))))
    needed = rules.needed_of(draft.replicas)
    elr = _eligible(old, draft, standing, needed)
    leader, unclean = _elect(old, draft, elr, standing, election)
    isr, recovering = draft.isr, draft.recovering
    if unclean:
        isr, elr, recovering = (leader,), (), True
    elif leader in elr:
        # From now on it commits by itself, if one replica is enough: the others' claim ends.
        isr, elr = (leader,), without(elr, (leader,)) if needed > 1 else ()
    left = any(replica not in draft.replicas for replica in old.replicas)
    return replace(
        old,
        replicas=draft.replicas,
        isr=isr,
        leader=leader,
        leader_epoch=old.leader_epoch + (leader != old.leader or left),
        adding=draft.adding,
        removing=draft.removing,
        elr=elr,
        last_known_leader=_last_leader(old, leader, standing),
        recovering=recovering,
        directories=_directories(old, draft.replicas),
    )


def completed(draft: Draft) -> Draft:
    """A reassignment is complete when all of its target is in sync."""
    if not (draft.adding or draft.removing):
        return draft
    target = without(draft.replicas, draft.removing)
    isr = without(draft.isr, draft.removing)
    if not target or not isr or any(replica not in isr for replica in target):
        return draft
    return replace(draft, replicas=target, isr=isr, adding=(), removing=())


def without(replicas: Iterable[int], others: Collection[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in others)


def _eligible(old: PartitionImage, draft: Draft, standing: Standing, needed: int) -> tuple[int, ...]:
    if len(draft.isr) >= needed:
        return ()
    return tuple(
        replica
        for replica in draft.replicas
        if (replica in old.isr or replica in old.elr)
        and replica not in draft.isr
        and standing.may_hold_all(replica, old)
    )


def _elect(
    old: PartitionImage, draft: Draft, elr: tuple[int, ...], standing: Standing, election: Election
) -> tuple[int, bool]:
    """The leader, and whether it is one that may lack something that was committed."""
    voters = draft.isr or elr
    able = [replica for replica in draft.replicas if replica in voters and standing.is_fit(replica, old)]
    if election is Election.PREFERRED and draft.replicas[0] in able:
        return draft.replicas[0], False
    if old.leader in able:
        return old.leader, False
    if able:
        return able[0], False
    if not voters and _may_return(old, draft, standing):
        return old.last_known_leader, True
    if election is Election.UNCLEAN:
        for replica in draft.replicas:
            if standing.is_fit(replica, old):
                return replica, True
    return NO_LEADER, False


def _may_return(old: PartitionImage, draft: Draft, standing: Standing) -> bool:
    last = old.last_known_leader
    return last in draft.replicas and standing.is_fit(last, old) and standing.may_return(last, old)


def _last_leader(old: PartitionImage, leader: int, standing: Standing) -> int:
    if leader != NO_LEADER:
        return NO_LEADER
    last = old.leader if old.leader != NO_LEADER else old.last_known_leader
    return last if standing.may_return(last, old) else NO_LEADER


def _directories(old: PartitionImage, replicas: tuple[int, ...]) -> tuple[UUID | None, ...]:
    if replicas == old.replicas or not old.directories:
        return old.directories
    known = dict(zip(old.replicas, old.directories, strict=True))
    return tuple(known.get(replica) for replica in replicas)
