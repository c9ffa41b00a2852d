"""Answers between the lanes that fetch them and the task that reads them."""

from __future__ import annotations

from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client.settings import ClientSettings, parse_addresses
from moldau.spark.fetching import lanes
from moldau.spark.fetching.partition_fetcher import Answer
from moldau.spark.fetching.pieces import Piece, Pieces, Stopped
from moldau.spark.fetching.prefetch import LANES, Prefetcher
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split

SPLIT = Split("t", None, 0, 100, 1100)
SIZE = 1 + 10 * LANES
CLIENT = ClientSettings(parse_addresses("nowhere:1"))


def new_pieces() -> Pieces:
    return Pieces(SPLIT, 50, piece_bytes=20, cut_budget_bytes=100)


def taken(pieces: Pieces) -> Piece:
    piece = pieces.take()
    assert piece is not None
    return piece


def bounds(piece: Piece) -> tuple[int, int]:
    return piece.split.start, piece.split.end


def answer_to(offset: int, size: int = 10) -> Answer:
    return Answer(b"x" * size, (), offset, batches=5 if size else 0)


def cut_at_110() -> Pieces:
    """One byte an offset, and so 20 offsets a piece."""
    pieces = new_pieces()
    whole = taken(pieces)
    pieces.put(whole, answer_to(110))
    assert pieces.cut(whole)
    pieces.end(whole)
    return pieces


def test_a_split_is_one_piece_at_first() -> None:
    pieces = new_pieces()
    whole = taken(pieces)
    assert bounds(whole) == (100, 1100)
    assert pieces.take() is None
    assert not pieces.cut(whole), "nothing is known of its size yet"
    assert pieces.has_room(whole, 1000)
    pieces.put(whole, answer_to(110))
    assert pieces.has_room(whole, 40) and not pieces.has_room(whole, 41)
    assert pieces.cut(whole)
    assert pieces.has_room(whole, 90)
    assert [bounds(taken(pieces)) for _ in range(3)] == [(110, 130), (130, 150), (150, 170)]
    assert not pieces.cut(whole), "once is enough"


def test_pieces_are_whole_and_follow_one_another_to_the_end() -> None:
    pieces = cut_at_110()
    found = []
    while (piece := pieces.take()) is not None:
        found.append(bounds(piece))
    assert [start for start, _ in found] == [110, *(end for _, end in found[:-1])]
    assert found[-1] == (1090, 1100)


def test_the_size_of_a_piece_follows_the_last_answer() -> None:
    pieces = cut_at_110()
    first = taken(pieces)
    assert first.expected_bytes == 24, "two batches more: both ends are in the middle of one"
    pieces.put(first, answer_to(first.reached + 40))
    assert bounds(taken(pieces)) == (130, 210), "a quarter of a byte an offset"
    pieces.put(first, answer_to(first.reached, size=0))
    second = taken(pieces)
    assert second.split.size == 80, "an answer without records tells nothing"
    pieces.put(second, answer_to(second.reached + 1, size=1000))
    assert taken(pieces).split.size == 1, "a piece is never empty"


def test_a_short_rest_is_not_cut() -> None:
    pieces = new_pieces()
    whole = taken(pieces)
    pieces.put(whole, answer_to(800))
    assert not pieces.cut(whole)


def test_the_budget_holds_but_for_the_piece_that_is_read() -> None:
    pieces = cut_at_110()
    first, second = taken(pieces), taken(pieces)
    task = iter(pieces)
    assert [answer.size for answer in pieces.answers(next(task))] == [10]
    assert next(task) is first
    pieces.reserve(first, 60)
    pieces.reserve(second, 40)
    assert not pieces.has_room(second, 1)
    assert pieces.has_room(first, 1000), "the task waits for it"
    pieces.put(first, answer_to(120, size=60))
    assert not pieces.has_room(first, 1), "it has something to read"
    pieces.free(60)
    pieces.free(40)
    assert pieces.has_room(second, 40)
    pieces.stop()
    with pytest.raises(Stopped):
        pieces.reserve(second, 1)
    with pytest.raises(Stopped):
        pieces.sleep(1000)
    assert pieces.take() is None


def test_a_failure_is_raised_behind_the_rows_before_it() -> None:
    pieces = cut_at_110()
    first, second = taken(pieces), taken(pieces)
    pieces.end(second, OSError("lost"))
    pieces.put(first, answer_to(130))
    pieces.end(first)
    task = iter(pieces)
    assert [answer.next_offset for _ in range(2) for answer in pieces.answers(next(task))] == [110, 130]
    with pytest.raises(OSError, match="lost"):
        list(pieces.answers(next(task)))


class OneByOne:
    """One offset in each answer, from a broker that is near."""

    round_trip_seconds = 0.0

    def __init__(self, cluster: object, split: Split, settings: object, *_: object, **__: Any) -> None:
        self.split = split
        self.connection = SimpleNamespace(round_trip_seconds=self.round_trip_seconds)
        self.next_bytes = 1

    def fetch(self, offset: int) -> Answer:
        return Answer(b"x", (), offset + 1, batches=1)


class Meeting(OneByOne):
    """Far away. All but the first answer come only if each lane has a request under way."""

    round_trip_seconds = 0.5
    meeting = Barrier(LANES, timeout=30)

    def fetch(self, offset: int) -> Answer:
        if offset:
            self.meeting.wait()
        return super().fetch(offset)


def read_through(fetcher: type[OneByOne], monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The offsets of the answers, piece by piece."""
    monkeypatch.setattr(lanes, "PartitionFetcher", fetcher)
    with Prefetcher(Split("t", None, 0, 0, SIZE), CLIENT, ReadSettings(fetch_bytes=2)) as pieces:
        return [[answer.next_offset for answer in pieces.answers(piece)] for piece in pieces]


def test_several_requests_are_under_way_and_answers_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_through(Meeting, monkeypatch) == [[offset] for offset in range(1, SIZE + 1)]


def test_one_request_is_under_way_where_the_broker_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_through(OneByOne, monkeypatch) == [list(range(1, SIZE + 1))]
