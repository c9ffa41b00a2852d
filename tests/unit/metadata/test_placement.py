"""Placement over brokers and racks."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.metadata.controller import placement
from moldau.metadata.controller.decision import Rng
from moldau.metadata.controller.placement import UsableBroker
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import at_once


class Unshuffled:
    """Starts every turn at the first and never shuffles."""

    def randrange(self, stop: int, /) -> int:
        return 0

    def shuffle(self, items: list[object], /) -> None:
        pass


def place(brokers: list[UsableBroker], partitions: int, factor: int, rng: Rng) -> list[tuple[int, ...]]:
    return at_once(placement.place(brokers, partitions, factor, rng))


def on_racks(*racks: str | None) -> list[UsableBroker]:
    return [UsableBroker(number, rack) for number, rack in enumerate(racks)]


def test_racks_and_the_brokers_in_them_take_turns() -> None:
    brokers = on_racks("a", "a", "a", "b", "b", "b", "c", "c", "c")
    assert place(brokers, 3, 3, Unshuffled()) == [(0, 3, 6), (4, 7, 1), (8, 2, 5)]


def test_without_racks_leaders_take_turns() -> None:
    assert place(on_racks(None, None, None), 3, 2, Unshuffled()) == [(0, 1), (1, 2), (2, 0)]


def test_leaders_are_unfenced_and_fenced_brokers_come_last() -> None:
    brokers = [UsableBroker(1, fenced=True), UsableBroker(2), UsableBroker(3)]
    assert all(1 not in replicas for replicas in place(brokers, 4, 2, Random(1)))
    assert all(replicas[0] != 1 and replicas[-1] == 1 for replicas in place(brokers, 4, 3, Random(1)))


@pytest.mark.parametrize(
    ("brokers", "factor", "message"),
    [
        ([], 1, "All brokers are currently fenced."),
        ([UsableBroker(1, fenced=True)], 1, "All brokers are currently fenced."),
        (
            [UsableBroker(1)],
            2,
            (
                "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some "
                "brokers have all their log directories cordoned."
            ),
        ),
        ([UsableBroker(1)], 0, "Invalid replication factor 0: the replication factor must be positive."),
    ],
)
def test_refusals(brokers: list[UsableBroker], factor: int, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        place(brokers, 1, factor, Random(1))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(),
)
def test_whatever_the_cluster(racks: list[tuple[str | None, bool]], partitions: int, factor: int, seed: int) -> None:
    brokers = [UsableBroker(number, rack, fenced) for number, (rack, fenced) in enumerate(racks)]
    brokers[0] = UsableBroker(0, brokers[0].rack)
    factor = min(factor, len(brokers))
    placed = place(brokers, partitions, factor, Random(seed))
    assert len(placed) == partitions
    fenced = {broker.id for broker in brokers if broker.fenced}
    rack_of = {broker.id: broker.rack for broker in brokers}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= rack_of.keys()
        assert replicas[0] not in fenced
        # Racks come before everything: a second replica in a rack only when no rack is left.
        assert len({rack_of[broker] for broker in replicas}) == min(factor, len(set(rack_of.values())))


@pytest.mark.parametrize(("racks", "size"), [(1, 3), (2, 2), (2, 3), (3, 2), (3, 3)])
def test_the_partitions_of_a_lost_broker_find_leaders_everywhere(racks: int, size: int) -> None:
    brokers = on_racks(*[str(number) for number in range(racks) for _ in range(size)])
    placed = place(brokers, 20 * racks * size, 2, Random(1))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {20}
    successors = Counter(second for first, second in placed if first == 0)
    elsewhere = {broker.id for broker in brokers if broker.rack == ("1" if racks > 1 else "0")} - {0}
    assert successors.keys() >= elsewhere


def test_a_rack_without_a_live_broker_leads_nothing_and_is_passed_over_while_others_do() -> None:
    brokers = [UsableBroker(1, "a"), UsableBroker(2, "b", fenced=True), UsableBroker(3, "c")]
    two = place(brokers, 40, 2, Random(1))
    assert Counter(replicas[0] for replicas in two) == {1: 20, 3: 20}
    assert all(2 not in replicas for replicas in two)


@given(st.integers(2, 7), st.integers(1, 3), st.integers())
def test_leaders_are_even_where_racks_are(brokers: int, rounds: int, seed: int) -> None:
    placed = place(on_racks(*[None] * brokers), brokers * rounds, 2, Random(seed))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {rounds}
