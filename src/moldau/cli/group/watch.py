"""`moldau group watch`: the lag of groups, again and again, with how fast they read and how fast is written."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.cli import hidden, refusals
from moldau.cli.calls import groups, offsets
from moldau.cli.calls.offsets import At
from moldau.cli.output import DONE, INTERRUPTED, WRONG_USAGE, Column, CommandError, Format, Table, note
from moldau.cli.tables import lines_of
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

COLUMNS: Final = (
    Column("time"),
    Column("group"),
    Column("state"),
    Column("members", right=True),
    Column("lag", right=True),
    Column("read/s", right=True),
    Column("written/s", right=True),
)
UP_AND_CLEAR: Final = "\x1b[{}F\x1b[J"


@dataclass(frozen=True, slots=True)
class Look:
    """One group at one moment."""

    at: float
    state: str
    members: int
    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    @property
    def lag(self) -> int:
        return sum(max(0, self.ends[place] - offset) for place, offset in self.positions.items() if place in self.ends)


def rates(before: Look | None, now: Look) -> tuple[float | None, float | None]:
    """Records read and written per second since the last look, over the partitions that both know."""
    if before is None or now.at <= before.at:
        return None, None
    seconds = now.at - before.at
    read = sum(offset - before.positions[place] for place, offset in now.positions.items() if place in before.positions)
    written = sum(end - before.ends[place] for place, end in now.ends.items() if place in before.ends)
    return read / seconds, written / seconds


def document(name: str, before: Look | None, now: Look, clock: str) -> dict[str, Any]:
    read, written = rates(before, now)
    return {
        "time": clock,
        "group": name,
        "state": now.state,
        "members": now.members,
        "lag": now.lag,
        "read_per_second": None if read is None else round(read, 1),
        "written_per_second": None if written is None else round(written, 1),
    }


def look(cluster: Connection, names: Sequence[str]) -> dict[str, Look]:
    found = refusals.existing_groups(cluster, names)
    with refusals.while_doing("cannot read the offsets of groups"):
        positions = {
            name: {place: each.offset for place, each in groups.committed(cluster, name).items()} for name in names
        }
    places = sorted({place for known in positions.values() for place in known})
    ends = {place: end for place, end in offsets.listed(cluster, places, At.END).items() if isinstance(end, int)}
    at = time.monotonic()
    return {
        name: Look(
            at,
            groups.state_name(found[name].state),
            len(found[name].members),
            positions[name],
            {place: ends[place] for place in positions[name] if place in ends},
        )
        for name in names
    }


def watch(cluster: Connection, names: Sequence[str], every_ms: int, rounds: int | None, output: Format) -> int:
    if every_ms <= 0:
        raise CommandError("--every must be more than nothing", "for example --every 2s", WRONG_USAGE)
    wanted = list(dict.fromkeys(names))
    screen = Screen(output)
    pause = threading.Event()
    before: dict[str, Look] = {}
    try:
        for _ in _turns(rounds, lambda: pause.wait(every_ms / 1000)):
            now = look(cluster, wanted or _all(cluster))
            clock = time.strftime("%H:%M:%S")
            screen.show([document(name, before.get(name), each, clock) for name, each in now.items()])
            before = now
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _turns(rounds: int | None, between: Callable[[], object]) -> Iterator[int]:
    done = 0
    while rounds is None or done < rounds:
        if done:
            between()
        yield done
        done += 1


def _all(cluster: Connection) -> list[str]:
    with refusals.while_doing("cannot list the groups"):
        found = groups.names(cluster)
    return [name for name in found if not hidden.hidden_group(name)]


class Screen:
    """A terminal shows the last round in place; elsewhere each round is added below, under one heading."""

    def __init__(self, output: Format) -> None:
        self._output = output
        self._drawn = 0
        self._headed = False

    def show(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._output.for_programs:
            for row in rows:
                print(json.dumps(row, ensure_ascii=False))
        elif not rows:
            note("no groups")
        else:
            self._draw(lines_of(Table(COLUMNS, rows=[tuple(row.values()) for row in rows])))
        sys.stdout.flush()

    def _draw(self, lines: list[str]) -> None:
        if sys.stdout.isatty():
            if self._drawn:
                print(UP_AND_CLEAR.format(self._drawn), end="")
            self._drawn = len(lines)
        elif self._headed:
            lines = lines[1:]
        self._headed = True
        print(*lines, sep="\n")
