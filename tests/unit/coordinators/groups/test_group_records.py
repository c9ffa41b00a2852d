"""Records of `__consumer_offsets`, byte for byte as Apache Kafka 4.3 wrote them, and of every older version."""

from __future__ import annotations

from uuid import UUID

import pytest

from moldau.coordinators.groups.classic import restored
from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.classic_records import group_record, group_tombstone, new_group_record
from moldau.coordinators.groups.offset_codec import CommittedOffset, commit_record, offset_tombstone
from moldau.coordinators.groups.offsets import OffsetTable
from moldau.coordinators.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordKind,
)
from moldau.coordinators.machine import StateRecord
from moldau.coordinators.record_codec import decode_key, decode_value, encode_record, kind_of
from moldau.wire.primitives import DecodeError

MEMBER = "cid-4fdbcfc4-a8a3-4817-8f88-9413a19afdc2"
SUBSCRIPTION = bytes.fromhex("0003 00000001 0003 6f6273 00000000 00000000 ffffffff 0000")
ASSIGNMENT = bytes.fromhex("0000 00000001 0003 6f6273 00000002 00000000 00000001 00000000")
TOPIC_ID = UUID("da2b1170-93a4-43ee-8291-9c0bd1a83de0")

KEY = b"\x00\x02\x00\x05obsg2"
NEW = StateRecord(KEY, bytes.fromhex("0003 0000 00000000 ffff ffff 000001a1e3dc5997 00000000"))
STABLE = StateRecord(
    KEY,
    bytes.fromhex("0003 0008") + b"consumer" + bytes.fromhex("00000001 0005") + b"range\x00\x28" + MEMBER.encode()
    + bytes.fromhex("000001a1e3dc599a 00000001 0028") + MEMBER.encode() + b"\xff\xff\x00\x03cid\x00\x0a/127.0.0.1"
    + bytes.fromhex("000493e0 00001770 00000019") + SUBSCRIPTION + bytes.fromhex("0000001b") + ASSIGNMENT,
)  # fmt: skip
EMPTY = StateRecord(
    KEY, bytes.fromhex("0003 0008") + b"consumer" + bytes.fromhex("00000002 ffff ffff 000001a1e3dc70d5 00000000")
)
COMMIT = StateRecord(
    b"\x00\x01\x00\x05obsg2\x00\x03obs\x00\x00\x00\x00",
    bytes.fromhex("0004 0000000000000005 ffffffff 08") + b"mymeta\x00"
    + bytes.fromhex("000001a1e3dc70d1 01 00 10") + TOPIC_ID.bytes,
)  # fmt: skip


def group_of(record: StateRecord) -> ClassicGroup:
    value = decode_value(GroupMetadataValue, record.value)
    assert value is not None
    return restored(decode_key(GroupMetadataKey, record.key).group, value)


@pytest.mark.parametrize("record", [STABLE, EMPTY], ids=["stable", "empty"])
def test_a_group_is_read_and_written_as_kafka_does(record: StateRecord) -> None:
    assert group_record(group_of(record)) == record


def test_a_new_group_is_written_as_kafka_does() -> None:
    assert new_group_record(ClassicGroup("obsg2", 0x1A1E3DC5997)) == NEW


def test_what_a_stable_group_knows() -> None:
    group = group_of(STABLE)
    member = group.members[MEMBER]
    assert (group.state, group.generation, group.protocol, group.leader) == (GroupState.STABLE, 1, "range", MEMBER)
    assert (member.client_id, member.client_host) == ("cid", "/127.0.0.1")
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (300_000, 6000)
    assert (member.metadata_of("range"), member.assignment) == (SUBSCRIPTION, ASSIGNMENT)
    assert group.subscribed_topics == {"obs"}


def test_a_commit_is_read_and_written_as_kafka_does() -> None:
    table = OffsetTable()
    assert table.replay(COMMIT, None) == "obsg2"
    offset = table.get("obsg2", "obs", 0)
    assert offset == CommittedOffset(5, -1, "mymeta\x00", 0x1A1E3DC70D1, -1, TOPIC_ID)
    assert offset is not None
    assert commit_record("obsg2", "obs", 0, offset) == COMMIT


def test_an_offset_with_an_expiry_is_written_in_the_version_that_has_one() -> None:
    record = commit_record("g", "t", 1, CommittedOffset(5, 2, "m", 1000, 2000, TOPIC_ID))
    assert record.value == bytes.fromhex("0001 0000000000000005 0001 6d 00000000000003e8 00000000000007d0")


def test_tombstones() -> None:
    assert group_tombstone("obsg2") == StateRecord(KEY, None)
    assert offset_tombstone("obsg2", "obs", 0) == StateRecord(COMMIT.key, None)
    table = OffsetTable()
    table.replay(COMMIT, None)
    table.replay(offset_tombstone("obsg2", "obs", 0), None)
    assert table.committed == {}


@pytest.mark.parametrize("version", range(5))
def test_commits_of_every_version_are_read(version: int) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=9, leader_epoch=3, metadata="m", commit_timestamp=7, topic_id=TOPIC_ID)
    for kind in (RecordKind.LEGACY_OFFSET_COMMIT, RecordKind.OFFSET_COMMIT):
        table = OffsetTable()
        table.replay(encode_record(kind, key, value, version), None)
        offset = table.get("g", "t", 1)
        assert offset is not None
        assert (offset.offset, offset.metadata, offset.commit_timestamp) == (9, "m", 7)
        assert offset.leader_epoch == (3 if version >= 3 else -1)


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", rebalance_timeout=20, session_timeout=10, subscription=b"s"
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="p", leader="m", current_state_timestamp=5, members=[member]
    )
    record = encode_record(RecordKind.GROUP_METADATA, GroupMetadataKey(group="g"), value, version)
    group = group_of(record)
    assert group.members["m"].rebalance_timeout_ms == (20 if version >= 1 else 10)
    assert group.since_ms == (5 if version >= 2 else -1)
    assert group.subscribed_topics is None


def test_versions_of_later_releases_are_not_guessed_at() -> None:
    with pytest.raises(DecodeError):
        decode_value(OffsetCommitValue, b"\x00\x05" + bytes(40))
    with pytest.raises(DecodeError):
        kind_of(b"\x00")
