"""Where the last record of each key lies, over the dirty part of a log (pure).

Keys are kept as digests, so that an entry's size is known; two keys with the same digest would lose data, which 128
bits make a matter of theory. A short key is its own digest: it cannot equal one, being shorter.
"""

from __future__ import annotations

from hashlib import blake2b

DIGEST_BYTES = 16
# Measured on CPython 3.11 at a million entries: a bytes object, an int, and their share of the table while it grows.
ENTRY_BYTES = 160


class OffsetMap:
    __slots__ = ("_max_entries", "_offsets", "latest_offset")

    def __init__(self, max_bytes: int) -> None:
        self._max_entries = max(1, max_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """Up to here, inclusive, the map knows every key."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._max_entries

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[digest(key)] = offset

    def get(self, key: bytes) -> int:
        """-1 if the dirty part has no record of this key."""
        return self._offsets.get(digest(key), -1)


def digest(key: bytes) -> bytes:
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
