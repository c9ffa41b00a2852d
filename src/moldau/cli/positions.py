"""Where in a partition reading begins or ends, as people type it.

start, end     the first record; behind the last one at this moment
42             an offset
-10            where the last ten records begin
@TIME          the first record at or after a time: @2024-05-01T12:00:00, @-1h, @1714566600250
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.cli.output import WRONG_USAGE, CommandError
from moldau.cli.reading import READ_COMMITTED, Range, last_records
from moldau.cli.times import instant_ms

if TYPE_CHECKING:
    from moldau.cli.admin import Place
    from moldau.cli.connect import Connection

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
        hint = "expected start, end, an offset, -N for the last N records, or @TIME"
        raise CommandError(f"{text!r} is no position", hint, WRONG_USAGE)


def ranges(
    cluster: Connection, places: Iterable[Place], begin: Position, end: Position, isolation: str
) -> dict[Place, Range]:
    """Turns positions into offsets that exist: never before the log's start, never behind its end."""
    from confluent_kafka.admin import OffsetSpec

    from moldau.cli.admin import offsets, required

    wanted = list(places)
    admin = cluster.admin()
    lows = offsets(admin, {place: OffsetSpec.earliest() for place in wanted})
    highs = offsets(admin, {place: OffsetSpec.latest() for place in wanted}, isolation == READ_COMMITTED)
    low = {place: int(required(f"start of {place}", lows[place]).offset) for place in wanted}
    high = {place: int(required(f"end of {place}", highs[place]).offset) for place in wanted}
    logs = {place: Range(low[place], high[place]) for place in wanted}
    first, last = (_resolve(cluster, logs, position, isolation) for position in (begin, end))
    return {place: Range(first[place], max(first[place], last[place])) for place in wanted}


def _resolve(cluster: Connection, logs: Mapping[Place, Range], position: Position, isolation: str) -> dict[Place, int]:
    match position.kind:
        case "start":
            return {place: log.first for place, log in logs.items()}
        case "end":
            return {place: log.last for place, log in logs.items()}
        case "offset":
            found = dict.fromkeys(logs, position.number)
        case "before_end":
            found = last_records(cluster, logs, position.number, isolation)
        case _:
            found = _at_time(cluster, logs, position.number)
    return {place: min(max(found[place], log.first), log.last) for place, log in logs.items()}


def _at_time(cluster: Connection, logs: Mapping[Place, Range], time_ms: int) -> dict[Place, int]:
    from confluent_kafka.admin import OffsetSpec

    from moldau.cli.admin import offsets, required

    answers = offsets(cluster.admin(), {place: OffsetSpec.for_timestamp(time_ms) for place in logs})
    found = {place: int(required(f"offset by time of {place}", answers[place]).offset) for place in logs}
    return {place: logs[place].last if offset == NOTHING_THAT_LATE else offset for place, offset in found.items()}
