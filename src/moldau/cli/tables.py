"""Tables as lines of text, the same in a terminal and in a pipe. What stands without a blank or a comma in it, such as
an id, is never broken.

Where a terminal is too narrow, cells are folded at their blanks and commas; where that is not enough, each row becomes
a block of its own, a line per column. A pipe has no width: its lines are as long as they need to be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

GAP: Final = "  "
NOTHING: Final = "-"
BREAKS: Final = re.compile(r"(?<=[ ,])")
"""Behind these a cell may be folded."""


@dataclass(frozen=True, slots=True)
class Column:
    heading: str
    right: bool = False
    """Numbers stand at the right."""
    wide: bool = False
    """Shown with `--output wide` alone."""


@dataclass(slots=True)
class Table:
    columns: Sequence[Column]
    title: str = ""
    rows: list[Sequence[object]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        self.rows.append(cells)

    def without_wide(self) -> Table:
        kept = [index for index, column in enumerate(self.columns) if not column.wide]
        columns = [self.columns[index] for index in kept]
        return Table(columns, self.title, [[row[index] for index in kept] for row in self.rows])


def cell_text(cell: object) -> str:
    if cell is None or cell == "":
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ",".join(map(str, cell)) or NOTHING
    return str(cell)


def lines_of(table: Table, width: int | None = None) -> list[str]:
    """Headings and rows; within the width of a terminal, if one is given."""
    headings = [column.heading.upper() for column in table.columns]
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    widths = fitting([headings, *rows], width)
    if widths is None:
        return blocks(headings, rows)
    return [line for row in [headings, *rows] for line in folded_row(row, widths, table.columns)]


def fitting(rows: Sequence[Sequence[str]], width: int | None) -> list[int] | None:
    """The width of each column, or None where folding cannot make them fit."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) for cells in columns]
    if width is None:
        return widths
    least = [max(len(piece.rstrip(" ")) for cell in cells for piece in BREAKS.split(cell)) for cells in columns]
    room = width - len(GAP) * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((index for index in range(len(widths)) if widths[index] > least[index]), key=widths.__getitem__)
        widths[widest] = max(least[widest], widths[widest] - (sum(widths) - room))
    return widths


def folded(text: str, width: int) -> list[str]:
    lines = [""]
    for piece in BREAKS.split(text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip(" ")) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip(" ") for line in lines]


def folded_row(row: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> list[str]:
    cells = [folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for number in range(max(map(len, cells))):
        parts = [cell[number] if number < len(cell) else "" for cell in cells]
        padded = (
            part.rjust(width) if column.right else part.ljust(width)
            for part, width, column in zip(parts, widths, columns, strict=True)
        )
        lines.append(GAP.join(padded).rstrip())
    return lines


def blocks(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A line per column, a blank line between rows."""
    longest = max(map(len, headings))
    found: list[str] = []
    for row in rows:
        found += [""] if found else []
        found += [f"{heading:<{longest}}{GAP}{cell}" for heading, cell in zip(headings, row, strict=True)]
    return found
