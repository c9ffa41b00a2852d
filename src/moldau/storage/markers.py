"""The end of a transaction, as the log meets it in a control batch."""

from __future__ import annotations

from moldau.storage.files import Buffer
from moldau.wire.control import EndTransactionMarker, decode_end_transaction_marker
from moldau.wire.records import iter_records


def read_marker(batch: Buffer) -> EndTransactionMarker | None:
    """The marker in a control batch; None if compaction has emptied it, or if it marks something else."""
    for record in iter_records(batch):
        return decode_end_transaction_marker(record)
    return None
