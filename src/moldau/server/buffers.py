"""Memory for requests that arrive in many pieces, and the budget that keeps all of it bounded.

A frame that fits into the shared scratch is copied out of it. A larger one gets a page-aligned buffer of its own,
into which the socket writes directly; buffers are reused, since a fresh megabyte costs a page fault per 4 KB
(measured: three times the CPU of a large produce). Admission works as in Kafka's memory pool: while anything of the
budget is left a frame is let in whole, so that no two half-received frames can wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from mmap import mmap

SMALLEST = 64 * 1024
LARGEST_POOLED = 4 * 1024 * 1024
POOLED_PER_CLASS = 8
DEFAULT_BUDGET_BYTES = 256 * 1024 * 1024


class BufferPool:
    def __init__(self) -> None:
        self._free: dict[int, list[mmap]] = {}

    def take(self, size: int) -> mmap:
        capacity = size_class(size)
        free = self._free.get(capacity)
        return free.pop() if free else mmap(-1, capacity)

    def give_back(self, buffer: mmap) -> None:
        capacity = len(buffer)
        free = self._free.setdefault(capacity, [])
        if capacity <= LARGEST_POOLED and len(free) < POOLED_PER_CLASS:
            free.append(buffer)


def size_class(size: int) -> int:
    if size > LARGEST_POOLED:
        return -(-size // 4096) * 4096
    return max(SMALLEST, 1 << (size - 1).bit_length())


class Budget:
    """Bytes that received requests and unsent answers may hold; those who come too late are called when some are
    free.
    """

    def __init__(self, limit: int = DEFAULT_BUDGET_BYTES) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def exhausted(self) -> bool:
        return self.used >= self.limit

    def take(self, size: int, receiver: object = None) -> None:
        """`receiver` has room for a request that is still to come."""
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
        while self._waiting and not self.exhausted:
            self._waiting.popleft()()

    def when_free(self, resume: Callable[[], None]) -> None:
        self._waiting.append(resume)
