"""From the bytes of fetch answers to rows of one split, as columns.

An answer is a row of record batches, the last perhaps cut off, and with read_committed a list of the transactions that
were aborted in its range: (producer id, first offset). From a transaction's first offset to its abort marker the
transactional batches of its producer are left out. Each answer brings a whole list, so nothing is remembered from one
to the next, and a split may begin or end anywhere: in a batch, in a transaction, in a hole that compaction left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from moldau.kernels import BatchCheck, BatchStatus, RunEnd, check_batch
from moldau.wire.aborted import AbortedTransactions, is_abort_marker
from moldau.wire.batch import CODEC_MASK, CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT, CorruptBatchError
from moldau.wire.compression import decompress

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels import RecordColumns

LARGEST_PAYLOAD: Final = 0x7FFFFFFF


class SplitDecoder:
    """Fills columns with the records of [start, end); `position` is the next offset that is wanted."""

    def __init__(
        self, columns: RecordColumns, start: int, end: int, *, committed: bool, check_crcs: bool, batch_bytes: int
    ) -> None:
        self.position = start
        self._columns = columns
        self._end = end
        self._committed = committed
        self._check_crcs = check_crcs
        self._room = batch_bytes

    @property
    def done(self) -> bool:
        return self.position >= self._end

    def skip_to(self, offset: int) -> None:
        """What lies before this is gone: a batch that still holds some of it is read from here."""
        self.position = max(self.position, offset)

    def decode(self, records: Buffer, aborted: Iterable[tuple[int, int]] = ()) -> Iterator[None]:
        """Takes one answer; stops, each time the columns are full, for the caller to take them."""
        view = memoryview(records)
        transactions = AbortedTransactions(aborted if self._committed else ())
        place = 0
        while not self.done:
            place, self.position, how = self._run(view, place, transactions)
            if how == RunEnd.FULL:
                yield
            elif how == RunEnd.SPECIAL:
                batch = self._checked(view, place)
                yield from self._special(view[place : place + batch.size], batch, transactions)
                place += batch.size
            elif how == RunEnd.PAST_END:
                self.position = max(self.position, self._end)
            else:
                return

    def _run(self, view: memoryview, place: int, transactions: AbortedTransactions) -> tuple[int, int, int]:
        """Over the batches that need no thought, in one call."""
        try:
            return self._columns.append_run(
                view, place, len(view), self.position, self._end, self._room, self._check_crcs, transactions.any
            )
        except ValueError as error:
            raise CorruptBatchError(f"{error}, near offset {self.position}") from None

    def _checked(self, view: memoryview, place: int) -> BatchCheck:
        batch = BatchCheck(*check_batch(view, place, len(view), False))
        if batch.status != BatchStatus.OK and (batch.status != BatchStatus.BAD_CRC or self._check_crcs):
            raise CorruptBatchError(f"{BatchStatus(batch.status).name} at offset {batch.base_offset}")
        return batch

    def _special(self, data: memoryview, batch: BatchCheck, transactions: AbortedTransactions) -> Iterator[None]:
        last_offset = batch.base_offset + batch.last_offset_delta
        transactions.reach(last_offset)
        try:
            if batch.attributes & CONTROL_BIT:
                if is_abort_marker(data[HEADER_SIZE:], batch):
                    transactions.end(batch.producer_id)
                self.position = last_offset + 1
                return
            if batch.attributes & TRANSACTIONAL_BIT and transactions.aborted(batch.producer_id):
                self.position = last_offset + 1
                return
            codec = batch.attributes & CODEC_MASK
            payload = decompress(codec, data[HEADER_SIZE:], LARGEST_PAYLOAD) if codec else data[HEADER_SIZE:]
            while True:
                self.position = self._columns.append_batch(data, payload, self.position, self._end, self._room)
                if self.position > last_offset:
                    return
                yield
        except ValueError as error:
            raise CorruptBatchError(f"the batch at offset {batch.base_offset} cannot be read: {error}") from error
