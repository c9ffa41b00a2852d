"""Bringing the producers' state up to a point of the log by reading its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from moldau.kernels import BatchStatus, check_batch, check_run
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.errors import CorruptLogError
from moldau.storage.files import Buffer, FileSystem, read_fully
from moldau.storage.markers import read_marker
from moldau.storage.producer_state import ProducerStates
from moldau.storage.segment import Segment
from moldau.storage.segment_list import SegmentList
from moldau.storage.txn_index import AbortedTxn
from moldau.types.ids import NO_EPOCH
from moldau.wire.batch import CONTROL_BIT

_CHUNK = 1 << 20
_NO_LIMIT = 1 << 62

Skip: TypeAlias = Callable[[memoryview, int, int], int]


def checked_batches(
    files: FileSystem, segment: Segment, position: int, limit: int, skip: Skip | None = None
) -> Iterator[tuple[int, BatchInfo, memoryview]]:
    """Position, facts and bytes of each batch whose CRC fits; the last item may be one that does not, and ends it.

    `skip` may take batches before they are looked at here: it is given bytes, start and end, and returns a new start.
    """
    fd = segment.file.fileno
    wanted = _CHUNK
    while position < limit:
        data = memoryview(read_fully(files, fd, min(wanted, limit - position), position))
        at, end, size = 0, len(data), 0
        if not end:
            raise CorruptLogError(segment.file.path, position, f"the file ends before {limit}")
        while at < end:
            if skip is not None:
                at = skip(data, at, end)
                if at == end:
                    break
            info = BatchInfo._make(check_batch(data, at, end, False))
            size = info.size
            if info.status == BatchStatus.TRUNCATED and position + end < limit:
                break
            yield position + at, info, data[at : at + size]
            if info.status != BatchStatus.OK:
                return
            at += size
        wanted = _CHUNK if at else max(_CHUNK, size)
        position += at


def replay_batch(producers: ProducerStates, segment: Segment, info: BatchInfo, batch: Buffer, *, index: bool) -> None:
    """Apply one batch of the log to the state; `index`: also note an abort in the segment's transaction index."""
    if info.producer_id >= 0:
        marker = read_marker(batch) if info.attributes & CONTROL_BIT else None
        change = producers.stage(info, info.base_offset, Origin.REPLICATION, marker)
        producers.discard_staged()
        completed = producers.publish(change)
        if index and completed is not None and completed.aborted:
            stable = producers.last_stable_offset_after(completed)
            producer_id, first_offset, last_offset, _ = completed
            segment.txn_index.append(AbortedTxn(producer_id, first_offset, last_offset, stable))
    producers.end_offset = info.base_offset + info.last_offset_delta + 1


def rebuild_producers(
    files: FileSystem, segments: SegmentList, producers: ProducerStates, log_start_offset: int, end_offset: int
) -> None:
    """From where the state stands, up to an offset."""
    start = max(producers.end_offset, log_start_offset)
    if start < end_offset:
        for segment in segments.starting_with(start):
            if segment.base_offset < end_offset and segment.size:
                _replay_segment(files, segment, producers, start, end_offset)
    producers.end_offset = end_offset


def _replay_segment(
    files: FileSystem, segment: Segment, producers: ProducerStates, start: int, end_offset: int
) -> None:
    epoch = NO_EPOCH

    def skip_plain(data: memoryview, at: int, end: int) -> int:
        return check_run(data, at, end, 0, epoch, _NO_LIMIT)[0]

    position = segment.locate(start)
    if position < 0:
        return
    for at, info, batch in checked_batches(files, segment, position, segment.size, skip_plain):
        if info.status != BatchStatus.OK:
            raise CorruptLogError(segment.file.path, at, BatchStatus(info.status).name)
        if info.base_offset >= end_offset:
            return
        epoch = info.leader_epoch
        replay_batch(producers, segment, info, batch, index=False)
