"""Spark's driver at logs that end before the place where a stream is: open transactions, and logs that were cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from moldau.spark.errors import DataLoss
from moldau.spark.fetching.task import ReadTask
from moldau.spark.option_table import Use
from moldau.spark.planning.options import parse_read_options
from moldau.spark.planning.stream_reader import StreamReader
from tests.support.admin import admin_client, create_topic
from tests.support.process import BrokerProcess

SECONDS = 60.0
Streams = Callable[..., StreamReader]


@pytest.fixture
def streams(topic: str) -> Iterator[Streams]:
    opened: list[StreamReader] = []

    def stream(address: str, **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": address, "subscribe": topic, "fetchOffset.retryIntervalMs": "20", **options}
        parsed = parse_read_options(given, Use.STREAM_READ)
        opened.append(StreamReader(parsed, ReadTask(parsed.client, parsed.properties, parsed.reading, ("value",))))
        return opened[-1]

    yield stream
    for each in opened:
        each.stop()


def produce(address: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "batch.num.messages": 1})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(SECONDS) == 0


def spans(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    return [(each.value.start, each.value.end) for each in stream.partitions(start, end)]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_checkpoint_behind_an_open_transaction(
    streams: Streams, address: str, admin: AdminClient, topic: str, fails: str
) -> None:
    create_topic(admin, topic)
    produce(address, topic, 5)
    transaction = Producer({"bootstrap.servers": address, "transactional.id": topic, "log_level": 0})
    transaction.init_transactions(SECONDS)
    transaction.begin_transaction()
    transaction.produce(topic, b"undecided", partition=0)
    assert transaction.flush(SECONDS) == 0
    produce(address, topic, 3)
    of_sparks_connector = {topic: {"0": 9}}
    stream = streams(address, failOnDataLoss=fails)
    assert stream.latestOffset(of_sparks_connector, ReadAllAvailable()) is of_sparks_connector
    named = streams(address, failOnDataLoss=fails, startingOffsets=json.dumps(of_sparks_connector))
    start = named.initialOffset()
    assert start["offsets"] == of_sparks_connector
    assert named.latestOffset(start, ReadAllAvailable()) is start

    transaction.commit_transaction(SECONDS)
    produce(address, topic, 2)
    for each, begin in ((stream, of_sparks_connector), (named, start)):
        end = each.latestOffset(begin, ReadAllAvailable())
        assert spans(each, begin, end) == [(9, 12)], "the transaction's marker and what came after it"


def cut_off_last_batch(broker: BrokerProcess, topic: str) -> None:
    """As an unclean election does: the broker comes back with less than it had."""
    broker.kill()
    (segment,) = (broker.data / f"{topic}-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    broker.start()


def test_a_log_that_was_cut(
    streams: Streams, own_broker: Callable[..., BrokerProcess], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = own_broker()
    create_topic(admin_client(broker.address), topic)
    produce(broker.address, topic, 5)
    stream = streams(broker.address, failOnDataLoss="false", startingOffsets="earliest")
    before = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert before["offsets"] == {topic: {"0": 5}}
    cut_off_last_batch(broker, topic)
    with pytest.raises(DataLoss, match=rf"{topic}-0 was cut: it ends at 4, before 5"):
        streams(broker.address).latestOffset(before, ReadAllAvailable())
    cut = stream.latestOffset(before, ReadAllAvailable())
    assert f"{topic}-0 was cut: it ends at 4, before 5" in caplog.text
    assert (cut["offsets"], spans(stream, before, cut)) == ({topic: {"0": 4}}, [])
    produce(broker.address, topic, 3)
    after = stream.latestOffset(cut, ReadAllAvailable())
    assert spans(stream, cut, after) == [(4, 7)]
