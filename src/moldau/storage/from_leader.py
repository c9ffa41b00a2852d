"""What a leader sends its follower: whether these batches may come next in the follower's log."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.kernels import BatchStatus, check_batch
from moldau.storage.batch_info import BatchInfo
from moldau.storage.errors import RefusedBatchError
from moldau.storage.files import Buffer
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition


def batches_from_leader(
    batches: Buffer, next_offset: int, leader_epoch: int, partition: TopicPartition
) -> Iterator[tuple[memoryview, BatchInfo]]:
    """Each batch with what its header says; a cut-off last one is left out.

    Raises RefusedBatchError at bytes that are not what the leader of this epoch may send next.
    """
    view = memoryview(batches)
    position, limit = 0, len(view)
    while position < limit:
        info = BatchInfo._make(check_batch(view, position, limit, False))
        if info.status == BatchStatus.TRUNCATED:
            return
        if info.status != BatchStatus.OK:
            raise RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, f"{BatchStatus(info.status).name} at byte {position}")
        if info.base_offset < next_offset:
            raise RefusedBatchError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Unexpected offset in append to {partition}. First offset {info.base_offset} is less "
                f"than the next offset {next_offset}.",
            )
        if info.leader_epoch > leader_epoch:
            raise RefusedBatchError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"Unexpected epoch in append to {partition}. Offset {info.base_offset} was written in "
                f"epoch {info.leader_epoch}, the leader's is {leader_epoch}.",
            )
        yield view[position : position + info.size], info
        next_offset = info.base_offset + info.last_offset_delta + 1
        position += info.size
