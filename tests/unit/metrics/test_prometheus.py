"""Metrics as Prometheus reads them: the names that dashboards for Kafka expect."""

from __future__ import annotations

from moldau.metrics import MetricName, Metrics
from moldau.metrics.prometheus import SAMPLES_BETWEEN_YIELDS, exposition, exposition_in_turns


def test_counts_per_second_are_totals_and_gauges_are_what_they_are() -> None:
    metrics = Metrics()
    metrics.counter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec").value += 12
    metrics.gauge(lambda: 3, "kafka.server", "ReplicaManager", "UnderReplicatedPartitions")
    metrics.gauge(lambda: 0.5, "kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
    assert exposition(metrics) == (
        "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter\n"
        "kafka_server_brokertopicmetrics_bytesin_total 12\n"
        "# TYPE kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent gauge\n"
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent 0.5\n"
        "# TYPE kafka_server_replicamanager_underreplicatedpartitions gauge\n"
        "kafka_server_replicamanager_underreplicatedpartitions 3\n"
    )


def test_times_are_summaries_and_their_labels_are_escaped() -> None:
    metrics = Metrics()
    times = metrics.histogram("kafka.network", "RequestMetrics", "TotalTimeMs", request='Pro"duce\n')
    times.record(1.0)
    times.record(4.0)
    lines = exposition(metrics).splitlines()
    family, label = "kafka_network_requestmetrics_totaltimems", 'request="Pro\\"duce\\n"'
    assert lines[0] == f"# TYPE {family} summary"
    assert f'{family}{{{label},quantile="0.5"}} 1' in lines
    assert f'{family}{{{label},quantile="0.99"}} 5' in lines
    assert f"{family}_sum{{{label}}} 5" in lines
    assert f"{family}_count{{{label}}} 2" in lines


def test_a_family_is_declared_once_for_all_of_its_labels() -> None:
    metrics = Metrics()
    for request in ("Fetch", "Produce"):
        metrics.counter("kafka.network", "RequestMetrics", "RequestsPerSec", request=request).value += 1
    text = exposition(metrics)
    assert text.count("# TYPE") == 1
    assert 'requests_total{request="Fetch"} 1' in text


def test_what_is_counted_anew_each_time_has_the_names_it_is_given() -> None:
    metrics = Metrics()
    lags = {"orders": 3}
    metrics.collect(
        lambda: [
            *((MetricName("kafka", "consumergroup", "lag", (("topic", topic),)), lag) for topic, lag in lags.items()),
            (MetricName("kafka", "", "brokers"), 2),
        ]
    )
    assert exposition(metrics) == (
        "# TYPE kafka_brokers gauge\nkafka_brokers 2\n"
        '# TYPE kafka_consumergroup_lag gauge\nkafka_consumergroup_lag{topic="orders"} 3\n'
    )
    lags.clear()
    assert "lag" not in exposition(metrics)


def test_many_figures_are_written_in_turns() -> None:
    metrics = Metrics()
    metrics.collect(lambda: ((MetricName("kafka.log", "Log", "Size", (("n", str(n)),)), n) for n in range(1000)))
    work = exposition_in_turns(metrics)
    turns = sum(1 for _ in work)
    assert turns > 1000 / SAMPLES_BETWEEN_YIELDS
    assert exposition(metrics).count("kafka_log_log_size{") == 1000
