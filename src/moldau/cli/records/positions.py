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

from moldau.cli.calls import offsets
from moldau.cli.output import WRONG_USAGE, CommandError
from moldau.cli.records.reading import READ_COMMITTED, Range, last_records
from moldau.cli.refusals import required
from moldau.cli.times import instant_ms

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.types.ids import TopicPartition

START: Final = "start"
END: Final = "end"


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
    cluster: Connection, places: Iterable[TopicPartition], begin: Position, end: Position, isolation: str
) -> dict[TopicPartition, Range]:
    """Turns positions into offsets that exist: never before the log's start, never behind its end."""
    wanted = list(places)
    low = offsets.listed(cluster, wanted, offsets.At.START)
    high = offsets.listed(cluster, wanted, offsets.At.END, isolation == READ_COMMITTED)
    logs = {
        place: Range(required(f"start of {place}", low[place]), required(f"end of {place}", high[place]))
        for place in wanted
    }
    first, last = (_resolve(cluster, logs, position, isolation) for position in (begin, end))
    return {place: Range(first[place], max(first[place], last[place])) for place in wanted}


def _resolve(
    cluster: Connection, logs: Mapping[TopicPartition, Range], position: Position, isolation: str
) -> dict[TopicPartition, int]:
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


def _at_time(cluster: Connection, logs: Mapping[TopicPartition, Range], time_ms: int) -> dict[TopicPartition, int]:
    answers = offsets.listed(cluster, logs, time_ms)
    found = {place: required(f"offset by time of {place}", answers[place]) for place in logs}
    return {
        place: logs[place].last if offset == offsets.NOTHING_THAT_LATE else offset for place, offset in found.items()
    }
