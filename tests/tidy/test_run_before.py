"""What was new in the run before fails this one. These tests alone are never written down: they would fail the next."""

from __future__ import annotations

from scripts.first_failures import (
    KNOWN,
    KNOWN_LEFT_OVER,
    LEFT_OVER_BEFORE,
    WRITTEN_BEFORE,
    read_known,
    unknown,
    unknown_left,
)


def test_what_failed_at_first_in_the_run_before_is_known() -> None:
    """Mend it, or write down in tests/known_first_failures.tsv why it is somebody else's; then remove the file."""
    failed = WRITTEN_BEFORE.read_text().splitlines() if WRITTEN_BEFORE.exists() else []
    assert unknown(failed, read_known(KNOWN.read_text())) == [], f"see {WRITTEN_BEFORE}"


def test_what_was_left_behind_by_the_run_before_is_known() -> None:
    """Remove it where it is made, or write down in tests/known_left_over.tsv why it cannot be; then remove the file."""
    left = LEFT_OVER_BEFORE.read_text().splitlines() if LEFT_OVER_BEFORE.exists() else []
    assert unknown_left(left, read_known(KNOWN_LEFT_OVER.read_text())) == [], f"see {LEFT_OVER_BEFORE}"
