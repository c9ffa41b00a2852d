"""Lanes among workers, and partitions among lanes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from moldau.mirror.copying import LONGEST_SECONDS, is_due
from moldau.mirror.progress import LANES, lane_of
from moldau.mirror.sharing import assignments, read_lanes, read_problem, shared_out
from moldau.types.ids import TopicPartition


@given(
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=3), st.frozensets(st.integers(0, LANES)), min_size=1, max_size=20
    )
)
def test_every_lane_has_one_owner_and_nobody_much_more_than_others(held: dict[str, frozenset[int]]) -> None:
    found = shared_out(held)
    assert sorted(lane for lanes in found.values() for lane in lanes) == list(range(LANES))
    sizes = [len(lanes) for lanes in found.values()]
    assert max(sizes) - min(sizes) <= 1 and set(found) == set(held)


def test_lanes_stay_where_they_are() -> None:
    one = shared_out({"a": [], "b": []})
    assert shared_out(one) == one
    three = shared_out({**one, "c": []})
    assert all(set(three[member]) <= set(one[member]) for member in one)
    assert set(shared_out({"a": one["a"]})["a"]) == set(range(LANES))


def told(lanes: list[int], **more: str) -> bytes:
    return json.dumps({"lanes": lanes, **more}).encode()


def test_only_those_share_lanes_who_choose_the_same_topics() -> None:
    """A lane holds partitions of every topic: whoever does not choose one leaves it out, where he has the lane."""
    found = assignments(
        {
            "a": told([0], topics="orders"),
            "b": told([1], topics="sales"),
            "c": told([], topics="orders"),
            "d": told([2]),
        },
        "a",
    )
    assert sorted(lane for each in found.values() for lane in read_lanes(each)) == list(range(LANES))
    assert read_lanes(found["b"]) == [] and "topics=orders" in read_problem(found["b"])
    assert all(read_lanes(found[member]) and not read_problem(found[member]) for member in "acd")


def test_the_partitions_of_a_topic_lie_in_lanes_of_their_own() -> None:
    assert len({lane_of(TopicPartition("orders", index)) for index in range(LANES)}) == LANES


def test_lanes_are_part_of_what_is_stored_and_never_change() -> None:
    """Another number or hash would let an old and a new worker copy the same partition."""
    assert LANES == 16
    assert [lane_of(TopicPartition(name, 3)) for name in ("orders", "a.b", "münchen")] == [15, 12, 14]


def test_a_lane_with_little_commits_while_others_have_much() -> None:
    assert is_due(100, 100, 0.0) and is_due(1, 100, LONGEST_SECONDS)
    assert not is_due(1, 100, 0.0) and not is_due(0, 100, 1000.0)
