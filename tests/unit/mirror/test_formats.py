"""Records of MirrorMaker 2's topics. Java reads them in tests/clients/test_mirror_peer.py."""

from __future__ import annotations

from uuid import UUID

import pytest

from moldau.mirror.formats import Checkpoint, ForeignRecord, Heartbeat, OffsetSync, Position
from moldau.types.ids import TopicPartition

PLACE = TopicPartition("orders", 3)


def test_heartbeats() -> None:
    beat = Heartbeat("us", "eu", 1_700_000_000_000)
    assert beat.key() == b"\0\x02us\0\x02eu"
    assert beat.value() == b"\0\0" + (1_700_000_000_000).to_bytes(8, "big")
    assert Heartbeat.read(beat.key(), beat.value()) == beat


def test_checkpoints() -> None:
    checkpoint = Checkpoint("billing", PLACE, 10, 12, "münchen")
    assert checkpoint.key() == b"\0\x07billing\0\x06orders\0\0\0\x03"
    assert Checkpoint.read(checkpoint.key(), checkpoint.value()) == checkpoint


def test_offset_syncs_tell_in_a_header_how_long_they_hold() -> None:
    sync = OffsetSync(PLACE, 10, 12, 500)
    assert sync.key() == b"\0\x06orders\0\0\0\x03" and len(sync.value()) == 16
    assert OffsetSync.read(sync.key(), sync.value(), sync.headers()) == sync
    assert OffsetSync.read(sync.key(), sync.value()) == OffsetSync(PLACE, 10, 12, 1)
    assert OffsetSync(PLACE, 10, 12).headers() == ()


def test_positions_are_connects_offsets() -> None:
    ids = UUID(int=1), UUID(int=2)
    position = Position(PLACE, 8, *ids)
    assert position.key("us") == b'["MirrorSourceConnector",{"cluster":"us","partition":3,"topic":"orders"}]'
    assert position.value() == b'{"offset":7}'
    assert Position.read("us", position.key("us"), position.value(), position.headers()) == position
    assert Position.read("us", position.key("us"), position.value()) == Position(PLACE, 8)
    reaching = Position(PLACE, 8, *ids, target_end=12)
    assert Position.read("us", position.key("us"), position.value(), reaching.headers()) == reaching


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'["MirrorHeartbeatConnector",{"cluster":"us"}]', b'{"offset":0}'),
        (b'["MirrorSourceConnector",{"cluster":"asia","partition":3,"topic":"orders"}]', b'{"offset":7}'),
        (b"\xff", b'{"offset":7}'),
        (b'["MirrorSourceConnector",{"cluster":"us","partition":3,"topic":"orders"}]', b'{"offset":"x"}'),
        (b'["MirrorSourceConnector",3]', b"{}"),
    ],
)
def test_what_is_no_position_of_this_flow_is_passed_over(key: bytes, value: bytes) -> None:
    assert Position.read("us", key, value) is None


@pytest.mark.parametrize(
    ("key", "value"), [(b"\0\x09abc", b""), (b"\0\x01a\0\0\0\x01", b"\0"), (b"\0\x01\xff\0\0\0\1", b"")]
)
def test_bytes_that_are_none_of_these_are_told(key: bytes, value: bytes) -> None:
    with pytest.raises(ForeignRecord):
        OffsetSync.read(key, value)
