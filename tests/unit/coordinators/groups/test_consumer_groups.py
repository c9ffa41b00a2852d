"""Consumer groups step by step: joining, revoking, fencing, time-outs, expressions, and what is written."""

from __future__ import annotations

import pytest

from moldau.coordinators.groups.consumer_group import ConsumerGroupState
from moldau.coordinators.groups.consumer_member import MemberState
from moldau.coordinators.groups.offset_commits import WantedOffset
from moldau.metadata.image import Settings
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.consumer_groups import (
    CLIENT,
    GROUP,
    REBALANCE_MS,
    Consumer,
    Coordinator,
    grown,
    settle,
    shown,
    topic,
)

A, B = topic("A", 1, 3), topic("B", 2, 3)
SESSION = 45.0


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(A, B)


def refusal(consumer: Consumer, epoch: int) -> tuple[ErrorCode, str | None]:
    with pytest.raises(KafkaError) as refused:
        consumer.coordinator.heartbeat(consumer.request(epoch))
    return refused.value.code, refused.value.message


def pair(coordinator: Coordinator) -> tuple[Consumer, Consumer]:
    """Two members, of which the first must give back one of its three partitions."""
    first, second = Consumer(coordinator, "m1", ("A",)), Consumer(coordinator, "m2", ("A",))
    first.beat()
    first.beat()
    second.beat()
    coordinator.pass_time(1.0)
    first.beat(is_busy=True)
    second.beat()
    return first, second


def test_the_first_member_gets_all_at_once(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "m1", ("A", "B"))
    consumer.beat()
    assert shown(consumer.owned, coordinator) == {f"{name}-{index}" for name in "AB" for index in range(3)}
    assert (coordinator.group.epoch, coordinator.group.assignment_epoch, consumer.epoch) == (2, 2, 2)
    assert coordinator.group.state is ConsumerGroupState.STABLE


def test_heartbeats_without_news_write_nothing(coordinator: Coordinator) -> None:
    consumers = [Consumer(coordinator, f"m{number}", ("A",)) for number in range(3)]
    settle(coordinator, consumers)
    size = len(coordinator.log)
    settle(coordinator, consumers, rounds=5)
    assert len(coordinator.log) == size


def test_nothing_is_given_before_it_was_given_back(coordinator: Coordinator) -> None:
    first, second = pair(coordinator)
    for _ in range(3):
        coordinator.pass_time(1.0)
        first.beat(is_busy=True)
        second.beat()
        assert coordinator.group.members["m1"].state is MemberState.UNREVOKED_PARTITIONS
        assert coordinator.group.members["m2"].state is MemberState.UNRELEASED_PARTITIONS
        assert (len(first.owned), second.owned) == (3, set())
    first.beat()
    second.beat()
    assert first.owned.isdisjoint(second.owned)
    assert len(first.owned | second.owned) == 3
    assert coordinator.group.state is ConsumerGroupState.STABLE


