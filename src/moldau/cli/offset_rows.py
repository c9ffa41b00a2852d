"""Offsets of groups as CSV, as Kafka's `--export` writes them: `topic,partition,offset` for one group, or for several
with the group before them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

from moldau.types.ids import TopicPartition

COLUMNS = 3


class OffsetRow(NamedTuple):
    group: str
    place: TopicPartition
    offset: int


class BadRowError(ValueError):
    """A line that is none of an export; `line` is its number."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def offset_rows(text: str, group: str | None) -> Iterator[OffsetRow]:
    """`group` is whose the rows are that name none; without it they have to. Raises BadRowError."""
    for line, cells in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not cells:
            continue
        if len(cells) == COLUMNS and group is not None:
            cells = [group, *cells]
        try:
            named, topic, partition, offset = (cell.strip() for cell in cells)
            yield OffsetRow(named, TopicPartition(topic, int(partition)), int(offset))
        except ValueError:
            raise BadRowError(line) from None
