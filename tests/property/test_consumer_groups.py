"""Consumer groups under arbitrary joins, leaves, lost answers, time-outs, topic changes and crashes.

No partition is consumed by two members at once; epochs never go back; what is replayed is what was there; left alone,
the group comes to rest with every partition assigned, evenly.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.coordinators.groups import consumer_assignments, consumer_heartbeat
from moldau.coordinators.groups.consumer_group import ConsumerGroup, ConsumerGroupState, held_by
from moldau.metadata.image import TopicImage
from moldau.types.errors import ErrorCode
from tests.support.consumer_groups import GROUP, Consumer, Coordinator, durable, grown, settle, topic

MEMBERS = ("m0", "m1", "m2", "m3", "m4")
STATIC = ("m3", "m4")
NAMES = ("a", "b", "other")
SUBSCRIPTIONS = st.sampled_from([("a",), ("a", "b"), ("b", "other"), ()])
REGEXES = st.sampled_from([None, "", "[ab]", "o.*"])


class ConsumerGroupRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, TopicImage] = {"a": topic("a", 1, 3), "b": topic("b", 2, 2)}
        self.created = 2
        self.coordinator = Coordinator(*self.topics.values())
        self.alive: dict[str, Consumer] = {}
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.coordinator.machine.tables.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    @initialize(first=st.integers(0, 3))
    def begin(self, first: int) -> None:
        """With some members, so that there is something to take from them."""
        for member in MEMBERS[:first]:
            self.join(member, ("a", "b"), None, None)

    # --- members ---

    @rule(
        member=st.sampled_from(MEMBERS), topics=SUBSCRIPTIONS, regex=REGEXES, assignor=st.sampled_from([None, "range"])
    )
    def join(self, member: str, topics: tuple[str, ...], regex: str | None, assignor: str | None) -> None:
        if member not in self.alive:
            instance = f"instance of {member}" if member in STATIC else None
            consumer = Consumer(self.coordinator, member, topics, regex, instance, assignor)
            # A static member that was killed holds its place until its session ends: it is let in under its own id.
            if consumer.beat() is ErrorCode.NONE:
                self.alive[member] = consumer

    @rule(member=st.sampled_from(MEMBERS), is_lost=st.booleans(), is_busy=st.booleans())
    def heartbeat(self, member: str, is_lost: bool, is_busy: bool) -> None:
        if member in self.alive:
            self.alive[member].beat(answer_is_lost=is_lost, is_busy=is_busy)

    @rule(member=st.sampled_from(MEMBERS), topics=SUBSCRIPTIONS, regex=REGEXES)
    def subscribe(self, member: str, topics: tuple[str, ...], regex: str | None) -> None:
        if member in self.alive:
            self.alive[member].regex = regex
            self.alive[member].subscribe(*topics)

    @rule(member=st.sampled_from(MEMBERS), comes_back=st.booleans())
    def leave(self, member: str, comes_back: bool) -> None:
        consumer = self.alive.get(member)
        group = self.group
        if consumer is not None and group is not None and member in group.members:
            consumer.leave(-2 if comes_back and consumer.instance_id is not None else -1)
            del self.alive[member]

    @rule(member=st.sampled_from(MEMBERS))
    def kill(self, member: str) -> None:
        """It owns nothing any more, and does not say so."""
        self.alive.pop(member, None)

    # --- the world ---

    @rule(seconds=st.sampled_from([0.3, 1.0, 7.0]), busy=st.sets(st.sampled_from(MEMBERS), max_size=3))
    def pass_time(self, seconds: float, busy: set[str]) -> None:
        """Short enough for everybody to send heartbeats in between: those who live do."""
        self.coordinator.pass_time(seconds)
        for member, consumer in self.alive.items():
            consumer.beat(is_busy=member in busy)

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 4))
    def create_topic(self, name: str, partitions: int) -> None:
        if name not in self.topics:
            self.created += 1
            self.topics[name] = topic(name, self.created, partitions)
            self.coordinator.change_topics(*self.topics.values())

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        if self.topics.pop(name, None) is not None:
            self.coordinator.change_topics(*self.topics.values())

    @rule(name=st.sampled_from(NAMES), more=st.integers(1, 3))
    def grow_topic(self, name: str, more: int) -> None:
        if name in self.topics:
            self.topics[name] = grown(self.topics[name], more)
            self.coordinator.change_topics(*self.topics.values())

    @rule(is_compacted=st.booleans())
    def crash(self, is_compacted: bool) -> None:
        before = None if self.group is None else durable(self.group)
        self.coordinator.crash(self.coordinator.compacted() if is_compacted else None)
        after = None if self.group is None else durable(self.group)
        assert after == before

    def teardown(self) -> None:
        if self.alive:
            self.come_to_rest()

    def come_to_rest(self) -> None:
        # Whoever was killed is noticed, whoever lives is heard of.
        for _ in range(8):
            settle(self.coordinator, list(self.alive.values()), rounds=1)
            self.coordinator.pass_time(8.0)
        settle(self.coordinator, list(self.alive.values()), rounds=12)
        group = self.group
        assert group is not None
        assert set(group.members) == set(self.alive)
        assert group.state is ConsumerGroupState.STABLE
        self._check_all_is_assigned(group)
        size = len(self.coordinator.log)
        settle(self.coordinator, list(self.alive.values()), rounds=2)
        assert len(self.coordinator.log) == size, "a group at rest writes nothing"

    def _check_all_is_assigned(self, group: ConsumerGroup) -> None:
        wanted = {
            (self.topics[name].id, index)
            for name in group.subscribed_topics()
            if name in self.topics
            for index in range(len(self.topics[name].partitions))
        }
        assert set().union(*(consumer.owned for consumer in self.alive.values())) == wanted
        wishes = {group.topics_of(member) for member in group.members.values()}
        assignors = {member.assignor for member in group.members.values()}
        if len(wishes) == 1 and assignors == {None}:
            loads = [len(consumer.owned) for consumer in self.alive.values()]
            assert max(loads) - min(loads) <= 1

    # --- always ---

    @invariant()
    def no_partition_has_two_consumers(self) -> None:
        counts = Counter(place for consumer in self.alive.values() for place in consumer.owned)
        assert all(count == 1 for count in counts.values()), counts

    @invariant()
    def no_partition_is_held_twice(self) -> None:
        if self.group is not None:
            counts = Counter(place for member in self.group.members.values() for place in held_by(member))
            assert all(count == 1 for count in counts.values()), counts

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.group
        if group is None:
            return
        now = (group.epoch, group.assignment_epoch)
        assert now[0] >= self.epochs[0]
        assert now[1] >= self.epochs[1]
        assert group.epoch >= group.assignment_epoch
        self.epochs = now
        for member_id, member in group.members.items():
            if not member.is_away:
                assert member.epoch >= self.member_epochs.get(member_id, 0)
                assert member.epoch <= group.assignment_epoch
        self.member_epochs = {who: member.epoch for who, member in group.members.items() if not member.is_away}


class SlowCoordinator(Coordinator):
    """Between two steps of a timer that goes on at once, others are heard."""

    def run_timers(self) -> None:
        for operation in self.timers.due(self.now):
            self.perform(operation(self.now))


class LargeGroupRules(ConsumerGroupRules):
    """The same, with every target but a group's first worked out and written step by step, as those of large groups."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = SlowCoordinator(*self.topics.values())
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(consumer_heartbeat, "LARGE", -1)
        self.patch.setattr(consumer_assignments, "YIELDS_PER_TURN", 1)
        self.patch.setattr(consumer_assignments, "TARGETS_PER_TURN", 1)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.patch.undo()


TestConsumerGroups = ConsumerGroupRules.TestCase
TestConsumerGroups.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLargeConsumerGroups = LargeGroupRules.TestCase
TestLargeConsumerGroups.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
