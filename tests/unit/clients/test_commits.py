"""Commits in the background keep their order; only the newest is tried again."""

from __future__ import annotations

import threading

import pytest

from moldau.clients.commits import Committer, Offsets
from moldau.clients.errors import CommitFailed, KafkaFailure
from moldau.clients.records import OffsetAndMetadata, TopicPartition

PLACE = TopicPartition("t", 0)


def at(offset: int) -> Offsets:
    return {PLACE: OffsetAndMetadata(offset)}


def passing() -> CommitFailed:
    return CommitFailed("not committed", cause="the coordinator moves", retriable=True)


def test_a_late_commit_is_not_tried_again_after_a_newer_one() -> None:
    """CMT-07, CMT-08, CMT-09: 2000 fails for a passing reason while 3000 is asked for: 3000 is what remains."""
    tried: list[int] = []
    newer = threading.Event()

    def commit(offsets: Offsets) -> None:
        tried.append(offsets[PLACE].offset)
        if tried == [2000]:
            newer.wait(10)
            raise passing()

    told: list[tuple[int, KafkaFailure | None]] = []
    committer = Committer(commit, pause=lambda _: None)
    for offset in (2000, 3000):
        committer.submit(at(offset), lambda offsets, error: told.append((offsets[PLACE].offset, error)))
    newer.set()
    committer.settle()
    assert tried == [2000, 3000]
    assert [(offset, error is None) for offset, error in told] == [(2000, False), (3000, True)]


def test_the_newest_is_tried_until_it_succeeds_or_cannot() -> None:
    left = [passing(), passing()]

    def commit(offsets: Offsets) -> None:
        if left:
            raise left.pop()

    told: list[KafkaFailure | None] = []
    committer = Committer(commit, pause=lambda _: None)
    committer.submit(at(1), lambda _, error: told.append(error))
    committer.settle()
    assert told == [None]
    refused = CommitFailed("not committed", cause="fenced")

    def refuse(_: Offsets) -> None:
        raise refused

    committer = Committer(refuse, pause=lambda _: None)
    committer.submit(at(1), lambda _, error: told.append(error))
    committer.settle()
    assert told == [None, refused]


def test_a_commit_that_is_waited_for_is_tried_again_after_a_pause_until_its_time_is_over() -> None:
    """CMT-06."""
    now = [0.0]
    tried: list[float] = []

    def refuse(_: Offsets) -> None:
        tried.append(now[0])
        raise passing()

    def pause(seconds: float) -> None:
        assert seconds > 0
        now[0] += seconds

    committer = Committer(refuse, pause, lambda: now[0])
    with pytest.raises(CommitFailed):
        committer.commit(at(1), 1.0)
    assert len(tried) == len(set(tried)) and 1.0 < tried[-1] < 2.0
