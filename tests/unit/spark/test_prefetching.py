"""Answers that are fetched ahead: larger ones where the task has to wait for them."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.settings import ClientSettings, parse_addresses
from moldau.spark.fetching import prefetch
from moldau.spark.fetching.partition_fetcher import Answer
from moldau.spark.fetching.prefetch import Prefetcher
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.planning.split import Split
from tests.support.waiting import wait_until

ANSWERS = 5


class SlowFetcher:
    """Each answer but the first comes when the task waits for it already."""

    reader: Prefetcher

    def __init__(self, *_: Any, **__: Any) -> None:
        self.connection = None
        self.next_bytes = 1
        self.asked_for_more: list[int] = []

    def ask_for_more(self) -> None:
        self.asked_for_more.append(self.next_bytes)

    def fetch(self, offset: int) -> Answer:
        if offset:
            wait_until(lambda: self.reader._starved, "the task waits", 30)
        self.next_bytes += 1
        return Answer(b"x", (), offset + 1)


def test_a_task_that_waits_asks_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "PartitionFetcher", SlowFetcher)
    client = ClientSettings(parse_addresses("nowhere:1"))
    with Prefetcher(Split("t", None, 0, 0, ANSWERS), client, ReadSettings()) as reader:
        SlowFetcher.reader = reader
        assert [answer.next_offset for answer in reader] == [1, 2, 3, 4, 5]
        assert isinstance(reader._fetcher, SlowFetcher)
        # Before the second answer nobody could know; before each of the others the task was seen waiting.
        assert len(reader._fetcher.asked_for_more) >= ANSWERS - 2
