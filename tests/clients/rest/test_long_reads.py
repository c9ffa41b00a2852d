"""Reads of v2 that would wait for an hour: bounded where that is not allowed, and over when nobody wants them."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.process import BrokerProcess
from tests.support.rest import V2, Proxy, make_instance, produce, read_until, under_way
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")
HOUR = "3600000"
PATIENT = {"format": "json", "auto.offset.reset": "earliest", "consumer.request.timeout.ms": HOUR}
JSON_V2 = "application/vnd.kafka.json.v2+json"


@pytest.fixture
def patient(broker: BrokerProcess, tmp_path: Path) -> Iterator[Proxy]:
    """A single thread for consumers: what holds it is felt at once."""
    settings = {"consumer.request.timeout.max.ms": HOUR, "consumer.threads": "1", "fetch.min.bytes": "1"}
    with Proxy(tmp_path, broker.address, settings) as found:
        yield found


def made_instance(proxy: Proxy, name: str) -> str:
    proxy.ask("POST", f"{proxy.cluster}/topics", {"topic_name": name, "partitions_count": 1})
    instance = make_instance(proxy, name, PATIENT)
    assert (
        proxy.ask("POST", f"{instance}/assignments", {"partitions": [{"topic": name, "partition": 0}]}, V2).status
        == 204
    )
    return instance


def begun_read(proxy: Proxy, instance: str) -> socket.socket:
    """Without an end of its own."""
    url = urlsplit(instance)
    assert url.hostname is not None
    connection = socket.create_connection((url.hostname, url.port or 0), timeout=60)
    connection.sendall(f"GET {url.path}/records HTTP/1.1\r\nHost: x\r\nAccept: {JSON_V2}\r\n\r\n".encode())
    wait_until(lambda: under_way(proxy) == 1, "the read is under way")
    return connection


def test_an_instance_may_not_wait_longer_than_is_allowed(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    with Proxy(tmp_path, broker.address, {"consumer.request.timeout.max.ms": "300"}) as proxy:
        instance = made_instance(proxy, name)
        assert proxy.ask("GET", f"{instance}/records", Accept=JSON_V2).body == []
        assert proxy.ask("GET", f"{instance}/records?timeout={HOUR}", Accept=JSON_V2).body == []


def test_an_instance_can_be_deleted_while_it_is_read(patient: Proxy, name: str) -> None:
    instance = made_instance(patient, name)
    with begun_read(patient, instance) as read:
        assert patient.ask("DELETE", instance, None, V2).status == 204
        assert read.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_read_ends_with_its_client_and_loses_nothing(patient: Proxy, name: str) -> None:
    instance = made_instance(patient, name)
    begun_read(patient, instance).close()
    assert produce(patient, name, [1, 2]).status == 200
    assert [each["value"] for each in read_until(patient, instance, "json", 2)] == [1, 2]


def test_a_proxy_stops_while_it_reads(patient: Proxy, name: str) -> None:
    with begun_read(patient, made_instance(patient, name)):
        assert patient.process is not None
        patient.process.send_signal(signal.SIGTERM)
        assert patient.process.wait(60) == 0
