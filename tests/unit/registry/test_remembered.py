"""What is kept of schemas that were read, asked for by many threads at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.registry.reading import Reader
from moldau.registry.remembered import ENTRY_BYTES, Remembered
from moldau.schemas.workshop import Text, Workshop

MOST, THREADS, KEYS = 20, 8, 2000


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_many_threads_ask_while_old_results_are_forgotten() -> None:
    kept: Remembered[int] = Remembered(MOST * ENTRY_BYTES, lambda found: 0)

    def ask(thread: int) -> bool:
        return all(kept.get(key, lambda key=key: -key) == -key for key in range(thread, KEYS + thread))  # type: ignore[misc]

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(ask, range(THREADS))) == [True] * THREADS
    assert kept.size_bytes == MOST * ENTRY_BYTES


def test_the_newest_results_are_kept() -> None:
    kept: Remembered[str] = Remembered(2 * ENTRY_BYTES + 3, len)
    asked: list[str] = []

    def find(key: str) -> str:
        return kept.get(key, lambda: asked.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [find(key) for key in "abacba"] == list("ABACBA")
    assert asked == ["a", "b", "c", "a"]


def test_what_is_larger_than_all_that_may_be_kept_is_not_kept() -> None:
    kept: Remembered[str] = Remembered(10 * ENTRY_BYTES, len)
    assert kept.get("small", lambda: "s") == "s"
    assert len(kept.get("large", lambda: "x" * 10 * ENTRY_BYTES)) == 10 * ENTRY_BYTES
    assert kept.size_bytes == 0


def test_large_schemas_take_no_more_memory_than_is_given() -> None:
    most = 1 << 20
    with Workshop(1) as workshop:
        reader = Reader(workshop, most)
        for number in range(12):
            text = f'{{"type":"fixed","name":"F{number}","doc":"{"x" * 100_000}","size":1}}'
            first = reader.parse(Text("AVRO", text, {}), check=True)
            assert reader.remembered.size_bytes <= most
        workshop.close()
        assert reader.parse(Text("AVRO", text, {}), check=True) == first
