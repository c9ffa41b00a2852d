"""Rules about single records of a batch: keys on compacted topics, timestamps within the topic's limits.

Looked at one by one only if the walk over the batch has shown that some record must break a rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.config.topic import TopicConfig
from moldau.kernels import decode_records
from moldau.storage.batch_info import BatchInfo
from moldau.storage.errors import RecordError, RefusedBatchError
from moldau.storage.files import Buffer
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_TIMESTAMP, TopicPartition
from moldau.wire.batch import LOG_APPEND_TIME_BIT

_ERRORS_SHOWN = 3
_UNLIMITED_MS = 2**63 - 1


def refuse_bad_records(
    payload: Buffer, info: BatchInfo, config: TopicConfig, topic_partition: TopicPartition, now_ms: int
) -> None:
    """Raises with one entry for each record that breaks a rule."""
    if not _may_break_a_rule(info, config, now_ms):
        return
    found = list(_broken_rules(payload, info, config, topic_partition, now_ms))
    if not found:
        return
    errors = tuple(error for _, error in found)
    if any(code is ErrorCode.INVALID_TIMESTAMP for code, _ in found):
        code, message = ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={e.batch_index}, message='{e.message}')" for e in errors[:_ERRORS_SHOWN]
        )
        code = ErrorCode.INVALID_RECORD
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    raise RefusedBatchError(code, message, message=message, record_errors=errors)


def _may_break_a_rule(info: BatchInfo, config: TopicConfig, now_ms: int) -> bool:
    if config.compacted and info.first_null_key_index >= 0:
        return True
    if info.attributes & LOG_APPEND_TIME_BIT:
        return True
    if config.log_append_time:
        return False
    return (
        config.message_timestamp_before_max_ms != _UNLIMITED_MS
        or info.walk_max_timestamp - now_ms > config.message_timestamp_after_max_ms
    )


def _broken_rules(
    payload: Buffer, info: BatchInfo, config: TopicConfig, topic_partition: TopicPartition, now_ms: int
) -> Iterator[tuple[ErrorCode, RecordError]]:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    marked = bool(info.attributes & LOG_APPEND_TIME_BIT)
    for index, fields in enumerate(decode_records(payload, info.record_count)):
        offset_delta, timestamp_delta, _, key, value, _, _, _ = fields
        timestamp = info.max_timestamp if marked else info.base_timestamp + timestamp_delta
        if config.compacted and key is None:
            where = f"in topic partition {topic_partition}"
            message = f"Compacted topic cannot accept message without key {where}"
            yield ErrorCode.INVALID_RECORD, RecordError(index, message)
        elif not config.log_append_time and timestamp != NO_TIMESTAMP:
            if now_ms - timestamp > before or timestamp - now_ms > after:
                message = (
                    f"Timestamp {timestamp} of message with offset {offset_delta} is out of range. "
                    f"The timestamp should be within [{now_ms - before}, {now_ms + after}]"
                )
                yield ErrorCode.INVALID_TIMESTAMP, RecordError(index, message)
        elif marked:
            sizes = f"key={_size(key)} bytes, value={_size(value)} bytes"
            record = f"DefaultRecord(offset={offset_delta}, timestamp={timestamp}, {sizes})"
            message = (
                f"Invalid timestamp type in message {record}. Producer should not set timestamp type to LogAppendTime."
            )
            yield ErrorCode.INVALID_TIMESTAMP, RecordError(index, message)


def _size(part: bytes | None) -> int:
    return 0 if part is None else len(part)
