"""What a client sends to a partition: from bytes to one batch that may be staged, or the error Kafka would answer.

Kafka takes one batch per partition and request, checks its framing and header, walks through its (decompressed) records
and stores it as it came, with three exceptions: a max timestamp that does not fit the records is corrected, a topic
with log append time gets that, and a topic with a `compression.type` of its own is recompressed. We add a fourth: wrong
offset deltas, which Kafka stores in plain batches as they are, are put right.

Pure, and works on its own data only: large batches may be validated in a thread.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from moldau.config.topic import TopicConfig
from moldau.kernels import BatchStatus, check_batch, check_records, decode_records
from moldau.storage.batch_info import BatchInfo
from moldau.storage.errors import RefusedBatchError
from moldau.storage.files import Buffer, WritableBuffer
from moldau.storage.record_rules import refuse_bad_records
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    HEADER_SIZE,
    INT32,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    set_max_timestamp,
)
from moldau.wire.compression import (
    Codec,
    DecompressedTooLargeError,
    DecompressionError,
    Scratch,
    compress,
    decompress_in_scratch,
)
from moldau.wire.records import Record, append_record, assemble_batch

# No request may be larger, so no producer can have meant to send more than this.
DECOMPRESSED_LIMIT = 100 * 1024 * 1024
_SMALLEST_LENGTH = 14
_FIRST_PRODUCE_VERSION_WITH_ZSTD = 7
_UNLIMITED_MS = 2**63 - 1
_SPECIAL_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT | CODEC_MASK
_CODECS = {"uncompressed": Codec.NONE} | {codec.name.lower(): codec for codec in Codec}
_GZIP_MAGIC = b"\x1f\x8b"


class Validated(NamedTuple):
    batch: WritableBuffer
    info: BatchInfo


def validate(
    records: WritableBuffer,
    *,
    config: TopicConfig,
    topic_partition: TopicPartition,
    now_ms: int,
    produce_version: int = _FIRST_PRODUCE_VERSION_WITH_ZSTD,
) -> Validated:
    """Check a partition's share of a produce request. The batch returned is the given buffer wherever possible."""
    fields = check_batch(records, 0, len(records))
    status, size, base_offset, _, attributes, _, _, max_timestamp, producer_id, _, sequence, _, walked, _, null = fields
    if (
        status == BatchStatus.OK
        and size == len(records)
        and size <= config.max_message_bytes
        and not base_offset
        and not attributes & _SPECIAL_BITS
        and walked == max_timestamp
        and walked - now_ms <= config.message_timestamp_after_max_ms
        and (sequence >= 0 or producer_id < 0)
        and config.message_timestamp_type == "CreateTime"
        and config.message_timestamp_before_max_ms == _UNLIMITED_MS
        and config.compression_type in ("producer", "uncompressed")
        and (null < 0 or "compact" not in config.cleanup_policy)
    ):
        return Validated(records, BatchInfo._make(fields))
    seen = None
    if status == BatchStatus.COMPRESSED and size == len(records):
        seen = BatchInfo._make((BatchStatus.OK, *fields[1:]))
    return _Examination(records, config, topic_partition, now_ms).run(produce_version, seen)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.scratch = Scratch()


_of_thread = _OfThread()


