"""SX-12: `security.inter.broker.protocol=SSL`, as the book prints it: what brokers say to each other is encrypted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import QUIET
from tests.cluster.secured import ADMIN, Locked, in_sync, locked_cluster, make
from tests.support.names import own_name
from tests.support.raw import API_VERSIONS, RawConnection, request
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def encrypted(running: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    settings = {
        "listeners": "CLIENTS://{address},SSL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,SSL:SSL",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "super.users": "User:admin;User:CN=broker",
    }
    folder = tmp_path_factory.mktemp("ssl")
    with locked_cluster(running, folder, "ssl", settings, without=("inter.broker.listener.name",)) as found:
        yield found
        for broker in found.cluster.brokers:
            assert "Traceback" not in found.log_of(broker), found.log_of(broker)


def test_records_reach_all_replicas_over_tls(encrypted: Locked) -> None:
    cluster, topic = encrypted.cluster, own_name("over-tls")
    make(encrypted, topic)
    killed = cluster.broker(1)
    cluster.kill_member(killed)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **ADMIN, **QUIET, "acks": "all"})
    for partition in range(4):
        producer.produce(topic, b"told", partition=partition)
    assert producer.flush(60) == 0
    cluster.start_member(killed)
    wait_until(lambda: in_sync(encrypted, topic) == {2}, "the broker that was killed is in sync again", 90)


def test_the_listener_between_brokers_does_not_answer_in_the_clear(encrypted: Locked) -> None:
    host, port = encrypted.inner_address(encrypted.cluster.broker(2))
    with RawConnection(f"{host}:{port}") as raw:
        raw.send(request(API_VERSIONS, 0, b""))
        assert raw.receive() is None
