"""What compaction leaves of a record batch (pure, bytes to bytes), by Kafka's rules.

- A record stays if no later record of its key is in the map, or if it lies beyond what the map covers. Records without
  a key go.
- A tombstone stays until the batch's delete horizon. The first pass that meets one sets it, to the time of the pass
  plus `delete.retention.ms`: bit 6 of the attributes, the horizon in place of the base timestamp. A transaction marker
  whose data is gone gets a horizon in the same way.
- Data of aborted transactions goes.
- A batch keeps base offset, last offset delta and sequence whatever it loses, so offsets and sequences stay what they
  were. A batch without records is dropped, unless it is the last one of a live producer, or the last one of the pass:
  then its head stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.kernels import records_spans
from moldau.kernels.encode import append_varint
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.compaction.transactions import CleanedTransactions
from moldau.types.ids import NO_TIMESTAMP
from moldau.wire.batch import LOG_APPEND_TIME, BatchHeader
from moldau.wire.compression import Codec, compress
from moldau.wire.records import Batch, assemble_batch, batch_attributes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import RecordSpan


@dataclass(frozen=True, slots=True)
class LastRecord:
    """What the log remembers of a live producer."""

    last_data_offset: int | None
    """Of its last batch with data; None if only a marker is known."""
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class PassRules:
    now_ms: int
    delete_retention_ms: int
    end_offset: int
    """First offset the pass does not look at."""
    last_records: Mapping[int, LastRecord]
    """By producer id."""


def index_batch(offsets: OffsetMap, batch: Batch, transactions: CleanedTransactions, first_dirty_offset: int) -> bool:
    """Takes the keys of a batch into the map. False if the map is full before the batch is wholly in it.

    The first batch always goes in whole: with a map too small for it the cleaner would never get on.
    """
    header = batch.header
    if header.is_control:
        transactions.on_control(batch)
    elif not transactions.on_data(header) and header.last_offset >= first_dirty_offset:
        is_first = offsets.latest_offset < first_dirty_offset
        for offset_delta, _, key, _, _, _ in records_spans(batch.payload(), header.count):
            offset = header.base_offset + offset_delta
            if key is not None and offset >= first_dirty_offset:
                if offsets.full and not is_first:
                    return False
                offsets.put(key, offset)
    if header.last_offset >= first_dirty_offset:
        offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
    return True


class BatchFilter:
    """Passes over the batches of a log in order and gives back what stays of each."""

    def __init__(self, offsets: OffsetMap, transactions: CleanedTransactions, rules: PassRules) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._rules = rules
        self.records_read = 0
        self.records_kept = 0

    def apply(self, batch: Batch) -> bytes | memoryview | None:
        header = batch.header
        needless_marker = False
        self.records_read += header.count
        if header.is_control:
            needless_marker = self._transactions.on_control(batch)
            discard = needless_marker and self._horizon_passed(header)
        else:
            discard = self._transactions.on_data(header)
        if discard:
            return self._head_alone(header)
        payload = batch.payload()
        spans = records_spans(payload, header.count)
        kept = spans if header.is_control else self._kept_records(header, spans)
        if not kept:
            return self._head_alone(header)
        self.records_kept += len(kept)
        wants_horizon = needless_marker or any(not has_value for _, _, _, has_value, _, _ in kept)
        if wants_horizon and header.delete_horizon is None:
            return _rebuilt(header, payload, kept, self._rules.now_ms + self._rules.delete_retention_ms)
        if len(kept) == len(spans):
            return batch.data
        return _rebuilt(header, payload, kept, header.delete_horizon)

    def _kept_records(self, header: BatchHeader, spans: list[RecordSpan]) -> list[RecordSpan]:
        latest, get, base_offset = self._offsets.latest_offset, self._offsets.get, header.base_offset
        tombstones_stay = not self._horizon_passed(header)
        kept = []
        for span in spans:
            offset = base_offset + span[0]
            key = span[2]
            if offset > latest or (key is not None and offset >= get(key) and (span[3] or tombstones_stay)):
                kept.append(span)
        return kept

    def _horizon_passed(self, header: BatchHeader) -> bool:
        horizon = header.delete_horizon
        return horizon is not None and horizon <= self._rules.now_ms

    def _head_alone(self, header: BatchHeader) -> bytes | None:
        if header.next_offset != self._rules.end_offset and not self._is_last_of_producer(header):
            return None
        return _assembled(header, b"", Codec.NONE, NO_TIMESTAMP, header.max_timestamp, 0, has_delete_horizon=False)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._rules.last_records.get(header.producer_id) if header.has_producer else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def _rebuilt(header: BatchHeader, payload: Buffer, kept: list[RecordSpan], horizon: int | None) -> bytes:
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    timestamps = [header.base_timestamp + span[1] if append_time is None else append_time for span in kept]
    base_timestamp = timestamps[0] if horizon is None else horizon
    view = memoryview(payload)
    records = bytearray()
    for (_, old_delta, _, _, start, end), timestamp in zip(kept, timestamps, strict=True):
        _append_record(records, view[start:end], old_delta, timestamp - base_timestamp)
    body = records if header.codec == Codec.NONE else compress(header.codec, records)
    max_timestamp = max(timestamps)
    has_horizon = horizon is not None
    return _assembled(
        header, body, header.codec, base_timestamp, max_timestamp, len(kept), has_delete_horizon=has_horizon
    )


def _append_record(records: bytearray, record: memoryview, old_delta: int, new_delta: int) -> None:
    """The record as it is, but for its timestamp delta, which follows its length and attributes."""
    if old_delta == new_delta:
        records += record
        return
    attributes_at = _after_number(record, 0)
    timestamp_at = attributes_at + 1
    body = bytearray(record[attributes_at:timestamp_at])
    append_varint(body, new_delta)
    body += record[_after_number(record, timestamp_at) :]
    append_varint(records, len(body))
    records += body


def _after_number(record: memoryview, position: int) -> int:
    while record[position] & 0x80:
        position += 1
    return position + 1


def _assembled(
    header: BatchHeader,
    body: Buffer,
    codec: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    *,
    has_delete_horizon: bool,
) -> bytes:
    return assemble_batch(
        body,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=batch_attributes(
            codec, header.timestamp_type, header.is_transactional, header.is_control, has_delete_horizon
        ),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=count,
    )
