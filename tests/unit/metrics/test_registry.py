"""Counters, histograms and gauges under Kafka's names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.metrics import Histogram, Metrics
from moldau.metrics.registry import BOUNDS


def test_a_name_reads_as_kafkas() -> None:
    metrics = Metrics()
    metrics.counter("kafka.network", "RequestMetrics", "RequestsPerSec", request="Produce", version="9").value += 2
    ((name, value),) = metrics.snapshot()
    assert str(name) == "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"
    assert value == 2


def test_asking_twice_gives_the_same_counter() -> None:
    metrics = Metrics()
    assert metrics.counter("g", "t", "n", a="1") is metrics.counter("g", "t", "n", a="1")
    assert metrics.counter("g", "t", "n", a="1") is not metrics.counter("g", "t", "n", a="2")


def test_a_gauge_is_read_when_it_is_asked_for() -> None:
    metrics = Metrics()
    values = [1.0, 2.0]
    metrics.gauge(lambda: values.pop(0), "g", "t", "n")
    assert [value for _, value in metrics.snapshot()] == [1.0]
    assert [value for _, value in metrics.snapshot()] == [2.0]


def test_what_carries_the_tags_is_forgotten() -> None:
    metrics = Metrics()
    metrics.counter("g", "t", "n", topic="a")
    metrics.histogram("g", "t", "h", topic="a", partition="1")
    metrics.counter("g", "t", "n", topic="b")
    metrics.remove({"topic": "a"})
    assert [dict(name.tags) for name, _ in metrics.snapshot()] == [{"topic": "b"}]


@given(st.lists(st.floats(0, 100_000), min_size=1, max_size=50))
def test_a_quantile_is_no_smaller_than_its_share_of_the_values(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    assert histogram.count == len(values)
    for share in (0.5, 0.99, 1.0):
        found = histogram.quantile(share)
        assert sum(value <= found for value in values) >= share * len(values)
        assert found in BOUNDS or found == max(values)
