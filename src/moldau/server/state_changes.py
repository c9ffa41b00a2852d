"""Tells in the log which topics come, grow and go, and who leads which partitions instead of whom.

The controller tells of topics (Kafka's controller.log), every broker of the leaders of what it has a replica of (its
state-change.log): a line for each kind of change in an image, with the names of some and the number of the others, so
that the death of a broker with thousands of partitions is a few lines. What happens to a broker that is alone is no
news.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from moldau.metadata.controller.claim import is_active_controller
from moldau.metadata.image import NO_LEADER, ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta, TopicDelta
from moldau.work.slices import Work, pauses

state_log = logging.getLogger("moldau.server.state_changes")
controller_log = logging.getLogger("moldau.server.controllership")

NAMED: Final = 10


class Named:
    """The first few of many, and how many more there are."""

    __slots__ = ("_count", "_names")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def __str__(self) -> str:
        more = self._count - len(self._names)
        return ", ".join(self._names) + (f" and {more} more" if more else "")

    @property
    def has_room(self) -> bool:
        return len(self._names) < NAMED

    def add(self, name: str) -> None:
        """`name` counts only where there is room."""
        self._count += 1
        if self.has_room:
            self._names.append(name)


class StateChanges:
    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def apply(self, _old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Work[None] | None:
        if not (delta.created or delta.deleted or delta.changed):
            return None
        return self._tell(logging.INFO if len(new.brokers) > 1 else logging.DEBUG, new, delta)

    def _tell(self, level: int, image: ClusterImage, delta: ImageDelta) -> Work[None]:
        if controller_log.isEnabledFor(level) and is_active_controller(image, self._broker_id):
            grown = [change for change in delta.changed if len(change.new.partitions) > len(change.old.partitions)]
            for what, topics in (
                ("new", delta.created),
                ("deleted", delta.deleted),
                ("grown", [change.new for change in grown]),
            ):
                if topics:
                    controller_log.log(level, "%s topics: %s", what, named_topics(topics))
        if state_log.isEnabledFor(level):
            moved = yield from self._moved(delta.changed)
            for (before, after), places in moved.items():
                state_log.log(level, "leader %s instead of %s: %s", leader_text(after), leader_text(before), places)

    def _moved(self, changes: Iterable[TopicDelta]) -> Work[dict[tuple[int, int], Named]]:
        """What changed its leader or its epoch, by who led before and who leads now."""
        paused = pauses()
        found: dict[tuple[int, int], Named] = {}
        for change in changes:
            for index in change.partitions:
                if next(paused):
                    yield
                if index >= len(change.old.partitions):
                    continue
                before, after = change.old.partitions[index], change.new.partitions[index]
                is_here = self._broker_id in before.replicas or self._broker_id in after.replicas
                if is_here and before.leader_epoch != after.leader_epoch:
                    places = found.setdefault((before.leader, after.leader), Named())
                    places.add(f"{change.new.name}-{index} (epoch {after.leader_epoch})" if places.has_room else "")
        return found


def named_topics(topics: Iterable[TopicImage]) -> Named:
    found = Named()
    for topic in topics:
        count = len(topic.partitions)
        found.add(f"{topic.name} ({count} partition{'' if count == 1 else 's'})")
    return found


def leader_text(leader: int) -> str:
    return "none" if leader == NO_LEADER else str(leader)
