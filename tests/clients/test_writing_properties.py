"""What Kafka's properties do to a write: limits of records and requests, and how long a broker is waited for."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from moldau.client.connection import Connection
from moldau.spark.errors import ClusterUnavailable
from moldau.spark.option_table import Use
from moldau.spark.writing import links as links_module
from moldau.spark.writing.errors import RowRefused
from moldau.spark.writing.identity import Attempt
from moldau.spark.writing.links import Links
from moldau.spark.writing.options import parse_write_options
from moldau.spark.writing.rows import Layout
from moldau.spark.writing.task import Clock, PlainWriter
from moldau.wire.messages.produce import ProduceRequest
from tests.support.admin import create_topic
from tests.support.process import free_port
from tests.support.sink import Sink, read_committed, rows_of

LIMIT = "1000"
DAY_MS = 24 * 60 * 60_000


def write_plainly(address: str, topic: str, values: list[str], **properties: str) -> None:
    """Each value is its own key."""
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in properties.items()}
    options = parse_write_options({"kafka.bootstrap.servers": address, "topic": topic, **given}, Use.BATCH_WRITE)
    with closing(Links(options.client)) as links:
        layout = Layout({"value": 0, "key": 0}, topic)
        PlainWriter(options, layout, links, Attempt("r", "w", 0, 0), Clock()).run(iter([rows_of(values)]))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_larger_than_a_request_is_refused(address: str, admin: AdminClient, topic: str, codec: str) -> None:
    """Its size counts before compression, as for Java's producer."""
    create_topic(admin, topic)
    with pytest.raises(
        RowRefused, match=rf"{topic}-0 takes 1\d\d\d bytes .* more than kafka\.max\.request\.size, 1000"
    ):
        write_plainly(address, topic, ["a", "b" * 600, "c"], max_request_size=LIMIT, compression_type=codec)
    fitting = ["d" * 450, "e", "f" * 450]
    write_plainly(address, topic, fitting, max_request_size=LIMIT, compression_type=codec)
    assert Counter(fitting) <= read_committed(address, topic)
    write_plainly(address, topic, ["g" * 2500], compression_type=codec)
    assert read_committed(address, topic)["g" * 2500] == 1, "without the property the topic decides"


def test_a_refused_record_leaves_nothing_of_an_exact_batch(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    sink = Sink(address, topic, f"query-{topic}", {"kafka.max.request.size": LIMIT, "stageBytes": "1"})
    with pytest.raises(RowRefused, match=r"kafka\.max\.request\.size"):
        sink.batch("run", 0, [["a"] * 500 + ["b" * 1000]])
    assert read_committed(address, topic) == Counter()


def test_requests_stay_below_their_largest_size(
    address: str, admin: AdminClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    class Weighed(Connection):
        def _write(self, request: Any, answer_class: Any, version: int) -> Any:
            if isinstance(request, ProduceRequest):
                parts = [part for each in request.topic_data for part in each.partition_data]
                sizes.append(sum(len(part.records or b"") for part in parts))
            return super()._write(request, answer_class, version)

    monkeypatch.setattr(links_module, "Connection", Weighed)
    create_topic(admin, topic, 8)
    values = [f"{number} " + "x" * 40 for number in range(112)]
    write_plainly(address, topic, values, max_request_size="5000", batch_size="2000")
    assert read_committed(address, topic) == Counter(values)
    assert 2500 < max(sizes) <= 5000, "batches go together where they fit"


@pytest.mark.parametrize(
    ("configs", "days", "warned"),
    [
        ({}, 30, True),
        ({}, 2, False),
        ({"retention.ms": -1}, 30, False),
        ({"retention.ms": DAY_MS}, 2, True),
        ({"cleanup.policy": "compact"}, 30, False),
        ({"message.timestamp.type": "LogAppendTime"}, 30, False),
    ],
)
def test_rows_that_the_topic_will_not_keep(
    address: str,
    admin: AdminClient,
    topic: str,
    configs: dict[str, object],
    days: int,
    warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Told once for each process and topic."""
    create_topic(admin, topic, 1, configs)
    options = parse_write_options({"kafka.bootstrap.servers": address, "topic": topic}, Use.BATCH_WRITE)
    then = pa.array([datetime.now(UTC) - timedelta(days=days)], pa.timestamp("us", "UTC"))
    old = pa.record_batch([pa.array([b"x"]), then], names=["value", "timestamp"])
    with closing(Links(options.client)) as links:
        for _ in range(2):
            layout = Layout({"key": 0, "value": 0, "timestamp": 1}, topic)
            PlainWriter(options, layout, links, Attempt("r", "w", 0, 0), Clock()).run(iter([old]))
    told = [record.getMessage() for record in caplog.records]
    assert [f"rows for topic {topic!r} are {days} days old" in line for line in told] == [True] * warned, told


def test_a_broker_that_is_away_when_a_write_begins(topic: str) -> None:
    port = free_port()
    said = rf"no answer .*\(127\.0\.0\.1:{port}\), tried for 0\.3 s: .*Check that it runs"
    with pytest.raises(ClusterUnavailable, match=said):
        write_plainly(f"127.0.0.1:{port}", topic, ["a"], default_api_timeout_ms="300")
    for rows in (["a"], []):
        with pytest.raises(ClusterUnavailable, match=said):
            Sink(f"127.0.0.1:{port}", topic, "q", {"kafka.default.api.timeout.ms": "300"}).batch("run", 0, [rows])
