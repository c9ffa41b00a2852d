"""When a member of a group has read what it was given: `moldau consume --group` ends then, and not before."""

from __future__ import annotations

from unittest.mock import Mock

from confluent_kafka import TopicPartition as ClientPartition

from moldau.cli.records.consume_actions import UNASSIGNED_REST_SECONDS, Share
from moldau.types.ids import TopicPartition

CONSUMER = Mock()
BOTH = [ClientPartition("t", 0), ClientPartition("t", 1)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_silence_before_the_assignment_is_no_end() -> None:
    clock = Clock()
    share = Share(clock(), clock)
    clock.now = 3600.0
    assert not share.is_read()
    assert share.waiting_seconds() == 3600.0
    share.gained(CONSUMER, BOTH)
    assert share.waiting_seconds() == 0.0
    assert not share.is_read()


def test_the_end_of_every_partition_is_the_end() -> None:
    share = Share(0.0, Clock())
    share.gained(CONSUMER, BOTH)
    share.ended.add(TopicPartition("t", 0))
    assert not share.is_read()
    share.ended.add(TopicPartition("t", 1))
    assert share.is_read()


def test_a_partition_that_comes_back_has_to_be_read_again() -> None:
    share = Share(0.0, Clock())
    share.gained(CONSUMER, BOTH)
    share.ended |= {TopicPartition("t", 0), TopicPartition("t", 1)}
    share.lost(CONSUMER, BOTH[1:])
    assert not share.is_read()
    share.gained(CONSUMER, [])
    assert share.is_read()
    share.gained(CONSUMER, BOTH[1:])
    assert not share.is_read()


def test_a_member_without_partitions_leaves_after_a_while() -> None:
    clock = Clock()
    share = Share(0.0, clock)
    share.gained(CONSUMER, [])
    assert not share.is_read()
    clock.now = UNASSIGNED_REST_SECONDS + 1
    assert share.is_read()
