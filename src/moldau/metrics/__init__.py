"""Counters, gauges and histograms under Kafka's metric names; both stacks may use it. Imports nothing of ours."""

from moldau.metrics.registry import Counter, Histogram, MetricName, Metrics, Sample

__all__ = ["Counter", "Histogram", "MetricName", "Metrics", "Sample"]
