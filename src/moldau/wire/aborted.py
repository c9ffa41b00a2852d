"""Which batches of a fetch answer belong to transactions that were aborted, for readers of committed
records.

The answer lists the aborted transactions of its range: (producer id, first offset). From a transaction's first offset
to its abort marker the transactional batches of its producer are left out. Each answer brings a whole list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import Final

from moldau.kernels import BatchCheck, records_spans
from moldau.wire.batch import CODEC_MASK
from moldau.wire.control import ControlType

CONTROL_KEY: Final = Struct(">hh")


class AbortedTransactions:
    """Which producers are inside an aborted transaction at the offset that was reached."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda transaction: transaction[1]))
        self._open: set[int] = set()

    @property
    def any(self) -> bool:
        return bool(self._ahead or self._open)

    def reach(self, offset: int) -> None:
        while self._ahead and self._ahead[0][1] <= offset:
            self._open.add(self._ahead.popleft()[0])

    def aborted(self, producer_id: int) -> bool:
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        self._open.discard(producer_id)


def is_abort_marker(records: memoryview, batch: BatchCheck) -> bool:
    if batch.record_count < 1 or batch.attributes & CODEC_MASK:
        return False
    key = records_spans(records, batch.record_count)[0][2]
    return key is not None and len(key) >= CONTROL_KEY.size and CONTROL_KEY.unpack_from(key)[1] == ControlType.ABORT
