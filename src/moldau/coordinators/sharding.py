"""Which partition of an internal topic, and so which broker, a group or a transactional id belongs to."""

from __future__ import annotations

from functools import lru_cache

#: Heartbeats of the same groups come again and again.
REMEMBERED_KEYS = 10_000


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, as a signed 32-bit number."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(raw), 2):
        value = (31 * value + (raw[index] << 8 | raw[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=REMEMBERED_KEYS)
def partition_for(key: str, partitions: int) -> int:
    """Kafka's `Utils.abs(hash) % partitions`, where abs of the smallest number is 0."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
