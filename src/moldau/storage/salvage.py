"""Counting the valid batches behind a damaged place, so that recovery can say what it drops."""

from __future__ import annotations

import re

from moldau.kernels import BatchStatus, check_batch
from moldau.storage.files import FileSystem, read_fully
from moldau.wire.batch import HEADER_SIZE

_CHUNK = 1 << 20


def count_valid_batches(files: FileSystem, fd: int, position: int, limit: int, next_offset: int) -> int:
    """Batches between two positions of a file whose CRC fits, wherever they begin.

    Their offsets are expected to share the upper half with `next_offset`, which makes the search for a header cheap.
    """
    upper = next_offset.to_bytes(8, "big", signed=True)[:4]
    header = re.compile(re.escape(upper) + rb".{12}\x02", re.DOTALL)
    found = 0
    while position + HEADER_SIZE <= limit:
        data = read_fully(files, fd, min(_CHUNK, limit - position), position)
        if len(data) < HEADER_SIZE:
            break
        counted, hop = _count_in_chunk(files, fd, data, position, limit, header)
        found += counted
        position += hop
    return found


def _count_in_chunk(
    files: FileSystem, fd: int, data: bytes, position: int, limit: int, header: re.Pattern[bytes]
) -> tuple[int, int]:
    found, at = 0, 0
    while at < len(data):
        match = header.search(data, at)
        if match is None:
            return found, max(1, len(data) - HEADER_SIZE + 1)
        at = match.start()
        batch, offset = data, at
        fields = check_batch(batch, offset, len(batch), False)
        size = fields[1]
        if fields[0] == BatchStatus.TRUNCATED and HEADER_SIZE <= size <= limit - position - at:
            batch, offset = read_fully(files, fd, size, position + at), 0
            fields = check_batch(batch, offset, len(batch), False)
        if fields[0] == BatchStatus.OK:
            found += 1
            at += size
        else:
            at += 1
    return found, at
