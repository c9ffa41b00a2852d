"""The generated reference pages are current."""

from __future__ import annotations

from scripts.reference import pages


def test_the_reference_pages_are_current() -> None:
    stale = [path.name for path, text in pages().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run `make docs`"
