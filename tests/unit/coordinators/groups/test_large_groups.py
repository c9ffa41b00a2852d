"""Targets of large groups: worked out in steps beside the heartbeats, written a few at a time."""

from __future__ import annotations

from moldau.coordinators.groups.consumer_assignments import LARGE, TARGETS_PER_TURN
from moldau.coordinators.groups.consumer_group import ConsumerGroupState
from moldau.coordinators.machine import Write
from moldau.types.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.consumer_groups import Consumer, Coordinator, grown, settle, topic

MANY = topic("many", 1, LARGE + 100)


class Watched(Coordinator):
    """Counts the steps that timers take, and keeps the most records that one of them wrote."""

    def __init__(self) -> None:
        super().__init__(MANY)
        self.steps = 0
        self.most_records = 0
        self.pauses = False

    def run_timers(self) -> None:
        while not self.pauses and (due := self.timers.due(self.now)):
            for operation in due:
                self.step(operation(self.now))

    def step(self, write: Write[ConsumerGroupHeartbeatResponse] | Write[None]) -> None:
        self.steps += 1
        self.most_records = max(self.most_records, len(write.records))
        self.perform(write)


def members(coordinator: Coordinator, count: int) -> list[Consumer]:
    return [Consumer(coordinator, f"m{number:03}", ("many",)) for number in range(count)]


def test_the_first_target_is_there_with_the_first_heartbeat() -> None:
    coordinator = Watched()
    (first,) = members(coordinator, 1)
    assert first.beat() is ErrorCode.NONE
    assert len(first.owned) == len(MANY.partitions)


def test_later_targets_come_in_steps_and_all_is_shared_in_the_end() -> None:
    coordinator = Watched()
    consumers = members(coordinator, 80)
    for consumer in consumers:
        consumer.beat()
        coordinator.pass_time(2.0)
        coordinator.most_records = 0
    settle(coordinator, consumers, rounds=8)
    assert coordinator.group.state is ConsumerGroupState.STABLE
    loads = [len(consumer.owned) for consumer in consumers]
    assert sum(loads) == len(MANY.partitions)
    assert max(loads) - min(loads) <= 1
    assert coordinator.steps > 200
    assert coordinator.most_records <= TARGETS_PER_TURN + 1


def test_members_are_heard_and_may_come_and_go_while_a_target_is_worked_out() -> None:
    coordinator = Watched()
    first, second, third = members(coordinator, 3)
    first.beat()
    coordinator.pass_time(2.0)
    coordinator.pauses = True
    second.beat()
    assert coordinator.group.state is ConsumerGroupState.ASSIGNING
    assert (first.beat(), second.owned) == (ErrorCode.NONE, set())
    coordinator.step(coordinator.timers.due(coordinator.now)[0](coordinator.now))
    third.beat()
    second.leave(-1)
    assert coordinator.group.assignment_epoch < coordinator.group.epoch
    coordinator.pauses = False
    settle(coordinator, [first, third], rounds=10)
    assert coordinator.group.state is ConsumerGroupState.STABLE
    assert len(first.owned) + len(third.owned) == len(MANY.partitions)
    assert abs(len(first.owned) - len(third.owned)) <= 1


def test_a_group_that_is_gone_meanwhile_needs_no_target() -> None:
    coordinator = Watched()
    first, second = members(coordinator, 2)
    first.beat()
    coordinator.pass_time(2.0)
    coordinator.pauses = True
    second.beat()
    first.leave(-1)
    second.leave(-1)
    coordinator.perform(coordinator.machine.removal.delete_group("group"))
    size = len(coordinator.log)
    coordinator.pauses = False
    coordinator.run_timers()
    assert len(coordinator.log) == size


def test_after_a_crash_in_the_middle_the_next_heartbeat_begins_anew() -> None:
    coordinator = Watched()
    first, second = members(coordinator, 2)
    first.beat()
    coordinator.pass_time(2.0)
    coordinator.pauses = True
    second.beat()
    coordinator.step(coordinator.timers.due(coordinator.now)[0](coordinator.now))
    coordinator.pauses = False
    coordinator.crash()
    coordinator.change_topics(grown(MANY, 7))
    settle(coordinator, [first, second], rounds=10)
    assert len(first.owned) + len(second.owned) == len(MANY.partitions) + 7
