"""Times and durations as people type them.

2024-05-01T12:30:00.250Z   an instant; without a zone it is UTC, as in Kafka's tools; the time may be left out
1714566600250 or @…        milliseconds since 1970
-1h30m                     that long ago
90s, 1h30m, 2d, PT1H30M    a duration: ms, s, m, h, d, w, or ISO 8601
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from moldau.cli.output import WRONG_USAGE, CommandError

UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
ISO_DURATION: Final = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


def duration_ms(text: str) -> int:
    wanted = text.strip()
    if DURATION.fullmatch(wanted.lower()):
        return round(sum(float(count) * UNITS[unit] for count, unit in DURATION_PART.findall(wanted.lower())))
    iso = ISO_DURATION.fullmatch(wanted)
    if iso and any(iso.groupdict().values()):
        return round(sum(float(count) * UNITS[unit] for unit, count in iso.groupdict().items() if count))
    raise CommandError(f"{text!r} is no duration", "expected for example 90s, 1h30m, 2d or PT1H30M", WRONG_USAGE)


def instant_ms(text: str, now_ms: int) -> int:
    wanted = text.strip().removeprefix("@")
    if wanted.isdigit() and len(wanted) > len("20240501"):
        return int(wanted)
    if wanted.startswith("-"):
        return now_ms - duration_ms(wanted[1:])
    try:
        found = datetime.fromisoformat(wanted)
    except ValueError:
        hint = "expected for example 2024-05-01T12:30:00, 2024-05-01T12:30:00+02:00, -1h, or milliseconds since 1970"
        raise CommandError(f"{text!r} is no time", hint, WRONG_USAGE) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def instant_text(milliseconds: int) -> str:
    """UTC, to the millisecond."""
    if milliseconds < 0:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds % 60, "s"))
    shown = [f"{count}{unit}" for count, unit in parts if count]
    return "".join(shown[:2]) or f"{milliseconds}ms"
