"""Replicas compared batch by batch, up to what is committed."""

from __future__ import annotations

from moldau.cli.replicas.comparison import Batch, Part, batches_in, compare
from moldau.wire.records import Record, build_batch


def part(*crcs: int, committed: int = 100, step: int = 10) -> Part:
    return Part(tuple(Batch(step * number + step - 1, crc) for number, crc in enumerate(crcs)), committed)


def test_equal_replicas_are_compared_as_far_as_each_of_them_goes() -> None:
    found = compare(0, {1: part(7, 8, 9), 2: part(7, 8), 3: part(7, 8, 9)})
    assert (found.next_offset, found.differences, found.parted) == (20, (), False)
    assert compare(0, {1: part(7, 8), 2: part(7, 8, committed=15)}).next_offset == 10
    assert compare(5, {1: part(), 2: part(7)}).next_offset == 5


def test_other_bytes_are_told_and_passed() -> None:
    found = compare(0, {1: part(7, 8), 2: part(7, 88)})
    assert found.next_offset == 20
    assert found.differences == (
        " has unmatched checksum at offset 19; replica 1's checksum 8; replica 2's checksum 88",
    )


def test_other_offsets_end_the_comparison() -> None:
    found = compare(0, {1: part(7), 2: part(7, step=11)})
    assert found.parted
    assert found.differences == (": replica 1's offset 9 doesn't match replica 2's offset 10",)
    assert found.next_offset == 0


def test_batches_are_found_in_what_was_fetched_and_one_that_is_cut_off_is_left() -> None:
    records = b"".join(bytes(build_batch([Record(b"k", b"v")], base_offset=number)) for number in range(3))
    assert [batch.last_offset for batch in batches_in(records)] == [0, 1, 2]
    assert [batch.last_offset for batch in batches_in(records[:-1])] == [0, 1]
    assert batches_in(None) == batches_in(b"") == ()
