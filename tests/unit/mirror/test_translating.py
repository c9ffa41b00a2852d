"""Offsets of groups: never behind what was read by more than is known, never ahead of what was not read."""

from __future__ import annotations

import random

from moldau.mirror.formats import Checkpoint, OffsetSync
from moldau.mirror.translating import KEPT, Translation, is_newer, to_commit
from moldau.types.ids import TopicPartition

PLACE = TopicPartition("orders", 0)


def known(*syncs: tuple[int, int, int]) -> Translation:
    found = Translation()
    for upstream, downstream, run in syncs:
        found.add(OffsetSync(PLACE, upstream, downstream, run))
    return found


def test_within_a_run_offsets_are_exact() -> None:
    found = known((100, 10, 50))
    assert [found.translate(offset) for offset in (99, 100, 120, 150, 500)] == [None, 10, 30, 60, 60]


def test_as_java_does_where_nothing_is_known_of_a_run() -> None:
    found = known((100, 10, 1))
    assert [found.translate(offset) for offset in (100, 101, 120)] == [10, 11, 11]


def test_a_partition_that_was_copied_anew_begins_anew() -> None:
    found = known((100, 10, 50), (0, 200, 5))
    assert found.translate(3) == 203 and found.translate(120) == 205
    rewritten = known((0, 0, 10), (100, 10, 50), (50, 5, 2))
    assert rewritten.translate(120) == 7


def test_many_syncs_thin_out_but_stay_right() -> None:
    found = Translation()
    for number in range(3 * KEPT):
        found.add(OffsetSync(PLACE, 10 * number, 11 * number, 10))
    assert len(found.syncs) <= KEPT
    for offset in (0, 12345, 30 * KEPT - 3):
        translated = found.translate(offset)
        assert translated is not None and translated <= 11 * (offset // 10) + offset % 10


def test_never_ahead_whatever_the_log_looked_like() -> None:
    """Against a log that is written down record by record."""
    for seed in range(50):
        draw = random.Random(seed)
        upstream = downstream = 0
        found, places = Translation(), {}
        for _ in range(draw.randrange(1, 30)):
            run = draw.randrange(1, 20)
            found.add(OffsetSync(PLACE, upstream, downstream, run))
            places.update({upstream + each: downstream + each for each in range(run)})
            upstream += run + draw.choice([0, 0, 3])
            downstream += run + draw.choice([1, 2])
        for offset in range(upstream + 2):
            behind = [place for up, place in places.items() if up >= offset]
            translated = found.translate(offset)
            assert translated is not None and (not behind or translated <= min(behind))
            assert all(place < translated for up, place in places.items() if up < offset)


def test_back_again() -> None:
    found = known((100, 10, 50), (200, 70, 1))
    assert [found.back(offset) for offset in (9, 10, 30, 60, 65, 70, 71, 99)] == [
        None,
        100,
        120,
        150,
        150,
        200,
        201,
        201,
    ]


def test_checkpoints_go_forward_unless_the_group_went_back() -> None:
    def at(upstream: int, downstream: int) -> Checkpoint:
        return Checkpoint("g", PLACE, upstream, downstream)

    assert is_newer(at(5, 5), None)
    assert is_newer(at(6, 6), at(5, 5))
    assert not is_newer(at(5, 5), at(5, 5)) and not is_newer(at(6, 4), at(5, 5))
    assert is_newer(at(3, 3), at(5, 5))


def test_a_group_is_only_moved_forward_in_the_target() -> None:
    other = TopicPartition("us.orders", 1)
    wanted = {PLACE: Checkpoint("g", PLACE, 5, 5), other: Checkpoint("g", other, 5, 5)}
    assert to_commit(wanted, {PLACE: 9}) == {other: wanted[other]}
    assert to_commit(wanted, {PLACE: 4, other: 5}) == {PLACE: wanted[PLACE]}
