"""The assignors of consumer groups: the books' examples, evenness, and that little moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinators.groups.assignors import range as range_assignor
from moldau.coordinators.groups.assignors import uniform as uniform_assignor
from moldau.coordinators.groups.assignors.problem import Assignment, Subscriber
from moldau.work.slices import at_once

Assign = Callable[[Sequence[Subscriber], Mapping[UUID, int]], dict[str, Assignment]]
A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
NAMES = {A: "A", B: "B", C: "C"}


def uniform(subscribers: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    return at_once(uniform_assignor.assign(subscribers, partitions))


def in_ranges(subscribers: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    return at_once(range_assignor.assign(subscribers, partitions))


def subscriber(
    member_id: str, *topics: UUID, current: Assignment | None = None, instance_id: str | None = None
) -> Subscriber:
    return Subscriber(member_id, instance_id, frozenset(topics), current or {})


def shown(result: Mapping[str, Assignment]) -> dict[str, set[str]]:
    return {
        member_id: {f"{NAMES[topic_id]}-{index}" for topic_id, indexes in assignment.items() for index in indexes}
        for member_id, assignment in result.items()
    }


def test_range_gives_consecutive_blocks_of_each_topic() -> None:
    """GRP-15: 2 topics of 3 partitions, 2 consumers."""
    result = in_ranges([subscriber("c2", A, B), subscriber("c1", A, B)], {A: 3, B: 3})
    assert shown(result) == {"c1": {"A-0", "A-1", "B-0", "B-1"}, "c2": {"A-2", "B-2"}}


def test_range_leaves_members_without_partitions() -> None:
    """GRP-15: 2 topics of 2 partitions, 3 consumers."""
    result = in_ranges([subscriber(name, A, B) for name in ("c1", "c2", "c3")], {A: 2, B: 2})
    assert shown(result) == {"c1": {"A-0", "B-0"}, "c2": {"A-1", "B-1"}, "c3": set()}


def test_range_orders_static_members_by_instance() -> None:
    members = [subscriber("x", A, instance_id="second"), subscriber("y", A, instance_id="first"), subscriber("a", A)]
    assert shown(in_ranges(members, {A: 3})) == {"y": {"A-0"}, "x": {"A-1"}, "a": {"A-2"}}


def test_uniform_counts_all_topics_together() -> None:
    """GRP-16: where range leaves a member empty, uniform does not."""
    result = shown(uniform([subscriber(name, A, B) for name in ("c1", "c2", "c3")], {A: 2, B: 2}))
    assert sorted(map(len, result.values())) == [1, 1, 2]


def test_uniform_moves_only_what_a_leaving_member_had() -> None:
    """GRP-17: removing one of three members moves only that member's partitions."""
    before = uniform([subscriber(name, A) for name in ("c1", "c2", "c3")], {A: 9})
    after = uniform([subscriber(name, A, current=before[name]) for name in ("c1", "c3")], {A: 9})
    for name in ("c1", "c3"):
        assert shown(before)[name] <= shown(after)[name]


def test_uniform_finds_the_way_over_a_third_member() -> None:
    """One has 3 of A, one shares A and B, one only B: a chain of moves makes them equal."""
    members = [
        subscriber("one", A, current={A: frozenset({0, 1, 2})}),
        subscriber("two", A, B, current={B: frozenset({0, 1})}),
        subscriber("three", B, current={B: frozenset({2})}),
    ]
    result = uniform(members, {A: 3, B: 3})
    assert sorted(map(len, shown(result).values())) == [2, 2, 2]


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Subscriber], dict[UUID, int]]:
    partitions = {topic_id: draw(st.integers(0, 6)) for topic_id in (A, B, C)}
    members: list[Subscriber] = []
    taken: set[tuple[UUID, int]] = set()
    for name in draw(st.lists(st.sampled_from("pqrstuvw"), unique=True, min_size=1)):
        topics = draw(st.sets(st.sampled_from([A, B, C])))
        had = draw(st.sets(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 8)))) - taken
        taken |= had
        current = {topic_id: frozenset(index for each, index in had if each == topic_id) for topic_id in (A, B, C)}
        members.append(subscriber(name, *topics, current=current))
    return members, partitions


@pytest.mark.parametrize("assign", [uniform, in_ranges], ids=["uniform", "range"])
@given(problem=problems())
def test_each_partition_goes_to_one_subscriber(
    assign: Assign, problem: tuple[Sequence[Subscriber], Mapping[UUID, int]]
) -> None:
    members, partitions = problem
    result = assign(members, partitions)
    assert set(result) == {member.member_id for member in members}
    given_out = [
        (topic_id, index)
        for member in members
        for topic_id, indexes in result[member.member_id].items()
        for index in indexes
        if topic_id in member.topics
    ]
    wanted = frozenset().union(*(member.topics for member in members))
    assert sorted(given_out) == [
        (t, index) for t in sorted(partitions) if t in wanted for index in range(partitions[t])
    ]
    assert sum(len(indexes) for assignment in result.values() for indexes in assignment.values()) == len(given_out)


@given(problem=problems())
def test_uniform_is_even(problem: tuple[Sequence[Subscriber], Mapping[UUID, int]]) -> None:
    """No partition could go to somebody who has two less."""
    members, partitions = problem
    result = uniform(members, partitions)
    load = {member_id: sum(map(len, assignment.values())) for member_id, assignment in result.items()}
    for member in members:
        for topic_id, indexes in result[member.member_id].items():
            takers = [other.member_id for other in members if topic_id in other.topics]
            assert not indexes or load[member.member_id] - min(load[taker] for taker in takers) <= 1


@given(problem=problems())
def test_uniform_changes_nothing_twice(problem: tuple[Sequence[Subscriber], Mapping[UUID, int]]) -> None:
    members, partitions = problem
    first = uniform(members, partitions)
    again = [Subscriber(each.member_id, None, each.topics, first[each.member_id]) for each in members]
    assert uniform(again, partitions) == first
