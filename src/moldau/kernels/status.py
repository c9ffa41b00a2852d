"""What the look at one record batch found."""

from enum import IntEnum, IntFlag
from typing import NamedTuple


class BatchStatus(IntEnum):
    """First field of what `check_batch` and `check_records` return."""

    OK = 0
    TRUNCATED = 1
    """The bytes end before the batch does."""
    BAD_LENGTH = 2
    BAD_MAGIC = 3
    BAD_CRC = 4
    BAD_COUNT = 5
    """The count disagrees with the last offset delta, or there are fewer records."""
    BAD_RECORD = 6
    """A length, number or header runs out of bounds, or bytes follow the last record."""
    COMPRESSED = 7
    """Header and CRC are right; the records have not been looked at."""
    BAD_OFFSETS = 8
    """All else is right, but the offset deltas are not 0, 1, 2, …; Kafka refuses that in compressed batches only."""


class BatchCheck(NamedTuple):
    """Names for the plain tuple of `check_batch`; build it with `BatchCheck(*fields)` off the hot path.

    With the statuses TRUNCATED, BAD_LENGTH and BAD_MAGIC the header was not read: `size` is what the batch claims, or 0
    if that is unknown or senseless, and every other field is -1. The last three fields are -1 unless the status is OK
    or BAD_OFFSETS.
    """

    status: int
    size: int
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    walk_max_timestamp: int
    """Largest timestamp in the records taken as create time, -1 if none is larger than that."""
    walk_offset_of_max_timestamp: int
    """Index of the first record that has it, which is its offset delta."""
    first_null_key_index: int


class Column(IntFlag):
    """What `RecordColumns` builds."""

    KEY = 1
    VALUE = 2
    OFFSET = 4
    TIMESTAMP = 8
    TIMESTAMP_TYPE = 16
    HEADERS = 32


class RunEnd(IntEnum):
    """Why `RecordColumns.append_run` came back."""

    DATA_ENDED = 0
    """No whole batch is left."""
    SPECIAL = 1
    """The batch here is compressed or control, or transactional where these are to be looked at."""
    FULL = 2
    """The next record has no room; go on from the offset that was returned."""
    PAST_END = 3
