"""Transactions as the cleaner passes over them in offset order (pure).

Data of an aborted transaction goes at once. A marker stays until no batch of its transaction is left, and then as long
as a tombstone would. The index of aborted transactions keeps an entry while data of it was there in this pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.storage.txn_index import AbortedTxn
from moldau.wire.batch import BatchHeader
from moldau.wire.control import ControlType, decode_control_type
from moldau.wire.records import Batch, iter_records


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTxn], start_offset: int) -> None:
        """`aborted` of the whole log; only those that end at or after the start can matter."""
        ahead = (txn for txn in aborted if txn.last_offset >= start_offset)
        self._ahead = sorted(ahead, key=lambda txn: txn.first_offset, reverse=True)
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._seen_aborted: set[int] = set()
        self._ongoing_committed: set[int] = set()
        self._still_indexed: list[AbortedTxn] = []

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._seen_aborted.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def on_control(self, batch: Batch) -> bool:
        """Whether nothing needs the marker any more but readers that may have seen the transaction's data."""
        self._advance(batch.header.last_offset)
        record = next(iter_records(batch), None)
        if record is None:
            return True  # emptied by an earlier pass
        kind = decode_control_type(record.key)
        producer_id = batch.header.producer_id
        if kind == ControlType.ABORT:
            aborted = self._ongoing_aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._seen_aborted:
                return True
            self._seen_aborted.discard(producer_id)
            self._still_indexed.append(aborted)
            return False
        if kind == ControlType.COMMIT:
            if producer_id in self._ongoing_committed:
                self._ongoing_committed.discard(producer_id)
                return False
            return True
        return False

    def take_still_indexed(self) -> list[AbortedTxn]:
        """Entries for the index of the segment written since the last call."""
        taken, self._still_indexed = self._still_indexed, []
        return taken

    def _advance(self, offset: int) -> None:
        while self._ahead and self._ahead[-1].first_offset <= offset:
            txn = self._ahead.pop()
            self._ongoing_aborted.setdefault(txn.producer_id, txn)
