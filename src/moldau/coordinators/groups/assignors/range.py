"""`range`: each topic by itself, in consecutive blocks over its subscribers; the first ones get one more.

Topics with the same subscribers and as many partitions are dealt out alike, which keeps partitions with the same keys
together. Static members stand in the order of their instance ids, so that a restart moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from moldau.coordinators.groups.assignors.problem import Assignment, Subscriber
from moldau.work.slices import Work, pauses


def assign(subscribers: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> Work[dict[str, Assignment]]:
    paused = pauses()
    in_order = sorted(subscribers, key=rank)
    result: dict[str, dict[UUID, frozenset[int]]] = {subscriber.member_id: {} for subscriber in subscribers}
    for topic_id, count in partitions.items():
        takers = [subscriber for subscriber in in_order if topic_id in subscriber.topics]
        yield
        if not takers:
            continue
        size, longer = divmod(count, len(takers))
        start = 0
        for position, taker in enumerate(takers):
            end = start + size + (position < longer)
            if end > start:
                result[taker.member_id][topic_id] = frozenset(range(start, end))
            start = end
            if next(paused):
                yield
    return dict(result)


def rank(subscriber: Subscriber) -> tuple[bool, str]:
    """Static members first."""
    is_dynamic = subscriber.instance_id is None
    return is_dynamic, subscriber.member_id if subscriber.instance_id is None else subscriber.instance_id
