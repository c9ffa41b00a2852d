"""How far a partition's records are safe: the end offset that every in-sync replica has reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def high_watermark(
    current: int, local_end: int, in_sync: Iterable[int], local_id: int, follower_ends: Mapping[int, int]
) -> int:
    """Never falls. A follower of the in-sync set that has not fetched in this epoch yet counts as 0: it holds the
    mark back.
    """
    ends = [local_end if replica == local_id else follower_ends.get(replica, 0) for replica in in_sync]
    return max(current, min(ends, default=local_end))
