"""Times and durations as people type them."""

from __future__ import annotations

import pytest

from moldau.cli.output import CommandError
from moldau.cli.times import duration_ms, duration_text, instant_ms, instant_text

NOON = 1_714_564_800_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1.5h", 5_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
        ("PT0S", 0),
        ("p2w", 1_209_600_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "P", "PT", "1y", "1h 30m", "an hour"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(CommandError, match="is no duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2024-05-01T12:00:00Z", NOON),
        ("2024-05-01T12:00:00", NOON),
        ("2024-05-01 12:00", NOON),
        ("2024-05-01T14:00:00+02:00", NOON),
        ("2024-05-01T12:00:00.250", NOON + 250),
        ("2024-05-01", NOON - 43_200_000),
        (str(NOON), NOON),
        (f"@{NOON}", NOON),
        ("-1h", NOON - 3_600_000),
        ("-0s", NOON),
    ],
)
def test_instants(text: str, milliseconds: int) -> None:
    assert instant_ms(text, now_ms=NOON) == milliseconds


@pytest.mark.parametrize("text", ["", "noon", "2024-13-01", "-", "-soon", "12:00"])
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(CommandError, match="is no"):
        instant_ms(text, now_ms=NOON)


def test_texts() -> None:
    assert instant_text(NOON + 7) == "2024-05-01T12:00:00.007Z"
    assert instant_text(-1) == ""
    assert [duration_text(each) for each in (0, 999, 61_000, 5_400_000, 90_061_000)] == [
        "0ms",
        "999ms",
        "1m1s",
        "1h30m",
        "1d1h",
    ]