class _Examination:
    """The careful way, in Kafka's order, for whatever is not the plainest case."""

    def __init__(self, records: Buffer, config: TopicConfig, topic_partition: TopicPartition, now_ms: int) -> None:
        self._config = config
        self._topic_partition = topic_partition
        self._now_ms = now_ms
        self._view = memoryview(records)
        self._rewritten = False

    def run(self, produce_version: int, seen: BatchInfo | None) -> Validated:
        """`seen`: what the header of the only batch says, if that was found to be right."""
        batch = self._only_batch(produce_version)
        info = self._check_header(batch, seen)
        payload, info = self._walk_records(batch, info)
        refuse_bad_records(payload, info, self._config, self._topic_partition, self._now_ms)
        return self._finish(batch, payload, info)

    def _only_batch(self, produce_version: int) -> memoryview:
        size = _framed_size(self._view, first=True)
        if size is None:
            raise _refused_request(produce_version, "must have at least one record batch per partition")
        batch, rest = self._view[:size], self._view[size:]
        if batch[MAGIC_AT] != MAGIC_V2:
            raise _refused_request(produce_version, "are only allowed to contain record batches with magic version 2")
        if (
            produce_version < _FIRST_PRODUCE_VERSION_WITH_ZSTD
            and size >= HEADER_SIZE
            and batch[ATTRIBUTES_AT + 1] & CODEC_MASK >= Codec.ZSTD
        ):
            known = batch[ATTRIBUTES_AT + 1] & CODEC_MASK == Codec.ZSTD
            raise RefusedBatchError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if known else ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Produce requests with version {produce_version} are not allowed to use ZStandard compression",
                tells_log_start=False,
            )
        if _framed_size(rest, first=False) is not None:
            raise _refused_request(
                produce_version, "are only allowed to contain exactly one record batch per partition"
            )
        return batch

    def _check_header(self, batch: memoryview, seen: BatchInfo | None) -> BatchInfo:
        info = seen or BatchInfo._make(check_batch(batch, 0, len(batch), False))
        if info.base_offset > 0 or (info.base_offset < -1 and info.status == BatchStatus.OK):
            raise self._invalid(
                f"The baseOffset of the record batch in the append to {self._topic_partition} should be 0, "
                f"but it is {info.base_offset}"
            )
        self._check_size(len(batch))
        if info.status != BatchStatus.OK:
            raise RefusedBatchError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Record is corrupt ({BatchStatus(info.status).name}) in topic partition {self._topic_partition}.",
                tells_log_start=False,
            )
        if info.attributes & CODEC_MASK > Codec.ZSTD:
            raise RefusedBatchError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {info.attributes & CODEC_MASK}"
            )
        count = info.record_count
        if info.last_offset_delta < 0 or count <= 0 or info.last_offset_delta + 1 != count:
            raise self._invalid(
                f"Inconsistent batch offset range [0, {info.last_offset_delta}] and count of records {count} "
                f"in topic partition {self._topic_partition}"
            )
        if info.attributes & CONTROL_BIT:
            raise self._invalid(
                f"Clients are not allowed to write control records in topic partition {self._topic_partition}"
            )
        if info.producer_id >= 0 and info.base_sequence < 0:
            raise self._invalid(
                f"Invalid sequence number {info.base_sequence} in record batch with producerId {info.producer_id} "
                f"in topic partition {self._topic_partition}"
            )
        return info

    def _check_size(self, size: int) -> None:
        if size > self._config.max_message_bytes:
            raise RefusedBatchError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record batch size in the append to {self._topic_partition} is {size} bytes which exceeds the "
                f"maximum configured value of {self._config.max_message_bytes}.",
                tells_log_start=False,
            )

    def _walk_records(self, batch: memoryview, info: BatchInfo) -> tuple[Buffer, BatchInfo]:
        """The records section, decompressed, and the facts with what the walk over the records has found."""
        payload = self._decompressed(info.attributes & CODEC_MASK, batch[HEADER_SIZE:])
        status, *walked = check_records(payload, info.record_count, info.base_timestamp)
        if status == BatchStatus.BAD_OFFSETS:
            return self._numbered(payload, info, walked)
        if status != BatchStatus.OK:
            raise self._invalid(f"The records do not fit their batch ({BatchStatus(status).name})")
        return payload, BatchInfo._make((*info[:-3], *walked))

    def _numbered(self, payload: Buffer, info: BatchInfo, walked: list[int]) -> tuple[Buffer, BatchInfo]:
        """The same records with the offset deltas 0, 1, 2, …"""
        codec = info.attributes & CODEC_MASK
        if codec and codec == self._target_codec(info):
            raise RefusedBatchError(ErrorCode.UNKNOWN_SERVER_ERROR, "The offsets of the records have gaps")
        section = bytearray()
        for delta, (_, timestamp_delta, _, key, value, headers, _, _) in enumerate(
            decode_records(payload, info.record_count)
        ):
            append_record(section, Record(value=value, key=key, headers=headers), delta, timestamp_delta)
        self._rewritten = True
        return section, BatchInfo._make((*info[:-3], *walked))

    def _decompressed(self, codec: int, section: memoryview) -> Buffer:
        if codec == Codec.NONE:
            return section
        try:
            return decompress_in_scratch(_of_thread.scratch, codec, section, DECOMPRESSED_LIMIT)
        except DecompressedTooLargeError as error:
            # Producers answer this by splitting the batch.
            raise RefusedBatchError(ErrorCode.MESSAGE_TOO_LARGE, str(error), tells_log_start=False) from error
        except DecompressionError as error:
            cut_off_gzip = codec == Codec.GZIP and bytes(section[:2]) == _GZIP_MAGIC
            code = ErrorCode.INVALID_RECORD if cut_off_gzip else ErrorCode.UNKNOWN_SERVER_ERROR
            raise RefusedBatchError(code, str(error)) from error

    def _finish(self, batch: memoryview, payload: Buffer, info: BatchInfo) -> Validated:
        timestamp_type, max_timestamp = self._timestamps(info)
        attributes = info.attributes & ~LOG_APPEND_TIME_BIT
        if timestamp_type == LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_BIT
        changed = (attributes, max_timestamp) != (info.attributes, info.max_timestamp)
        info = info._replace(attributes=attributes, max_timestamp=max_timestamp)
        codec = self._target_codec(info)
        if codec != attributes & CODEC_MASK or self._rewritten:
            return self._recompressed(payload, info, codec)
        stored: WritableBuffer = bytearray(batch) if batch.readonly else batch
        if changed:
            set_max_timestamp(stored, 0, timestamp_type, max_timestamp)
        return Validated(stored, info)

    def _timestamps(self, info: BatchInfo) -> tuple[int, int]:
        """Timestamp type and max timestamp the batch is stored with."""
        if self._config.log_append_time:
            return LOG_APPEND_TIME, self._now_ms
        if info.attributes & LOG_APPEND_TIME_BIT:  # then the records count as having the batch's timestamp
            return CREATE_TIME, info.max_timestamp
        return CREATE_TIME, info.walk_max_timestamp

    def _target_codec(self, info: BatchInfo) -> int:
        wanted = self._config.compression_type
        return info.attributes & CODEC_MASK if wanted == "producer" else _CODECS[wanted]

    def _recompressed(self, payload: Buffer, info: BatchInfo, codec: int) -> Validated:
        level = self._config.compression_level
        attributes = (info.attributes & ~CODEC_MASK) | codec
        batch = bytearray(
            assemble_batch(
                compress(codec, payload, level) if codec else payload,
                base_offset=0,
                leader_epoch=-1,
                attributes=attributes,
                last_offset_delta=info.last_offset_delta,
                base_timestamp=info.base_timestamp,
                max_timestamp=info.max_timestamp,
                producer_id=info.producer_id,
                producer_epoch=info.producer_epoch,
                base_sequence=info.base_sequence,
                count=info.record_count,
            )
        )
        self._check_size(len(batch))
        return Validated(batch, info._replace(attributes=attributes, size=len(batch)))

    def _invalid(self, detail: str) -> RefusedBatchError:
        return RefusedBatchError(ErrorCode.INVALID_RECORD, detail)


def _refused_request(produce_version: int, rule: str) -> RefusedBatchError:
    detail = f"Produce requests with version {produce_version} {rule}"
    return RefusedBatchError(ErrorCode.INVALID_RECORD, detail, tells_log_start=False)


def _framed_size(view: memoryview, *, first: bool) -> int | None:
    """Size of the batch at the start; None if there is no whole one."""
    if len(view) < LOG_OVERHEAD:
        return None
    (length,) = INT32.unpack_from(view, LENGTH_AT)
    if length < _SMALLEST_LENGTH:
        raise _bad_frame(f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})", first)
    if len(view) <= MAGIC_AT:
        return None
    magic = view[MAGIC_AT]
    if magic > MAGIC_V2:
        raise _bad_frame(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}", first)
    size = LOG_OVERHEAD + int(length)
    return size if size <= len(view) else None


def _bad_frame(detail: str, first: bool) -> RefusedBatchError:
    """Kafka tells what is wrong with the first batch only."""
    message = detail if first else None
    return RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, detail, message=message, tells_log_start=False)
