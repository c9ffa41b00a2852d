"""Streams that stand behind the end of what they may read: open transactions, logs that were cut, ends that dip."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from moldau.spark.errors import DataLoss
from tests.fakes.spark_catalog import FakeCatalog
from tests.unit.spark.test_stream_reader import Clock, Offset, ends, reader, tasks

OF_SPARKS_CONNECTOR: Offset = {"t": {"0": 9}}


@pytest.fixture
def cluster() -> FakeCatalog:
    made = FakeCatalog()
    made.create("t", 9)
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("lenient", ["true", "false"])
def test_a_place_in_an_open_transaction_is_waited_at(cluster: FakeCatalog, clock: Clock, lenient: str) -> None:
    (log,) = cluster.logs["t"]
    log.stable = 5
    pauses: list[float] = []
    stream = reader(cluster, clock, pauses=pauses, failOnDataLoss=lenient)
    assert stream.latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable()) is OF_SPARKS_CONNECTOR
    log.end, log.stable = 12, 8
    assert stream.latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable()) is OF_SPARKS_CONNECTOR
    log.stable = None
    end = stream.latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable())
    assert tasks(stream, OF_SPARKS_CONNECTOR, end) == [("t", 0, 9, 12)]
    assert pauses == []


def test_others_are_read_while_one_partition_waits(cluster: FakeCatalog) -> None:
    cluster.create("t", 9, 4)
    cluster.logs["t"][0].stable = 5
    start: Offset = {"t": {"0": 9, "1": 0}}
    stream = reader(cluster)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert ends(end) == {"t": {"0": 9, "1": 4}}
    assert tasks(stream, start, end) == [("t", 1, 0, 4)]


def test_available_now_waits_for_no_transaction(cluster: FakeCatalog) -> None:
    cluster.logs["t"][0].stable = 5
    stream = reader(cluster)
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable()) is OF_SPARKS_CONNECTOR


def test_a_logs_own_end_is_asked_for_only_when_it_matters(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    cluster.logs["t"][0].end = 20
    stream.latestOffset(end, ReadAllAvailable())
    assert cluster.asked_log_ends == 0
    cluster.logs["t"][0].stable = 5
    for _ in range(5):
        clock.now += 0.01
        stream.latestOffset(end, ReadAllAvailable())
    assert cluster.asked_log_ends == 1, "idle polls ask only for what they read"


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_cut_log_is_read_on_at_its_end(
    cluster: FakeCatalog, clock: Clock, caplog: pytest.LogCaptureFixture, has_ids: bool
) -> None:
    stream = reader(cluster, clock, failOnDataLoss="false")
    start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable()) if has_ids else OF_SPARKS_CONNECTOR
    (log,) = cluster.logs["t"]
    log.end = 5
    with caplog.at_level(logging.WARNING):
        cut = stream.latestOffset(start, ReadAllAvailable())
    assert "t-0 was cut: it ends at 5, before 9" in caplog.text
    assert ends(cut) == {"t": {"0": 5}}
    assert tasks(stream, start, cut) == []
    assert stream.latestOffset(cut, ReadAllAvailable()) is cut
    log.end = 11
    after = stream.latestOffset(cut, ReadAllAvailable())
    assert tasks(stream, cut, after) == [("t", 0, 5, 11)]


def test_a_cut_log_is_lost_data(cluster: FakeCatalog) -> None:
    cluster.logs["t"][0].end = 5
    with pytest.raises(DataLoss, match=r"t-0 was cut: it ends at 5, before 9 where .*failOnDataLoss=false"):
        reader(cluster).latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable())


def test_a_cut_is_recorded_even_when_too_few_records_wait(cluster: FakeCatalog, clock: Clock) -> None:
    options = {"failOnDataLoss": "false", "minOffsetsPerTrigger": "100", "maxOffsetsPerTrigger": "200"}
    stream = reader(cluster, clock, **options)
    start = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    cluster.logs["t"][0].end = 5
    assert ends(stream.latestOffset(start, stream.getDefaultReadLimit())) == {"t": {"0": 5}}


def test_a_cut_is_recorded_by_available_now(cluster: FakeCatalog) -> None:
    cluster.create("t", 5, 3)
    start: Offset = {"t": {"0": 9, "1": 1}}
    stream = reader(cluster, failOnDataLoss="false")
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert ends(end) == {"t": {"0": 5, "1": 3}}
    assert tasks(stream, start, end) == [("t", 1, 1, 3)]
    assert stream.latestOffset(end, ReadAllAvailable()) is end


def test_a_cut_log_with_an_open_transaction_is_not_read_twice(cluster: FakeCatalog) -> None:
    (log,) = cluster.logs["t"]
    log.end, log.stable = 7, 4
    stream = reader(cluster, failOnDataLoss="false")
    cut = stream.latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable())
    assert ends(cut) == {"t": {"0": 7}}
    assert stream.latestOffset(cut, ReadAllAvailable()) is cut


def test_an_end_that_dips_for_a_moment_is_no_loss(cluster: FakeCatalog) -> None:
    (log,) = cluster.logs["t"]
    log.end, log.dips = 12, [5, 5, 6, 6]
    pauses: list[float] = []
    stream = reader(cluster, pauses=pauses)
    end = stream.latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable())
    assert tasks(stream, OF_SPARKS_CONNECTOR, end) == [("t", 0, 9, 12)]
    assert pauses == [1.0, 1.0]


def test_how_often_an_end_is_asked_for_again_can_be_chosen(cluster: FakeCatalog) -> None:
    cluster.logs["t"][0].end = 5
    pauses: list[float] = []
    with pytest.raises(DataLoss):
        reader(cluster, pauses=pauses).latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable())
    assert pauses == [1.0] * 3
    pauses.clear()
    options = {"fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "20"}
    with pytest.raises(DataLoss):
        reader(cluster, pauses=pauses, **options).latestOffset(OF_SPARKS_CONNECTOR, ReadAllAvailable())
    assert pauses == [0.02] * 5
    pauses.clear()
    with pytest.raises(DataLoss):
        reader(cluster, pauses=pauses, **{"fetchOffset.numRetries": "0"}).latestOffset(
            OF_SPARKS_CONNECTOR, ReadAllAvailable()
        )
    assert pauses == []
