"""Control records: what a control batch says to the broker and to consumers rather than to applications.

key    int16 version = 0, int16 type (0 abort, 1 commit, …)
value  of an abort or commit: int16 version = 0, int32 epoch of the transaction coordinator
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct, error
from typing import Final

from moldau.wire.batch import CorruptBatchError
from moldau.wire.records import Record, build_batch

_KEY: Final = Struct(">hh")
_END_TRANSACTION: Final = Struct(">hi")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    commit: bool
    coordinator_epoch: int


def encode_control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(0, control_type)


def decode_control_type(key: bytes | None) -> ControlType:
    """Types of later versions are UNKNOWN, to be passed over."""
    try:
        version, number = _KEY.unpack_from(key or b"")
    except error:
        raise CorruptBatchError("a control record needs a key of at least 4 bytes") from None
    if version < 0:
        raise CorruptBatchError(f"control record version {version}")
    return ControlType(number) if 0 <= number <= max(ControlType) else ControlType.UNKNOWN


def encode_end_transaction_marker(marker: EndTransactionMarker, timestamp: int) -> Record:
    return Record(
        key=encode_control_key(ControlType.COMMIT if marker.commit else ControlType.ABORT),
        value=_END_TRANSACTION.pack(0, marker.coordinator_epoch),
        timestamp=timestamp,
    )


def decode_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """None if it is a control record of another type."""
    control_type = decode_control_type(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value or b"")
    except error:
        raise CorruptBatchError("a transaction marker needs a value of at least 6 bytes") from None
    if version < 0:
        raise CorruptBatchError(f"transaction marker version {version}")
    return EndTransactionMarker(control_type == ControlType.COMMIT, coordinator_epoch)


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    return build_batch(
        [encode_end_transaction_marker(marker, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
