"""Plans of moves: read, checked, written, proposed, limited."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.calls.reassignments import Broker, Directories, Layout, Move, Replica
from moldau.cli.kafka.reassigning import directory_states
from moldau.cli.replicas.reassignment_files import (
    Plan,
    PlanError,
    check_plan,
    parse_brokers,
    parse_plan,
    parse_topics,
    plan_text,
)
from moldau.cli.replicas.reassignment_plans import RackError, moved, scattered
from moldau.cli.replicas.reassignment_throttles import brokers_on, throttled_replicas, ways
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition

T0, T1, T10 = (TopicPartition("t", number) for number in (0, 1, 10))


def entry(**fields: object) -> str:
    return json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], **fields}]})


def test_what_is_written_is_read_again() -> None:
    layout: Layout = {T10: (2, 3), T0: (1, 2)}
    text = plan_text(layout, {Replica(2, "t", 0): Directories("/data")})
    plan = parse_plan(text)
    assert plan.layout == layout
    assert plan.directories == {Replica(2, "t", 0): "/data"}
    assert [place for place, _ in plan.entries] == [T0, T10], "numbers in their order, not their digits"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "not a valid JSON"),
        ("[1]", "Expected JSON object"),
        ('{"version": 2}', "Not supported version field value 2"),
        ('{"partitions": 3}', "Expected JSON array"),
        ('{"partitions": [3]}', "Expected JSON object"),
        ('{"partitions": [{"topic": "t", "replicas": [1]}]}', "No such field exists: `partition`"),
        (entry(replicas=["1"]), "Expected `Integer` value"),
        (entry(replicas=[True]), "Expected `Integer` value"),
        (entry(partition="0"), "`partition`"),
        (entry(log_dirs=["any"]), "Size of replicas list [1, 2] is different from size of log dirs list [any]"),
    ],
)
def test_files_that_are_no_plans(text: str, words: str) -> None:
    with pytest.raises(PlanError) as refused:
        parse_plan(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ((), "Partition reassignment list cannot be empty"),
        (((T0, ()),), "Partition replica list cannot be empty"),
        (((T0, (1,)), (T0, (2,))), "duplicate topic partitions: t-0"),
        (((T0, (1, 2, 1)),), "t-0 contains multiple entries for 1"),
    ],
)
def test_plans_that_cannot_be_carried_out(
    entries: tuple[tuple[TopicPartition, tuple[int, ...]], ...], words: str
) -> None:
    with pytest.raises(PlanError) as refused:
        check_plan(Plan(entries, {}))
    assert words in str(refused.value)


def test_topics_and_brokers() -> None:
    assert parse_topics('{"topics":[{"topic":"a"},{"topic":"b"}],"version":1}') == ["a", "b"]
    assert parse_brokers("0,1,2") == [0, 1, 2]
    for text, words in (("1,1", "duplicate entries: [1]"), ("a", 'For input string: "a"'), ("", "For input")):
        with pytest.raises(PlanError) as refused:
            parse_brokers(text)
        assert words in str(refused.value)


def test_what_kafka_would_propose_is_placed_like_a_new_topic() -> None:
    present: Layout = {TopicPartition("t", number): (1, 2) for number in range(6)}
    found = scattered(present, [Broker(each, None) for each in (1, 2, 3)], rng=Random(1))
    assert set(found) == set(present)
    assert Counter(replicas[0] for replicas in found.values()) == {1: 2, 2: 2, 3: 2}
    with pytest.raises(KafkaError):
        scattered(present, [Broker(1, None)])
    with pytest.raises(RackError):
        scattered(present, [Broker(1, "a"), Broker(2, None)])
    scattered(present, [Broker(1, "a"), Broker(2, None)], use_racks=False)


layouts = st.integers(1, 4).flatmap(
    lambda factor: st.lists(
        st.permutations(range(1, 6)).map(lambda brokers: tuple(brokers[:factor])), min_size=1, max_size=12
    )
)


@given(layouts, st.sets(st.integers(1, 8), min_size=4), st.booleans())
def test_a_proposal_uses_the_wanted_brokers_alone_and_evenly(
    replicas: list[tuple[int, ...]], wanted: set[int], racks: bool
) -> None:
    present: Layout = {TopicPartition("t", number): each for number, each in enumerate(replicas)}
    brokers = [Broker(each, f"r{each % 2}" if racks else None) for each in sorted(wanted)]
    found = moved(present, brokers)
    assert {place: len(each) for place, each in found.items()} == {place: len(each) for place, each in present.items()}
    assert all(len(set(each)) == len(each) and set(each) <= wanted for each in found.values())
    if not racks:
        load = Counter({broker.id: 0 for broker in brokers})
        load.update(broker for each in found.values() for broker in each)
        assert max(load.values()) - min(load.values()) <= 1
    elif len(replicas[0]) > 1 and len({broker.rack for broker in brokers}) > 1:
        stayed = [place for place, each in present.items() if set(each) <= wanted and len({b % 2 for b in each}) == 1]
        apart = [place for place in present if place not in stayed]
        assert all(len({broker % 2 for broker in found[place]}) > 1 for place in apart), (present, found)


def test_a_proposal_moves_no_more_than_it_must() -> None:
    present: Layout = {TopicPartition("t", number): ((1, 2), (2, 3), (3, 1))[number % 3] for number in range(6)}
    brokers = [Broker(each, None) for each in (1, 2, 3)]
    assert {place: set(each) for place, each in moved(present, brokers).items()} == {
        place: set(each) for place, each in present.items()
    }
    grown = moved(present, [*brokers, Broker(4, None)])
    new = sum(len(set(grown[place]) - set(present[place])) for place in present)
    assert new == 3, "a quarter of twelve replicas"
    assert all(len(each) == 3 for each in moved(present, brokers, factor=3).values())
    with pytest.raises(ValueError, match="shall have 4 replicas"):
        moved(present, brokers, factor=4)


def test_limits_name_sources_and_destinations_of_all_that_moves() -> None:
    moving = {T0: Move((3, 2, 1), (3,), (1,))}
    found = ways(moving, {T0: (4, 2), T10: (1, 5)}, {T0: (3, 2, 1), T10: (1, 2)})
    assert throttled_replicas(found) == {"t": ("0:1,0:2,10:1,10:2", "0:4,10:5")}
    assert brokers_on(found) == [1, 2, 4, 5]


def test_states_of_moves_between_directories() -> None:
    wanted = {Replica(1, "t", number): "/b" for number in range(6)}
    found = {
        Replica(1, "t", 0): Directories("/b"),
        Replica(1, "t", 1): Directories("/a", "/b"),
        Replica(1, "t", 2): Directories("/a", "/c"),
        Replica(1, "t", 3): Directories("/a"),
        Replica(1, "t", 4): Directories(None, "/b"),
    }
    lines, goes_on = directory_states(wanted, found)
    assert goes_on
    assert lines == [
        "Reassignment of replica t-0-1 completed successfully.",
        "Reassignment of replica t-1-1 is still in progress.",
        "Partition t-2 on broker 1 is being moved to log dir /c instead of /b.",
        "Partition t-3 on broker 1 is not being moved from log dir /a to /b.",
        (
            "Partition t-4 is not found in any live log dir on broker 1. "
            "There is likely an offline log directory on the broker."
        ),
        "Partition t-5 cannot be found in any live log directory on broker 1.",
    ]
    assert directory_states({Replica(1, "t", 0): "/b"}, found) == (lines[:1], False)
