"""What a sink remembers, as the metadata of committed group offsets. Pure.

A task's marker is committed in the transaction that holds its rows, so that both stand or fall together:

    {"v":1,"batch":12,"rows":1000,"digest":"0123456789abcdef","run":"…","write":"…"}

The sink's state is changed only through `sink_state`, one change at a time:

    {"v":1,"batch":11,"run":"…","tasks":8,"open":true,"taker":"","replay":null,"by":"…","former":["…"]}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

FORMAT: Final = 1
NO_BATCH: Final = -1
FORMER_RUNS_KEPT: Final = 16
DIGEST_DIGITS: Final = 16


class MarkerUnreadable(ValueError):
    """Somebody else committed offsets in this group, or a newer version of this sink did."""


@dataclass(frozen=True, slots=True)
class TaskMarker:
    """The last batch that a task committed."""

    batch: int
    rows: int
    digest: int
    run: str
    write: str

    def to_metadata(self) -> str:
        digest = f"{self.digest:0{DIGEST_DIGITS}x}"
        return _dump(batch=self.batch, rows=self.rows, digest=digest, run=self.run, write=self.write)

    @classmethod
    def from_metadata(cls, text: str) -> TaskMarker:
        fields = _load(text)
        try:
            return cls(fields["batch"], fields["rows"], int(fields["digest"], 16), fields["run"], fields["write"])
        except (KeyError, ValueError, TypeError) as error:
            raise MarkerUnreadable(f"{text!r} is no marker of a task") from error

    def holds(self, rows: int, digest: int) -> bool:
        return (self.rows, self.digest) == (rows, digest)


@dataclass(frozen=True, slots=True)
class SinkState:
    batch: int
    """The last batch that the driver committed, NO_BATCH before the first."""
    run: str
    """The run that may write."""
    tasks: int
    """Tasks below this number may have written or be writing."""
    open: bool
    """False while the run that takes over still fences the tasks of earlier runs."""
    taker: str = ""
    """Who does that: the number of a task and a name that nobody else has (`taker_name`)."""
    replay: int | None = None
    """A batch that an earlier run wrote in part: its remaining rows become visible all at once, by the driver."""
    by: str = ""
    """The run that finished that last batch."""
    former: tuple[str, ...] = ()
    """Runs that wrote before and may not write again, the last ones."""

    def to_metadata(self) -> str:
        return _dump(
            batch=self.batch,
            run=self.run,
            tasks=self.tasks,
            open=self.open,
            taker=self.taker,
            replay=self.replay,
            by=self.by,
            former=list(self.former),
        )

    @classmethod
    def from_metadata(cls, text: str) -> SinkState:
        fields = _load(text)
        try:
            return cls(
                batch=fields["batch"],
                run=fields["run"],
                tasks=fields["tasks"],
                open=fields["open"],
                taker=fields.get("taker", ""),
                replay=fields["replay"],
                by=fields["by"],
                former=tuple(fields["former"]),
            )
        except (KeyError, TypeError) as error:
            raise MarkerUnreadable(f"{text!r} is no state of a sink") from error


def taker_name(task: int, unique: str) -> str:
    return f"{task}/{unique}"


def is_taker_of(task: int, taker: str) -> bool:
    """Whether it was an attempt at this task."""
    return taker.startswith(f"{task}/")


def _dump(**fields: object) -> str:
    return json.dumps({"v": FORMAT, **fields}, separators=(",", ":"))


def _load(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise MarkerUnreadable(f"{text!r} is not JSON") from error
    if not isinstance(fields, dict) or fields.get("v") != FORMAT:
        raise MarkerUnreadable(f"{text!r} is not of version {FORMAT}")
    return fields
