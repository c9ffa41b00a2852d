"""A registry of metrics. Names are Kafka's MBean names, so that dashboards written for Kafka find them.

Counting must cost next to nothing: a caller asks for its counter once and then only adds to `value`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

#: Upper bounds of histogram buckets, in the unit of the value (milliseconds for Kafka's times).
BOUNDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000)


class MetricName(NamedTuple):
    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


#: Figures of which nobody knows beforehand how many there are: of topics, partitions, groups.
Sample: TypeAlias = tuple[MetricName, float]


class Counter:
    """Counts events; exporters derive the rate, which is what Kafka's `…PerSec` meters show."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    __slots__ = ("buckets", "count", "largest", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def record(self, value: float, times: int = 1) -> None:
        self.buckets[bisect_left(BOUNDS, value)] += times
        self.count += times
        self.total += value * times
        if value > self.largest:
            self.largest = value

    def quantile(self, share: float) -> float:
        """The upper bound of the bucket that holds this share of the values; the largest value above the last bound."""
        rank = share * self.count
        seen = 0
        for bound, number in zip(BOUNDS, self.buckets, strict=False):
            seen += number
            if seen >= rank:
                return float(bound)
        return self.largest


class Metrics:
    def __init__(self) -> None:
        self._counters: dict[MetricName, Counter] = {}
        self._histograms: dict[MetricName, Histogram] = {}
        self._gauges: dict[MetricName, Callable[[], float]] = {}
        self._collectors: list[Callable[[], Iterable[Sample]]] = []

    def counter(self, group: str, type_: str, name: str, **tags: str) -> Counter:
        return self._counters.setdefault(MetricName(group, type_, name, tuple(tags.items())), Counter())

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Histogram:
        return self._histograms.setdefault(MetricName(group, type_, name, tuple(tags.items())), Histogram())

    def gauge(self, read: Callable[[], float], group: str, type_: str, name: str, **tags: str) -> None:
        self._gauges[MetricName(group, type_, name, tuple(tags.items()))] = read

    def remove_gauge(self, group: str, type_: str, name: str, **tags: str) -> None:
        self._gauges.pop(MetricName(group, type_, name, tuple(tags.items())), None)

    def collect(self, read: Callable[[], Iterable[Sample]]) -> None:
        """`read` gives its figures anew whenever somebody asks. What it goes through may change while it does: who asks
        takes turns with everything else.
        """
        self._collectors.append(read)

    def remove(self, matching: Mapping[str, str]) -> None:
        """Forgets what carries all these tags: the metrics of a deleted topic."""
        wanted = set(matching.items())
        for table in (self._counters, self._histograms, self._gauges):
            for name in [name for name in table if wanted <= set(name.tags)]:
                del table[name]

    def snapshot(self) -> Iterator[tuple[MetricName, float | Histogram]]:
        yield from [(name, counter.value) for name, counter in self._counters.items()]
        yield from tuple(self._histograms.items())
        yield from ((name, read()) for name, read in tuple(self._gauges.items()))
        for read_all in tuple(self._collectors):
            yield from read_all()
