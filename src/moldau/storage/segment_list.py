"""The segments of a log in order; the last one is active. Never empty once a log is open."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

from moldau.storage.segment import Segment


class SegmentList:
    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """Over the segments of this moment: the list may change meanwhile."""
        return iter(self._segments.copy())

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def bases(self) -> list[int]:
        return self._bases.copy()

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def at(self, offset: int) -> Segment:
        """The segment in whose range an offset lies; the first one for offsets before it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1)]

    def after(self, segment: Segment) -> Segment | None:
        index = bisect_right(self._bases, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def starting_with(self, offset: int) -> list[Segment]:
        """The segment in whose range an offset lies, and all later ones."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def add(self, segment: Segment) -> None:
        insort(self._segments, segment, key=lambda each: each.base_offset)
        self._changed()

    def remove(self, segments: Iterable[Segment]) -> None:
        gone = set(map(id, segments))
        self._segments = [segment for segment in self._segments if id(segment) not in gone]
        self._changed()

    def _changed(self) -> None:
        self._bases = [segment.base_offset for segment in self._segments]
        if self._segments:
            self.active = self._segments[-1]
