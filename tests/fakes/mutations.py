"""Mistakes that Kafka once made in replication, put into the product's rules from outside: a test that cannot find them
proves little. Each is a set of attributes to be replaced, as pytest's `monkeypatch` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moldau.replication import follower
from moldau.replication.fetch_sessions import FetchTarget
from moldau.replication.follower import Asked, FetchPlan, Followed
from moldau.replication.leader import Leadership
from moldau.replication.partition import Partition
from moldau.server import fetching
from moldau.types.ids import NO_EPOCH

Patch = tuple[Any, str, Any]


def truncate_to_the_mark() -> list[Patch]:
    """1: a new follower cuts its log at its own high watermark (KAFKA-1211, KIP-101)."""
    right = FetchPlan.follow

    def follow(plan: FetchPlan, partition: Partition) -> None:
        right(plan, partition)
        log = partition.log
        if log is not None and partition.high_watermark < log.log_end_offset:
            log.truncate_to(partition.high_watermark)
            partition.log_truncated()

    return [(FetchPlan, "follow", follow)]


def truncate_once() -> list[Patch]:
    """2: one step to the leader's answer, without asking again for an epoch that is unknown here (KAFKA-6361)."""
    was_cut: set[Followed] = set()
    asks, resume = Followed.asks, FetchPlan.resume

    def point(log: Any, epoch: int, leader_end: int) -> int:
        return min(leader_end, int(log.log_end_offset))

    def asks_without_epoch(followed: Followed, log: Any) -> Asked:
        asked = asks(followed, log)
        return asked._replace(last_fetched_epoch=NO_EPOCH) if followed in was_cut else asked

    def resume_without_asking(plan: FetchPlan, followed: Followed) -> None:
        was_cut.add(followed)
        resume(plan, followed)

    return [
        (follower, "truncation_point", point),
        (Followed, "asks", asks_without_epoch),
        (FetchPlan, "resume", resume_without_asking),
    ]


def ignore_the_current_epoch() -> list[Patch]:
    """3: a leader serves followers of any epoch (KAFKA-6880)."""
    return [(Partition, "check_epoch", lambda partition, told_epoch: None)]


def join_at_the_mark() -> list[Patch]:
    """4: a follower joins at the mark, without the start of the epoch (KAFKA-7128)."""

    def may_join(leadership: Leadership, replica_id: int, mark: int) -> bool:
        return leadership.followers[replica_id].end_offset >= mark and leadership.is_eligible(replica_id)

    return [(Leadership, "may_join", may_join)]


def count_the_proposal() -> list[Patch]:
    """5: the mark follows a change of the in-sync set before it is accepted (KIP-497)."""

    def counted(leadership: Leadership, leader_end: int) -> Iterable[int]:
        isr = leadership.term.isr if leadership.pending is None else leadership.pending.isr
        return [replica for replica in leadership.followers if replica in isr and replica in leadership.term.isr]

    return [(Leadership, "counted", counted)]


def use_old_answers() -> list[Patch]:
    """8: an answer to a fetch of an older leader epoch is used (KAFKA-18991)."""

    return [(Followed, "counts", lambda followed, log: True)]


def count_what_diverges() -> list[Patch]:
    """9: the leader notes a follower's offset although its answer is a divergence (KAFKA-13141)."""
    right, reading = fetching.divergence, fetching.read_partition

    def read_partition(broker: Any, partition: Partition, target: FetchTarget, limits: Any, *rest: Any) -> Any:
        def divergence(log: Any, asked: FetchTarget) -> tuple[int, int] | None:
            found = right(log, asked)
            if found is not None and limits.is_follower:
                fetching.note_progress(broker, partition, target, limits)
            return found

        fetching.divergence = divergence
        try:
            return reading(broker, partition, target, limits, *rest)
        finally:
            fetching.divergence = right

    return [(fetching, "read_partition", read_partition)]


MUTATIONS: dict[int, Callable[[], list[Patch]]] = {
    1: truncate_to_the_mark,
    2: truncate_once,
    3: ignore_the_current_epoch,
    4: join_at_the_mark,
    5: count_the_proposal,
    8: use_old_answers,
    9: count_what_diverges,
}