def test_who_does_not_give_back_in_time_is_removed(coordinator: Coordinator) -> None:
    first, second = pair(coordinator)
    for _ in range(REBALANCE_MS // 1000):
        coordinator.pass_time(1.0)
        first.beat(is_busy=True)
        second.beat()
    assert set(coordinator.group.members) == {"m2"}
    assert (first.epoch, first.owned) == (0, set())
    settle(coordinator, [first, second])
    assert len(first.owned | second.owned) == 3


def test_a_silent_member_is_removed_after_its_session(coordinator: Coordinator) -> None:
    first, second = Consumer(coordinator, "m1", ("A",)), Consumer(coordinator, "m2", ("A",))
    settle(coordinator, [first, second])
    coordinator.pass_time(SESSION - 1)
    assert set(coordinator.group.members) == {"m1", "m2"}
    second.beat()
    coordinator.pass_time(1.5)
    assert set(coordinator.group.members) == {"m2"}
    settle(coordinator, [second])
    assert len(second.owned) == 3


def test_a_loaded_member_has_a_whole_session(coordinator: Coordinator) -> None:
    Consumer(coordinator, "m1", ("A",)).beat()
    coordinator.pass_time(SESSION - 1)
    coordinator.crash()
    coordinator.pass_time(SESSION - 1)
    assert set(coordinator.group.members) == {"m1"}
    coordinator.pass_time(2.0)
    assert coordinator.group.is_empty


def test_a_group_has_settings_of_its_own(coordinator: Coordinator) -> None:
    own = Settings({"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"})
    object.__setattr__(coordinator.image, "group_settings", {GROUP: own})
    consumer = Consumer(coordinator, "m1", ("A",))
    answer = coordinator.heartbeat(consumer.request())
    assert answer.heartbeat_interval_ms == 7000
    coordinator.pass_time(49.0)
    assert set(coordinator.group.members) == {"m1"}
    coordinator.pass_time(2.0)
    assert coordinator.group.is_empty


def test_assignments_are_not_made_more_often_than_the_interval(coordinator: Coordinator) -> None:
    consumers = [Consumer(coordinator, f"m{number}", ("A",)) for number in range(3)]
    for consumer in consumers:
        consumer.beat()
    assert (coordinator.group.epoch, coordinator.group.assignment_epoch) == (4, 2)
    assert coordinator.group.state is ConsumerGroupState.ASSIGNING
    coordinator.pass_time(1.0)
    consumers[1].beat()
    assert coordinator.group.assignment_epoch == 4


def test_epochs_that_do_not_fit_are_fenced(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "m1", ("A",))
    consumer.beat()
    consumer.must_tell = False
    code, message = refusal(consumer, 9)
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert message is not None
    assert message.startswith("The consumer group member has a greater member epoch (9)")
    assert refusal(consumer, 1)[0] is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(Consumer(coordinator, "other"), 2)[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_else() -> None:
    coordinator = Coordinator(A, group_consumer_max_size="1")
    Consumer(coordinator, "m1", ("A",)).beat()
    assert Consumer(coordinator, "m2", ("A",)).beat() is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_comes_back_to_its_partitions(coordinator: Coordinator) -> None:
    first, second = (Consumer(coordinator, name, ("A",), instance_id=f"of {name}") for name in ("s1", "s2"))
    settle(coordinator, [first, second])
    had, epoch = set(second.owned), coordinator.group.epoch
    second.leave(-2)
    coordinator.pass_time(SESSION / 2)
    first.beat()
    successor = Consumer(coordinator, "s3", ("A",), instance_id="of s2")
    successor.beat()
    assert (successor.owned, coordinator.group.epoch) == (had, epoch)
    assert set(coordinator.group.members) == {"s1", "s3"}


def test_a_static_member_that_stays_away_loses_its_place(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "s1", ("A",), instance_id="one")
    settle(coordinator, [consumer])
    consumer.leave(-2)
    coordinator.pass_time(SESSION + 1)
    assert coordinator.group.is_empty


def test_an_instance_has_one_member(coordinator: Coordinator) -> None:
    Consumer(coordinator, "s1", ("A",), instance_id="one").beat()
    other = Consumer(coordinator, "s2", ("A",), instance_id="one")
    assert other.beat() is ErrorCode.UNRELEASED_INSTANCE_ID
    other.must_tell = False
    assert refusal(other, 2)[0] is ErrorCode.FENCED_INSTANCE_ID


def test_an_expression_follows_the_topics() -> None:
    coordinator = Coordinator(topic("log-a", 1, 1), topic("other", 2, 1))
    consumer = Consumer(coordinator, "m1", regex="log-.*")
    settle(coordinator, [consumer], rounds=3)
    assert shown(consumer.owned, coordinator) == {"log-a-0"}
    coordinator.change_topics(topic("log-a", 1, 1), topic("other", 2, 1), topic("log-b", 3, 1))
    settle(coordinator, [consumer], rounds=5)
    assert shown(consumer.owned, coordinator) == {"log-a-0", "log-b-0"}
    consumer.leave()
    assert coordinator.group.regexes == {}


class Blinkered:
    """Sees topics of some names, which may change."""

    def __init__(self, *topics: str) -> None:
        self.version = 1
        self.topics = set(topics)

    def sees(self, topic: str) -> bool:
        return topic in self.topics


def test_an_expression_finds_only_what_its_member_may_see() -> None:
    coordinator = Coordinator(topic("log-a", 1, 1), topic("log-b", 2, 1))
    consumer = Consumer(coordinator, "m1", regex="log-.*")
    sight = coordinator.sight = Blinkered("log-b", "other")
    settle(coordinator, [consumer], rounds=3)
    assert shown(consumer.owned, coordinator) == {"log-b-0"}
    coordinator.change_topics(topic("log-a", 1, 1), topic("log-b", 2, 1), topic("log-c", 3, 1))
    settle(coordinator, [consumer], rounds=5)
    assert shown(consumer.owned, coordinator) == {"log-b-0"}
    sight.version, sight.topics = 2, {"log-a", "log-b"}
    settle(coordinator, [consumer], rounds=5)
    assert shown(consumer.owned, coordinator) == {"log-a-0", "log-b-0"}
    sight.version, sight.topics = 3, {"log-a"}
    coordinator.crash()
    settle(coordinator, [consumer], rounds=5)
    assert shown(consumer.owned, coordinator) == {"log-a-0"}


def test_many_topics_are_matched_in_several_turns() -> None:
    """No turn of the loop looks at more than some hundreds of names."""
    coordinator = Coordinator(*(topic(f"t-{number}", number + 1, 1) for number in range(2000)))
    consumer = Consumer(coordinator, "m1", regex="t-1.*")
    coordinator.perform(coordinator.machine.consumer.heartbeat(consumer.request(), CLIENT, coordinator.now))
    turns = 0
    while due := coordinator.timers.due(coordinator.now):
        turns += 1
        for operation in due:
            coordinator.perform(operation(coordinator.now))
    assert turns >= 5
    assert len(coordinator.group.regexes["t-1.*"].topics) == 1111


def test_a_broken_expression_is_refused(coordinator: Coordinator) -> None:
    code, message = refusal(Consumer(coordinator, "m1", regex="("), 0)
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    assert GROUP not in coordinator.machine.tables.groups


def test_an_expression_cannot_take_long() -> None:
    """Python's own expressions would take years for this one."""
    coordinator = Coordinator(topic("a" * 60, 1, 1))
    consumer = Consumer(coordinator, "m1", regex="(a*)*b|(a|aa)+$c")
    settle(coordinator, [consumer], rounds=2)
    assert consumer.owned == set()


def test_topics_that_grow_or_go_make_a_new_epoch(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "m1", ("A", "B"))
    settle(coordinator, [consumer], rounds=2)
    epoch = coordinator.group.epoch
    coordinator.change_topics(grown(A, 1))
    settle(coordinator, [consumer], rounds=3)
    assert shown(consumer.owned, coordinator) == {f"A-{index}" for index in range(4)}
    assert coordinator.group.epoch == epoch + 1


def test_an_unwanted_topic_is_taken_back_at_once(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "m1", ("A", "B"))
    settle(coordinator, [consumer], rounds=2)
    consumer.subscribe("A")
    consumer.beat(is_busy=True)
    member = coordinator.group.members["m1"]
    assert (member.state, set(member.revoking)) == (MemberState.UNREVOKED_PARTITIONS, {B.id})


def test_a_commit_may_be_overtaken_by_the_members_own_epoch(coordinator: Coordinator) -> None:
    first, second = pair(coordinator)
    old = first.epoch
    first.beat()
    first.beat()
    second.beat()
    assert first.epoch > old
    kept, lost = ({index for _, index in owner.owned} for owner in (first, second))

    def commit(indexes: set[int]) -> None:
        offsets = [WantedOffset("A", A.id, index, 0, -1, "") for index in indexes]
        coordinator.group.check_commit("m1", None, old, 9, False, offsets)

    commit(kept)
    for indexes in (lost, kept | lost):
        with pytest.raises(KafkaError) as refused:
            commit(indexes)
        assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH


def test_a_deleted_group_leaves_no_record(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "m1", ("A",), regex="B")
    settle(coordinator, [consumer], rounds=2)
    consumer.leave()
    coordinator.perform(coordinator.machine.removal.delete_group(GROUP))
    assert GROUP not in coordinator.machine.tables.groups
    assert coordinator.compacted() == []
