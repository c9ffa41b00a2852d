"""How long a topic keeps records by the times in them, and when that is worth a question.

A broker goes by the time in a record, not by when it was written: what keeps the times of last year can be gone minutes
after it was written. Nothing fails by it, so whoever writes says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OLD_MS: Final = 60 * 60_000
"""Nobody is asked for younger records."""
RETENTION, POLICY, TIMES = "retention.ms", "cleanup.policy", "message.timestamp.type"
DAY_MS: Final = 24 * 60 * 60_000


def kept_ms(settings: Mapping[str, str]) -> int | None:
    """None if the topic keeps them for ever, or goes by the time of their arrival."""
    retention_ms = int(settings.get(RETENTION, "-1"))
    deletes = "delete" in settings.get(POLICY, "delete")
    keeps_times = settings.get(TIMES, "CreateTime") == "CreateTime"
    return retention_ms if deletes and keeps_times and retention_ms >= 0 else None


def in_words(milliseconds: int) -> str:
    return (
        f"{milliseconds / DAY_MS:.0f} days" if milliseconds >= 2 * DAY_MS else f"{milliseconds / 3_600_000:.1f} hours"
    )
