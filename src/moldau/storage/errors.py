"""What can go wrong with a log: errors a client is told, and faults that take a log or its directory out of service."""

from __future__ import annotations

from typing import NamedTuple

from moldau.types.errors import ErrorCode, KafkaError


class LogIOError(KafkaError):
    """The disk failed or is full: the log directory of this log must go offline. Never retried."""

    def __init__(self, path: str, reason: object) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {reason}")
        self.path = path


class RecordError(NamedTuple):
    """What is wrong with one record of a batch."""

    batch_index: int
    message: str


class RefusedBatchError(KafkaError):
    """A batch that a client may not append. `message` is what Kafka tells the client, mostly nothing; `detail` is for
    our own log. Kafka tells the log start offset with some errors only."""

    def __init__(
        self,
        code: ErrorCode,
        detail: str,
        *,
        message: str | None = None,
        record_errors: tuple[RecordError, ...] = (),
        tells_log_start: bool = True,
    ) -> None:
        super().__init__(code, message)
        self.detail = detail
        self.record_errors = record_errors
        self.tells_log_start = tells_log_start

    def __str__(self) -> str:
        return f"{self.code.name}: {self.detail}"


class CorruptLogError(KafkaError):
    """Data that was safely on disk does not read back: only this partition goes offline."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: corrupt at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class OffsetOutOfRangeError(KafkaError):
    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset}, but we only have log segments from offset "
            f"{log_start_offset} up to {log_end_offset}.",
        )


class DuplicateBatchError(Exception):
    """An idempotent producer sent a batch again. It is answered with the offsets of the first time.

    The first time may still be staged: the answer has to wait until `last_offset` is committed like any other.
    """

    def __init__(self, base_offset: int, last_offset: int, timestamp: int) -> None:
        super().__init__(f"duplicate of the batch at offsets {base_offset} to {last_offset}")
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.timestamp = timestamp
