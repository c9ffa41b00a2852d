"""Works out the targets of large groups, outside of any request and a slice at a time.

Heartbeats go on meanwhile, with the targets there are: a group's assignment may be older than the group. The new
targets are written a few members at a time, and when all are there, the epoch that they belong to. Whatever changed
after that epoch is for the next round, which the next heartbeat begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from moldau.coordinators.groups.consumer_draft import Draft
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_member import Target
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import Write
from moldau.work.slices import Work

#: Members and partitions together; what is smaller is assigned at once, in a few milliseconds.
LARGE = 1500
YIELDS_PER_TURN = 4
TARGETS_PER_TURN = 32


class Assignments:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables
        self._under_way: set[str] = set()

    def is_under_way(self, group: ConsumerGroup) -> bool:
        return group.group_id in self._under_way

    def begin(self, group: ConsumerGroup, assignor: str, now: float) -> None:
        self._under_way.add(group.group_id)
        self._tables.timers.set(self._name(group), now, lambda later: self._start(group, assignor, later))

    def _name(self, group: ConsumerGroup) -> tuple[str, str]:
        return ("assignment", group.group_id)

    def _start(self, group: ConsumerGroup, assignor: str, now: float) -> Write[None]:
        draft = Draft(group, self._tables.image())
        return self._go_on(group, group.epoch, draft.new_targets(assignor), now)

    def _go_on(self, group: ConsumerGroup, epoch: int, work: Work[dict[str, Target]], now: float) -> Write[None]:
        if self._is_gone(group):
            return Write(None)
        try:
            for _ in range(YIELDS_PER_TURN):
                next(work)
        except StopIteration as done:
            return self._write(group, epoch, iter(done.value.items()), now)
        self._tables.timers.set(self._name(group), now, lambda later: self._go_on(group, epoch, work, later))
        return Write(None)

    def _write(
        self, group: ConsumerGroup, epoch: int, targets: Iterator[tuple[str, Target]], now: float
    ) -> Write[None]:
        if self._is_gone(group):
            return Write(None)
        draft = Draft(group, self._tables.image())
        some = list(islice(targets, TARGETS_PER_TURN))
        draft.take_over(some)
        if some:
            self._tables.timers.set(self._name(group), now, lambda later: self._write(group, epoch, targets, later))
        else:
            self._under_way.discard(group.group_id)
            draft.assigned(epoch, self._tables.wall_ms())
        return Write(None, draft.records)

    def _is_gone(self, group: ConsumerGroup) -> bool:
        if self._tables.groups.get(group.group_id) is group:
            return False
        self._under_way.discard(group.group_id)
        return True
