"""Metrics over HTTP, as Prometheus asks for them."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from confluent_kafka import Producer

from tests.clients.conftest import StartBroker
from tests.support.process import free_port


def text_at(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def value_of(text: str, name: str) -> float:
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def test_what_a_broker_counts_is_read_over_http(own_broker: StartBroker) -> None:
    port = free_port()
    broker = own_broker(**{"metrics.listeners": f"http://127.0.0.1:{port}"})
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("counted", b"x" * 1000)
    assert producer.flush(30) == 0
    text = text_at(f"http://127.0.0.1:{port}/metrics")
    assert value_of(text, "kafka_server_brokertopicmetrics_bytesin_total") >= 1000
    assert value_of(text, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert value_of(text, "kafka_server_replicamanager_partitioncount") == 1
    assert value_of(text, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/secrets", timeout=30)
    missing.value.close()
    assert missing.value.code == 404
