"""The stream reader's answers to Spark, with a table in the place of a cluster."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from moldau.spark.errors import DataLoss, TopicMissing
from moldau.spark.fetching.task import ReadTask
from moldau.spark.option_table import Use
from moldau.spark.planning.options import parse_read_options
from moldau.spark.planning.stream_reader import StreamReader
from tests.fakes.spark_catalog import FakeCatalog

Offset = dict[str, Any]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster() -> FakeCatalog:
    made = FakeCatalog()
    made.create("t", 10, 20)
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reader(
    cluster: FakeCatalog, clock: Clock | None = None, *, pauses: list[float] | None = None, **options: str
) -> StreamReader:
    given = {"kafka.bootstrap.servers": "h:1", "startingOffsets": "earliest", **options}
    if not {"subscribePattern", "assign"} & set(given):
        given.setdefault("subscribe", "t")
    parsed = parse_read_options({name.replace("__", "."): value for name, value in given.items()}, Use.STREAM_READ)
    task = ReadTask(parsed.client, parsed.properties, parsed.reading, ("value",))
    rests = [] if pauses is None else pauses
    return StreamReader(parsed, task, open_cluster=lambda *_: cluster, monotonic=clock or Clock(), sleep=rests.append)


def ends(offset: Offset) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = offset["offsets"]
    return found


def tasks(stream: StreamReader, start: Offset, end: Offset) -> list[tuple[str, int, int, int]]:
    splits = [each.value for each in stream.partitions(start, end)]
    return [(split.topic, split.partition, split.start, split.end) for split in splits]


def test_a_batch_from_the_beginning_to_the_end(cluster: FakeCatalog) -> None:
    stream = reader(cluster)
    start = stream.initialOffset()
    assert ends(start) == {"t": {"0": 0, "1": 0}}
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert tasks(stream, start, end) == [("t", 0, 0, 10), ("t", 1, 0, 20)]
    assert stream.latestOffset(end, ReadAllAvailable()) is end
    assert ends(stream.reportLatestOffset() or {}) == {"t": {"0": 10, "1": 20}}


def test_the_first_batch_is_the_same_after_a_restart_that_begins_elsewhere(cluster: FakeCatalog) -> None:
    first = reader(cluster, startingOffsets="latest")
    start = first.initialOffset()
    cluster.logs["t"][0].end = 15
    end = first.latestOffset(start, ReadAllAvailable())
    planned = tasks(first, start, end)
    assert planned == [("t", 0, 10, 15)]
    cluster.logs["t"][0].end = 99
    again = reader(cluster, startingOffsets="latest", minPartitions="7")
    assert tasks(again, again.initialOffset(), end) == planned


def test_an_empty_first_batch_stays_empty_after_a_restart(cluster: FakeCatalog) -> None:
    first = reader(cluster, startingOffsets="latest")
    start = first.initialOffset()
    assert first.latestOffset(start, ReadAllAvailable()) is start
    cluster.logs["t"][0].end = 15
    again = reader(cluster, startingOffsets="latest")
    assert tasks(again, again.initialOffset(), start) == []
    end = again.latestOffset(start, ReadAllAvailable())
    assert tasks(again, start, end) == [("t", 0, 10, 15)]


def test_splits_are_recorded(cluster: FakeCatalog) -> None:
    stream = reader(cluster, minPartitions="3", maxRecordsPerPartition="15")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert tasks(stream, start, end) == [("t", 0, 0, 10), ("t", 1, 0, 10), ("t", 1, 10, 20)]
    assert tasks(reader(cluster), start, end) == tasks(stream, start, end)


def test_limits(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock, maxOffsetsPerTrigger="9", minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(9)
    start = stream.initialOffset()
    end = stream.latestOffset(start, limit)
    assert ends(end) == {"t": {"0": 3, "1": 6}}
    assert ends(stream.latestOffset(end, ReadAllAvailable())) == {"t": {"0": 10, "1": 20}}


def test_a_batch_waits_for_enough_but_not_for_ever(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock, minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    end = stream.latestOffset(stream.initialOffset(), limit)
    cluster.logs["t"][0].end = 12
    clock.now += 9
    assert stream.latestOffset(end, limit) is end
    clock.now += 2
    assert ends(stream.latestOffset(end, limit)) == {"t": {"0": 12, "1": 20}}


def test_available_now_stops_where_it_was_asked(cluster: FakeCatalog) -> None:
    stream = reader(cluster, maxOffsetsPerTrigger="20", minOffsetsPerTrigger="15")
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    for log in cluster.logs["t"]:
        log.end += 100
    cluster.create("u", 5)
    read = []
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) is not start:
        read.append(sum(last - first for _, _, first, last in tasks(stream, start, end)))
        start = end
    assert sum(read) == 30
    assert ends(start) == {"t": {"0": 10, "1": 20}}


def test_new_partitions_and_topics_begin_at_their_beginning(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock, subscribePattern="t|(__|__moldau_)?u.*", startingOffsets="latest")
    start = stream.initialOffset()
    cluster.logs["t"].append(type(cluster.logs["t"][0])(3, 7))
    cluster.create("u2", 4)
    cluster.create("__u", 4)
    cluster.create("__moldau_u", 4)
    clock.now += 60
    end = stream.latestOffset(start, ReadAllAvailable())
    assert tasks(stream, start, end) == [("t", 2, 3, 7), ("u2", 0, 0, 4)]
    cluster.logs["t"][2].first = 6
    assert tasks(reader(cluster, subscribePattern="t|(__|__moldau_)?u.*"), start, end) == [
        ("t", 2, 3, 7),
        ("u2", 0, 0, 4),
    ]


def test_idle_polls_ask_for_topics_only_now_and_then(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    asked = cluster.asked_topics
    for _ in range(5):
        clock.now += 0.01
        assert stream.latestOffset(end, ReadAllAvailable()) is end
    assert cluster.asked_topics == asked
    clock.now += 5
    stream.latestOffset(end, ReadAllAvailable())
    assert cluster.asked_topics == asked + 1


def test_a_topic_that_is_missing_or_vanishes(cluster: FakeCatalog, clock: Clock) -> None:
    with pytest.raises(TopicMissing, match="'T2' does not exist; did you mean 't'"):
        reader(cluster, subscribe="T2").initialOffset()
    with pytest.raises(TopicMissing, match="t-7"):
        reader(cluster, assign='{"t": [0, 7]}').initialOffset()
    strict, lenient = reader(cluster, clock), reader(cluster, clock, failOnDataLoss="false", subscribe="t,w")
    cluster.create("w", 3)
    start, other = strict.initialOffset(), lenient.initialOffset()
    del cluster.logs["t"]
    with pytest.raises(DataLoss, match="topic t was deleted"):
        strict.latestOffset(start, ReadAllAvailable())
    assert ends(lenient.latestOffset(other, ReadAllAvailable())) == {"w": {"0": 3}}


def test_a_topic_created_anew_is_read_from_its_beginning_if_loss_is_allowed(cluster: FakeCatalog) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    cluster.create("t", 50, 0)
    with pytest.raises(DataLoss, match="created anew"):
        reader(cluster).latestOffset(end, ReadAllAvailable())
    after = stream.latestOffset(end, ReadAllAvailable())
    assert tasks(stream, end, after) == [("t", 0, 0, 50)]


def test_consumed_offsets_are_published_when_they_change(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock, group__id="g")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert set(cluster.groups["g"].values()) == {0}
    cluster.publishing_fails = True
    stream.latestOffset(end, ReadAllAvailable())
    assert set(cluster.groups["g"].values()) == {0}
    cluster.publishing_fails = False
    stream.latestOffset(end, ReadAllAvailable())
    assert set(cluster.groups["g"].values()) == {0}, "it rests after a failure"
    clock.now += 60
    stream.latestOffset(end, ReadAllAvailable())
    assert sorted(cluster.groups["g"].values()) == [10, 20]
    assert "group" not in end


def test_the_last_offsets_of_available_now_are_published_without_a_rest(cluster: FakeCatalog, clock: Clock) -> None:
    stream = reader(cluster, clock, group__id="g")
    stream.prepareForTriggerAvailableNow()
    cluster.publishing_fails = True
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    cluster.publishing_fails = False
    assert stream.latestOffset(end, ReadAllAvailable()) is end
    assert sorted(cluster.groups["g"].values()) == [10, 20]


def test_without_a_group_the_offset_says_where_the_listener_publishes(cluster: FakeCatalog) -> None:
    assert reader(cluster, groupIdPrefix="team").initialOffset()["group"] == {"prefix": "team", "servers": "h:1"}
    secured = reader(cluster, kafka__security__protocol="SSL").initialOffset()["group"]
    assert secured == {"prefix": "", "servers": "h:1", "security": "SSL"}


def test_a_reader_travels_without_its_connections(cluster: FakeCatalog) -> None:
    stream = reader(cluster)
    stream.initialOffset()
    assert pickle.loads(pickle.dumps(stream)).__dict__["_catalog"] is None
    stream.stop()
    assert cluster.closed
