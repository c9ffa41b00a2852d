"""Records of consumer groups against those that Apache Kafka 4.3 wrote: read, and written again byte for byte.

The file holds pairs of key and value, in the order of three groups' logs: members that join, leave and come back,
revocations, an expression, tombstones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_record_forms import (
    ResolvedRegex,
    assignment_record,
    group_record,
    group_tombstones,
    member_record,
    member_tombstones,
    progress_record,
    regex_record,
    regex_tombstone,
    target_record,
)
from moldau.coordinators.groups.records import RecordKind
from moldau.coordinators.machine import RecordContext, StateRecord
from moldau.coordinators.record_codec import kind_of
from tests.support.consumer_groups import Coordinator

WRITTEN_BY_KAFKA = [
    StateRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    for key, value in json.loads((Path(__file__).parent / "data" / "consumer_groups_by_kafka.json").read_text())
]


def test_all_kinds_are_there() -> None:
    assert {kind_of(record.key) for record in WRITTEN_BY_KAFKA} == {3, 4, 5, 6, 7, 8, 16}


@pytest.mark.parametrize("number", range(len(WRITTEN_BY_KAFKA)))
def test_written_again_as_kafka_wrote_it(number: int) -> None:
    """After each record the group is as Kafka's; what we would write of it is what Kafka has written."""
    coordinator = Coordinator()
    for offset, record in enumerate(WRITTEN_BY_KAFKA[: number + 1]):
        coordinator.machine.replay(record, RecordContext(offset, 0, None))
    record = WRITTEN_BY_KAFKA[number]
    group_id, rest = names_in(record.key)
    if record.value is None:
        gone = [*member_tombstones(group_id, rest), *group_tombstones(group_id, ()), regex_tombstone(group_id, rest)]
        assert record in gone
        return
    group = coordinator.machine.tables.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    assert record == ours(group, kind_of(record.key), rest)


def names_in(key: bytes) -> tuple[str, str]:
    """int16 kind, string group, and for some kinds string member or expression."""
    size = int.from_bytes(key[2:4], "big")
    return key[4 : 4 + size].decode(), key[6 + size :].decode()


def ours(group: ConsumerGroup, kind: int, rest: str) -> StateRecord:
    group_id = group.group_id
    match RecordKind(kind):
        case RecordKind.CONSUMER_GROUP_METADATA:
            return group_record(group_id, group.epoch, group.metadata_hash)
        case RecordKind.CONSUMER_GROUP_MEMBER_METADATA:
            return member_record(group_id, group.members[rest])
        case RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
            return assignment_record(group_id, group.assignment_epoch, group.assignment_timestamp)
        case RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
            return target_record(group_id, rest, group.targets[rest])
        case RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
            return progress_record(group_id, group.members[rest])
        case RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION:
            return regex_record(group_id, rest, ResolvedRegex(*group.regexes[rest]))
        case other:
            raise AssertionError(other)
