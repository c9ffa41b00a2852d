"""The demo's queries on one batch of its events, against the plain computation."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from moldau.cli.demo import queries, story
from moldau.cli.demo.events import Story
from moldau.cli.demo.expected import Record, Results, compute
from moldau.cli.demo.observed import take_message, take_row

START = 1_700_000_040.0
RAW_SCHEMA = "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, key BINARY, value BINARY"
RECORD_SCHEMA = "key BINARY, value BINARY"
TOPICS = {name: name for name in (*story.INPUT_TOPICS, story.DEVICES, *story.OUTPUT_TOPICS)}
DEVICES = {row.device: row for row in story.device_table()}


def test_the_queries_and_the_plain_computation_agree(spark: SparkSession) -> None:
    rows, records = [], []
    for offset, event in enumerate(Story(3, 4000, 1800, START).events()):
        arrived = datetime.fromtimestamp(START + event.at, UTC)
        rows.append((event.topic, 0, offset, arrived, event.key, event.value))
        records.append(Record(event.topic, 0, offset, round((START + event.at) * 1000), event.value))
    devices = spark.createDataFrame([(row.device, row.server, row.room, row.kind) for row in DEVICES.values()],
                                    queries.DEVICE_SCHEMA)  # fmt: skip
    cleaned = queries.clean(spark.createDataFrame(rows, RAW_SCHEMA), devices, TOPICS).collect()

    found = Results()
    for row in cleaned:
        headers = [(header["key"], bytes(header["value"])) for header in row["headers"] or []]
        take_message(found, row["topic"], bytes(row["value"]), headers, TOPICS)
    expected = compute(records, DEVICES)
    assert found.dead_positions == expected.dead_positions
    assert (found.readings, found.requests, found.dead_letters) == (
        expected.readings,
        expected.requests,
        expected.dead_letters,
    )

    by_topic = {
        topic: spark.createDataFrame([(row["key"], row["value"]) for row in cleaned if row["topic"] == topic],
                                     RECORD_SCHEMA)
        for topic in (story.READINGS, story.REQUESTS)
    }  # fmt: skip
    alarms = [
        (device.encode(), _alarm_value(device, time, value)) for device, time, value in expected.alarms.elements()
    ]
    results = queries.results(
        by_topic[story.READINGS], by_topic[story.REQUESTS], spark.createDataFrame(alarms, RECORD_SCHEMA)
    )
    for result in results.collect():
        take_row(found, result.asDict())
    assert found.incidents == expected.incidents
    # A batch has no watermark: windows that a stream would still hold open are there as well.
    assert expected.climate.items() <= found.climate.items()
    assert Counter(start for *_, start in found.climate.keys() - expected.climate.keys()).total() <= 6


def _alarm_value(device: str, time_ms: int, value: int) -> bytes:
    row = DEVICES[device]
    time = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    fields = {"device": device, "server": row.server, "room": row.room, "time": time, "value": value / 10, "usual": 0.0}
    return json.dumps(fields).encode()
