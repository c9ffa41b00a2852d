"""The hot loops over record batches, compiled, with a pure-Python twin; may import `moldau.types` only.

`_native.c` is compiled at set-up; `python.py` has the same functions and serves where nothing could be compiled, or
where MOLDAU_KERNELS=python asks for it. `NATIVE` says which one is in use. All take any C-contiguous buffer.

- `crc32c(data, value=0)`: the checksum of record batches
- `check_batch(data, position, limit, with_records=True)`: everything a broker checks of one batch; the fields are named
  in `BatchCheck`. Without records: length, magic and CRC only, as for batches that may have been compacted.
- `check_records(payload, count, base_timestamp)`: the same walk over a decompressed records section
- `scan_batches(data, position, limit)`: the whole batches of a region, by their headers alone
- `check_run(data, position, limit, next_offset, leader_epoch, room)`: goes over the batches at the start of a region
  that are small (4 KB), plain (no producer, no control), of one leader epoch, with a right CRC and ascending offsets,
  until it has taken more than `room` bytes. Returns where it ended, the offset after the last of them, their largest
  timestamp and the last offset of the first batch that has it. For recovery, where tiny batches are many.
- `locate_batch(data, position, limit, target_offset)`: position of the first batch that ends at or after an offset, or
  -1; only headers need to be in view
- `seek_batch(…)`: the same as (found, position); if not found, position is where the next header has to be read, at or
  beyond `limit - 60`, unless what lies there is no batch
- `decode_records(payload, count)`, `records_spans(payload, count)`: the records, whole or without their values; gaps in
  the offsets are fine; ValueError if malformed
- `seek_timestamp(payload, count, base_timestamp, target, least_offset_delta=0)`: (offset delta, timestamp) of the first
  record at or after a time, or None
- `skim_batches(data, position, limit)`: where the whole batches of a region end, the offset behind the last (or -1) and
  how many there are
- `RecordColumns(want, row_bytes=0, low_timestamp=…, high_timestamp=…)`: batches to columns in Arrow's layout, those of
  the flags `Column` that are wanted; `row_bytes` is what a row costs beside them, the timestamps (microseconds,
  inclusive) leave rows out. Offsets within a batch must ascend. `rows` and `bytes` say what is held.
  - `append_run(data, position, limit, start, stop, room, check_crc, stop_at_transactional)` walks batches that are
    neither compressed nor control and takes records with start <= offset < stop until `bytes` would pass `room` (the
    first row always has room); returns (position, next offset, `RunEnd`). ValueError if malformed.
  - `append_batch(head, payload, start, stop, room)` takes one batch whose records section is decompressed; returns the
    next offset: behind the batch, or that of the first record that had no room
  - `take()` hands over the buffers, without a copy, and starts anew; see `signatures.ColumnsTaken`

For writing rows that stand in Arrow's columns (`signatures.RowSources`; null keys, values and headers are fine):

- `murmur2(data)`: Kafka's hash of a key, signed
- `route_rows(length, key, topics, counts, partitions, seen)`: for each row the number of its partition, counted through
  all topics: the one named in `partitions`, else murmur2 of the key modulo `counts[topic]`, else, without a key, one
  that changes every 128 rows; `seen` counts these rows per topic and is moved on. `topics` None means all in topic 0.
- `order_rows(routes, route_count)`: the rows sorted by route, stable, and where each route ends
- `encode_records(rows, length, order, start, stop, default_timestamp, base_timestamp, first_delta, room)`: the records
  section of the rows `order[start:stop]`, as many as fit into `room` bytes (the first of a batch always does); returns
  (bytes, taken, base timestamp, max timestamp). Without a base timestamp the first row's is taken.
- `json_lines(column, rows)`: rows of JSON (`signatures.BytesSource`) as one text with a line for each; returns it and
  the rows that are not one whole object, which stand in it as "{}", as null rows do
- `digest_rows(rows, length, topics, salts, partitions)`: 64 bits of all that the caller decided about the rows, the
  same in any order; digests of parts add up modulo 2^64

For the coordinator of groups:

- `pack_commit(frame, version, topics, now_ms, most, longest_note, room_for_notes)`: an OffsetCommit request as the
  batch that is written for it, its answer if nothing is refused, and what it commits (`signatures.PackedCommit`).
  `topics[name]` (the id from version 10 on) tells of a topic, or None. None is also what is said of requests that are
  not common, and left to those who read them field by field: more than `most` offsets, notes that are longer than
  `longest_note`, than `room_for_notes` all together, or not ASCII, tags, a retention of its own, empty arrays,
  partitions that are not there, what cannot be read
"""

import os

from moldau.kernels.status import BatchCheck, BatchStatus, Column, RunEnd

NATIVE = False
if os.environ.get("MOLDAU_KERNELS") != "python":
    try:
        from moldau.kernels import _native as _chosen

        NATIVE = True
    except ImportError:
        pass
if not NATIVE:
    from moldau.kernels import python as _chosen  # type: ignore[no-redef]

crc32c = _chosen.crc32c
check_batch = _chosen.check_batch
check_records = _chosen.check_records
scan_batches = _chosen.scan_batches
check_run = _chosen.check_run
locate_batch = _chosen.locate_batch
seek_batch = _chosen.seek_batch
decode_records = _chosen.decode_records
records_spans = _chosen.records_spans
seek_timestamp = _chosen.seek_timestamp

if NATIVE:
    from moldau.kernels._native import RecordColumns, json_lines, skim_batches
else:
    from moldau.kernels.columns import RecordColumns, skim_batches  # type: ignore[assignment]
    from moldau.kernels.json_rows import json_lines

if NATIVE:
    from moldau.kernels import _native as _encoder
else:
    from moldau.kernels import encode as _encoder  # type: ignore[no-redef]

if NATIVE:
    from moldau.kernels._native import pack_commit
else:
    from moldau.kernels.offsets import pack_commit

murmur2 = _encoder.murmur2
route_rows = _encoder.route_rows
order_rows = _encoder.order_rows
encode_records = _encoder.encode_records
digest_rows = _encoder.digest_rows

__all__ = [
    "NATIVE",
    "BatchCheck",
    "BatchStatus",
    "Column",
    "RecordColumns",
    "RunEnd",
    "check_batch",
    "check_records",
    "check_run",
    "crc32c",
    "decode_records",
    "digest_rows",
    "encode_records",
    "json_lines",
    "locate_batch",
    "murmur2",
    "order_rows",
    "pack_commit",
    "records_spans",
    "route_rows",
    "scan_batches",
    "seek_batch",
    "seek_timestamp",
    "skim_batches",
]
