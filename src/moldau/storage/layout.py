"""Names of the files in a partition's folder, as Kafka names them.

<base offset, 20 digits>.log         record batches
<base offset>.index                  offset index
<base offset>.timeindex              time index
<base offset>.txnindex               aborted transactions
<offset, 20 digits>.snapshot         producer state up to that offset (exclusive)
leader-epoch-checkpoint              where each leader epoch began
partition.metadata                   the topic's id
*.deleted                            removed, waits to be unlinked
*.cleaned, *.swap                    a cleaner's new segment before and while it replaces the old ones
"""

from __future__ import annotations

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
INDEX_SUFFIXES = SEGMENT_SUFFIXES[1:]

_DIGITS = 20


def offset_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset that a file of a partition carries in its name; None for files that carry none."""
    digits = name[:_DIGITS]
    if len(digits) == _DIGITS and digits.isascii() and digits.isdigit() and name[_DIGITS : _DIGITS + 1] == ".":
        return int(digits)
    return None


def offsets_with_suffix(names: list[str], suffix: str) -> list[int]:
    """Offsets of the files named `<offset><suffix>`, ascending."""
    found = (offset_of(name) for name in names if name[_DIGITS:] == suffix)
    return sorted(offset for offset in found if offset is not None)
