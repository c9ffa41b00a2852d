"""The registry's log on a broker: what a leader knows before it decides."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.client.librdkafka import translate
from moldau.metrics import Metrics
from moldau.registry.errors import RegistryError
from moldau.registry.log import SchemaLog
from moldau.registry.records import Version, noop_record
from moldau.registry.state import State
from tests.support.broker import Broker


def test_the_topic_ends_with_a_record_when_an_instance_ends(tmp_path: Path) -> None:
    """Registries that know no transactions wait for the last offset, where otherwise a marker is."""
    with Broker(tmp_path / "broker") as broker:
        settings = {"bootstrap.servers": broker.address}
        log = SchemaLog(translate(settings), "_schemas", "test", State(), 10.0, Metrics())
        log.prepare(1)
        log.start()
        log.until_read()
        log.lead()
        log.write([Version("ours", 1, 7, "AVRO", '"int"').record()])
        log.close()
        consumer = Consumer({**settings, "group.id": "theirs", "isolation.level": "read_uncommitted"})
        _, end = consumer.get_watermark_offsets(TopicPartition("_schemas", 0), 10)
        consumer.assign([TopicPartition("_schemas", 0, end - 1)])
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        assert (message.offset(), message.key()) == (end - 1, noop_record().encoded()[0])
        consumer.close()


def test_a_leader_decides_nothing_before_it_has_read_what_others_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    gate.set()
    apply = SchemaLog._apply

    def gated(self: SchemaLog, message: Any, offset: int) -> None:
        assert gate.wait(60)
        apply(self, message, offset)

    monkeypatch.setattr(SchemaLog, "_apply", gated)
    state = State()
    with Broker(tmp_path / "broker") as broker:
        log = SchemaLog(translate({"bootstrap.servers": broker.address}), "_schemas", "test", state, 2.0, Metrics())
        log.prepare(1)
        log.start()
        log.until_read()
        for count in (1, 3, 1):
            log.lead()
            log.write([noop_record()] * count)
        gate.clear()
        log.lead()  # nothing is new but the marker of its own last write, which the reader has not been told of
        key, value = Version("theirs", 1, 7, "AVRO", '"int"').record().encoded()
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("_schemas", value, key)
        assert producer.flush(30) == 0
        with pytest.raises(RegistryError, match="was read up to"):
            log.lead()
        gate.set()
        log.wait_for(log.position + 1, 30)
        log.lead()
        assert [each.id for each in state.versions("theirs")] == [7]
        log.close()


def test_reading_goes_on_after_something_that_nobody_thought_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, failures = SchemaLog._take, iter([RuntimeError("out of the blue")])

    def failing(self: SchemaLog, message: Any) -> None:
        if message.error() is None:
            for failure in failures:
                raise failure
        take(self, message)

    state = State()
    with Broker(tmp_path / "broker") as broker:
        log = SchemaLog(translate({"bootstrap.servers": broker.address}), "_schemas", "test", state, 20.0, Metrics())
        log.prepare(1)
        log.start()
        log.until_read()
        monkeypatch.setattr(SchemaLog, "_take", failing)
        log.lead()
        log.write([Version("ours", 1, 7, "AVRO", '"int"').record()])
        assert [each.id for each in state.versions("ours")] == [7]
        log.lead()
        assert next(failures, None) is None
        log.wait_for(log.position, 30)
        log.close()


def test_what_cannot_be_written_leaves_no_transaction_open(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        log = SchemaLog(translate({"bootstrap.servers": broker.address}), "_schemas", "test", State(), 10.0, Metrics())
        log.prepare(1)
        log.start()
        log.until_read()
        log.lead()
        with pytest.raises(ValueError, match="surrogates"):
            log.write([Version("ours", 1, 7, "AVRO", '"\ud800"').record()])
        log.lead()
        log.write([Version("ours", 1, 8, "AVRO", '"int"').record()])
        log.close()
