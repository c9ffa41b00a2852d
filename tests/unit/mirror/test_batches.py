"""What leaves the source is what comes to the target, however it lay in the log."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.transactions import ProducerId
from moldau.kernels import BatchCheck, BatchStatus, check_batch
from moldau.mirror.batches import RAW_BYTES, Piece, cut
from moldau.wire.batch import CorruptBatchError
from moldau.wire.control import ControlType, encode_control_key
from moldau.wire.records import Record, build_batch, iter_batches, iter_records

ROOM = 900_000


def stamped(piece: Piece) -> list[Record]:
    """As a broker checks it, and as a reader sees it."""
    piece.stamp(ProducerId(7, 3), 5)
    fields = BatchCheck(*check_batch(piece.data, 0, len(piece.data)))
    assert fields.status in (BatchStatus.OK, BatchStatus.COMPRESSED)
    assert (fields.producer_id, fields.producer_epoch, fields.base_sequence, fields.base_offset) == (7, 3, 5, 0)
    assert fields.attributes & 0x10 and not fields.attributes & 0x20
    assert fields.record_count == fields.last_offset_delta + 1 == piece.count
    return [record for batch in iter_batches(bytes(piece.data)) for record in iter_records(batch)]


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.timestamp, record.headers) for record in records]


def log_of(*batches: bytes) -> bytearray:
    return bytearray(b"".join(batches))


def some(count: int, size: int = 10) -> list[Record]:
    return [
        Record(
            b"v" * size,
            None if each % 3 else b"k%d" % each,
            1000 + each,
            (("h", b"x"), ("n", None)) if each % 2 else (),
        )
        for each in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 4), st.sampled_from([1024, 20_000, ROOM]))
def test_any_log_arrives_whole(seed: int, codec: int, room: int) -> None:
    """Holes, the log's time, many sizes, a position inside: the records from the position on, in order."""
    draw = random.Random(seed)
    batches, expected, offset = [], [], 0
    for _ in range(draw.randrange(1, 12)):
        records = some(draw.randrange(1, 40), draw.choice([0, 10, 3000]))
        offsets = sorted(draw.sample(range(offset, offset + 2 * len(records)), len(records)))
        if draw.random() < 0.5:
            offsets = list(range(offset, offset + len(records)))
        append_time = draw.choice([None, None, 77])
        horizon = draw.choice([None, None, 99])
        batches.append(
            build_batch(
                records, base_offset=offset, offsets=offsets, codec=draw.choice([0, codec]),
                log_append_time=append_time, delete_horizon=horizon, leader_epoch=4,
            )
        )  # fmt: skip
        expected += iter_records(next(iter_batches(batches[-1])))
        offset = offsets[-1] + 1
    position = draw.randrange(offset)
    found = cut(log_of(*batches), (), position, room)
    wanted = [record for record in expected if record.offset >= position]
    assert found.next_offset == offset
    assert contents([record for piece in found.pieces for record in stamped(piece)]) == contents(wanted)
    assert [piece.first for piece in found.pieces] == [
        wanted[sum(other.count for other in found.pieces[:index])].offset for index in range(len(found.pieces))
    ]
    assert found.pieces[-1].last == wanted[-1].offset
    for piece in found.pieces:
        assert piece.size <= room + 200 or piece.count == 1 or codec


def test_large_batches_travel_as_they_are() -> None:
    big = build_batch(some(50, 1000), base_offset=10, producer_id=99, producer_epoch=1, base_sequence=3)
    assert len(big) >= RAW_BYTES
    log = log_of(big)
    (piece,) = cut(log, (), 10, ROOM).pieces
    assert piece.runs and (piece.first, piece.last) == (10, 59)
    assert isinstance(piece.data, memoryview) and piece.data.obj is log
    assert contents(stamped(piece)) == contents(some(50, 1000))


def test_small_batches_are_joined() -> None:
    log = log_of(*(build_batch(some(3), base_offset=3 * each) for each in range(100)))
    (piece,) = cut(log, (), 0, ROOM).pieces
    assert (piece.count, piece.first, piece.last, piece.runs) == (300, 0, 299, True)


def test_a_hole_ends_what_runs_on() -> None:
    (piece,) = cut(log_of(build_batch(some(2), offsets=[0, 5])), (), 0, ROOM).pieces
    assert not piece.runs and (piece.first, piece.last, piece.count) == (0, 5, 2)


def test_aborted_transactions_and_control_batches_stay_behind() -> None:
    def marker(kind: ControlType, offset: int, producer: int) -> bytes:
        record = Record(b"\0\0\0\0\0\0", encode_control_key(kind), 5)
        return build_batch(
            [record], base_offset=offset, control=True, transactional=True, producer_id=producer, producer_epoch=0
        )

    def written(value: bytes, offset: int, producer: int) -> bytes:
        return build_batch(
            [Record(value)], base_offset=offset, transactional=True, producer_id=producer, producer_epoch=0
        )

    log = log_of(
        written(b"aborted", 0, 1), written(b"kept", 1, 2), marker(ControlType.ABORT, 2, 1),
        written(b"later", 3, 1), marker(ControlType.COMMIT, 4, 2), marker(ControlType.COMMIT, 5, 1),
    )  # fmt: skip
    found = cut(log, [(1, 0)], 0, ROOM)
    assert [record.value for piece in found.pieces for record in stamped(piece)] == [b"kept", b"later"]
    assert found.next_offset == 6


def test_a_batch_that_is_cut_off_waits_for_the_next_answer() -> None:
    first, second = build_batch(some(3)), build_batch(some(3), base_offset=3)
    assert cut(log_of(first, second[:-1]), (), 0, ROOM).next_offset == 3


def test_damage_is_told() -> None:
    log = log_of(build_batch(some(3)))
    log[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="BAD_CRC in the source near offset 0"):
        cut(log, (), 0, ROOM)
