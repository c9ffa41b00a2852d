"""What is kept of schemas that were read, asked for by many threads at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.registry.remembered import Remembered

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
    kept: Remembered[int] = Remembered(MOST)

    def ask(thread: int) -> bool:
        return all(kept.get(key, lambda key=key: -key) == -key for key in range(thread, KEYS + thread))  # type: ignore[misc]

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(ask, range(THREADS))) == [True] * THREADS


def test_the_newest_results_are_kept() -> None:
    kept: Remembered[str] = Remembered(2)
    asked: list[str] = []

    def find(key: str) -> str:
        return kept.get(key, lambda: asked.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [find(key) for key in "abacba"] == list("ABACBA")
    assert asked == ["a", "b", "c", "a"]
