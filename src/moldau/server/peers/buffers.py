"""Memory for large answers, used again once nobody looks into it: fresh memory is zeroed, and its pages are faulted in
one by one, for every answer.
"""

from __future__ import annotations

from typing import Final

SMALL_BYTES: Final = 64 * 1024
LARGEST_KEPT_BYTES: Final = 16 * 1024 * 1024
ROUNDING_BYTES: Final = 256 * 1024
KEPT: Final = 2
"""One is being read by its owner while the next answer comes in."""


class RecycledBuffers:
    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def __call__(self, size: int) -> memoryview:
        if size < SMALL_BYTES or size > LARGEST_KEPT_BYTES:
            return memoryview(bytearray(size))
        for buffer in self._kept:
            if len(buffer) >= size and is_free(buffer):
                return memoryview(buffer)[:size]
        return memoryview(self._keep(bytearray(-(-size // ROUNDING_BYTES) * ROUNDING_BYTES)))[:size]

    def _keep(self, buffer: bytearray) -> bytearray:
        if len(self._kept) == KEPT:
            self._kept.remove(min(self._kept, key=len))
        self._kept.append(buffer)
        return buffer


def is_free(buffer: bytearray) -> bool:
    """A bytearray that somebody has a view of cannot change its size."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
