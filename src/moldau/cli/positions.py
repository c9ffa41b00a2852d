"""Where in a partition reading begins or ends, as people type it.

start, end     the first record; behind the last one at this moment
42             an offset
-10            ten records before the end
@TIME          the first record at or after a time: @2024-05-01T12:00:00, @-1h, @1714566600250
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.cli.output import WRONG_USAGE, CommandError
from moldau.cli.times import instant_ms

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from moldau.cli.admin import Place

START: Final = "start"
END: Final = "end"
NOTHING_THAT_LATE: Final = -1


@dataclass(frozen=True, slots=True)
class Position:
    kind: str
    number: int = 0

    @classmethod
    def parse(cls, text: str, now_ms: int) -> Position:
        wanted = text.strip()
        if wanted in (START, END):
            return cls(wanted)
        if wanted.startswith("@"):
            return cls("time", instant_ms(wanted, now_ms))
        if wanted.isdigit():
            return cls("offset", int(wanted))
        if wanted.startswith("-") and wanted[1:].isdigit():
            return cls("before_end", int(wanted[1:]))
        hint = "expected start, end, an offset, -N for N before the end, or @TIME"
        raise CommandError(f"{text!r} is no position", hint, WRONG_USAGE)


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one partition that are wanted: first <= offset < last."""

    first: int
    last: int


def ranges(
    admin: AdminClient, places: Iterable[Place], begin: Position, end: Position, read_committed: bool
) -> dict[Place, Range]:
    """Turns positions into offsets that exist: never before the log's start, never behind its end."""
    from confluent_kafka.admin import OffsetSpec

    from moldau.cli.admin import offsets, required

    wanted = list(places)
    lows = offsets(admin, {place: OffsetSpec.earliest() for place in wanted})
    highs = offsets(admin, {place: OffsetSpec.latest() for place in wanted}, read_committed)
    low = {place: int(required(f"start of {place}", lows[place]).offset) for place in wanted}
    high = {place: int(required(f"end of {place}", highs[place]).offset) for place in wanted}
    first, last = (_resolve(admin, wanted, position, low, high) for position in (begin, end))
    return {place: Range(first[place], max(first[place], last[place])) for place in wanted}


def _resolve(
    admin: AdminClient, places: list[Place], position: Position, low: Mapping[Place, int], high: Mapping[Place, int]
) -> dict[Place, int]:
    match position.kind:
        case "start":
            return dict(low)
        case "end":
            return dict(high)
        case "offset":
            found = dict.fromkeys(places, position.number)
        case "before_end":
            found = {place: high[place] - position.number for place in places}
        case _:
            found = _at_time(admin, places, position.number, high)
    return {place: min(max(found[place], low[place]), high[place]) for place in places}


def _at_time(admin: AdminClient, places: list[Place], time_ms: int, high: Mapping[Place, int]) -> dict[Place, int]:
    from confluent_kafka.admin import OffsetSpec

    from moldau.cli.admin import offsets, required

    answers = offsets(admin, {place: OffsetSpec.for_timestamp(time_ms) for place in places})
    found = {place: int(required(f"offset by time of {place}", answers[place]).offset) for place in places}
    return {place: high[place] if offset == NOTHING_THAT_LATE else offset for place, offset in found.items()}
