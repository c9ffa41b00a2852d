"""Percentiles of measured latencies."""

from moldau.cli.perf.measuring import Latencies, Measured


def test_percentiles_are_values_that_were_seen() -> None:
    found = Latencies([float(n) for n in range(1, 101)])
    assert [found.percentile(percent) for percent in (50, 95, 99, 99.9, 100)] == [50, 95, 99, 100, 100]
    assert (found.mean, found.largest) == (50.5, 100)


def test_nothing_measured_is_zero() -> None:
    empty = Measured()
    assert empty.latencies.percentile(99) == empty.latencies.mean == empty.records_per_second == 0
