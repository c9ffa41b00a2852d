"""The batches of a segment file, read without a broker and without changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from moldau.wire.batch import HEADER_SIZE, LOG_OVERHEAD, parse_header
from moldau.wire.records import Batch


def whole_batches(path: Path, limit: int | None = None) -> Iterator[tuple[int, Batch]]:
    """Batches with their positions; what cannot be a whole one within the limit ends the walk."""
    size = path.stat().st_size if limit is None else min(path.stat().st_size, limit)
    position = 0
    with path.open("rb") as file:
        while size - position >= HEADER_SIZE:
            head = file.read(HEADER_SIZE)
            header = parse_header(head)
            if header.length < HEADER_SIZE - LOG_OVERHEAD or position + header.size > size:
                return
            yield position, Batch(header, memoryview(head + file.read(header.size - HEADER_SIZE)))
            position += header.size
