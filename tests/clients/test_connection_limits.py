"""How many connections a broker takes, and how fast: who comes beyond a limit waits, or is closed, and nobody else."""

from __future__ import annotations

import select
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.command import run
from tests.support.process import free_port
from tests.support.raw import API_VERSIONS, RawConnection, api_versions, request
from tests.support.waiting import wait_until

PER_SECOND, PLACES = 5, 2
ONCE, SLOWLY = "127.0.0.2", "127.0.0.3"
"""Addresses of this machine that clients connect from."""


class Limited:
    """A broker whose listener for brokers is its open one."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.ports = {name: free_port() for name in ("FEW", "SLOW", "OPEN")}
        self.metrics_port = free_port()
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        protocols = ",".join(f"{name}:PLAINTEXT" for name in ("PLAINTEXT", *self.ports))
        self.broker = Broker(
            folder,
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,{listeners}",
                "listener.security.protocol.map": protocols,
                "metrics.listeners": f"http://127.0.0.1:{self.metrics_port}",
                "quota.window.num": 2,
                **settings,
            },
        )

    def connect(self, listener: str, source: str = "") -> RawConnection:
        return RawConnection(f"127.0.0.1:{self.ports[listener]}", 120.0, source)

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    found = Limited(
        tmp_path_factory.mktemp("limited"),
        **{
            "listener.name.few.max.connections": PLACES,
            "listener.name.slow.max.connection.creation.rate": PER_SECOND,
            "max.connections.per.ip.overrides": f"{ONCE}:1",
        },
    )
    with found.broker:
        yield found


def test_a_name_stands_for_its_addresses(tmp_path: Path) -> None:
    found = Limited(tmp_path, **{"max.connections.per.ip.overrides": "localhost:1,nowhere.invalid:1"})
    with found.broker, ExitStack() as connected:

        def is_served() -> bool:
            try:
                return bool(api_versions(connected.enter_context(found.connect("OPEN"))))
            except ConnectionError:
                return False

        wait_until(is_served, "whoever looked whether the broker is up has gone")
        assert connected.enter_context(found.connect("OPEN")).is_closed_by_peer()
        assert api_versions(connected.enter_context(found.connect("OPEN", ONCE)))
    assert "the limit of nowhere.invalid holds for nobody" in found.broker.output()


def test_a_client_that_says_nothing_is_closed(tmp_path: Path) -> None:
    idle = {"connections.max.idle.ms": 500, "connection.failed.authentication.delay.ms": 10}
    with Broker(tmp_path, idle) as broker, RawConnection(broker.address) as client:
        assert api_versions(client)
        assert client.is_closed_by_peer()


def ask(connection: RawConnection) -> None:
    connection.send(request(API_VERSIONS, 0, b""))


def has_answer(connection: RawConnection) -> bool:
    return bool(select.select([connection.socket], [], [], 0)[0])


def test_who_finds_no_place_on_a_listener_waits_for_one(limited: Limited) -> None:
    with ExitStack() as connected:
        first, *_ = served = [connected.enter_context(limited.connect("FEW")) for _ in range(PLACES)]
        assert all(api_versions(each) for each in served)
        late = connected.enter_context(limited.connect("FEW"))
        ask(late)
        with limited.connect("OPEN") as other:
            assert api_versions(other) and api_versions(first)
        assert not has_answer(late)
        first.close()
        assert late.receive()


def test_who_connects_too_fast_to_a_listener_is_served_later(limited: Limited) -> None:
    throttled = 'kafka_server_socket_server_metrics_connection_accept_throttle_time{listener="%s"}'
    with ExitStack() as connected:
        many = [connected.enter_context(limited.connect("SLOW")) for _ in range(2 * PER_SECOND + 1)]
        for each in many:
            ask(each)
        wait_until(lambda: limited.metric(throttled % "SLOW") > 0, "one of them has to wait")
        assert all(each.receive() for each in many)
    assert limited.metric(throttled % "OPEN") == 0


def test_an_address_with_a_limit_of_its_own_has_no_connection_more(limited: Limited) -> None:
    with limited.connect("OPEN", ONCE) as first, limited.connect("OPEN") as other:
        assert api_versions(first)
        with limited.connect("OPEN", ONCE) as second:
            assert second.is_closed_by_peer()
        assert api_versions(first) and api_versions(other)


def test_an_address_that_connects_faster_than_its_quota_is_closed(limited: Limited) -> None:
    environment = {"MOLDAU_BOOTSTRAP_SERVERS": limited.broker.address}
    assert (
        run("security", "quota", "set", "connection_creation_rate=1", "--ip", SLOWLY, environment=environment).code == 0
    )

    def is_turned_away() -> bool:
        with limited.connect("OPEN", SLOWLY) as connection:
            ask(connection)
            return connection.receive() is None

    wait_until(is_turned_away, "the quota holds")
    assert limited.metric(f'kafka_server_socket_server_metrics_connection_accept_rate{{ip="{SLOWLY}"}}') > 0
    throttled = 'kafka_server_socket_server_metrics_ip_connection_accept_throttle_time{listener="OPEN"}'
    assert limited.metric(throttled) > 0
    with limited.connect("OPEN") as other:
        assert api_versions(other)
    assert run("security", "quota", "remove", "--ip", SLOWLY, environment=environment).code == 0


def test_a_host_may_stand_for_its_addresses_in_a_quota_too(tmp_path: Path) -> None:
    limited = Limited(tmp_path)
    with limited.broker:
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": limited.broker.address}
        set_quota = ("security", "quota", "set", "connection_creation_rate=1", "--ip")
        for host in ("nowhere.invalid", "localhost"):  # from then on we are held back ourselves
            assert run(*set_quota, host, environment=environment).code == 0

        def is_turned_away() -> bool:
            with limited.connect("OPEN") as connection:
                ask(connection)
                return connection.receive() is None

        wait_until(is_turned_away, "the quota holds")
        with limited.connect("OPEN", SLOWLY) as other:
            assert api_versions(other)
    assert "the limit of nowhere.invalid holds for nobody" in limited.broker.output()


def test_a_full_broker_lets_brokers_in_and_the_longest_idle_client_goes(tmp_path: Path) -> None:
    limited = Limited(tmp_path, **{"max.connections": 3})
    with limited.broker, ExitStack() as connected:
        first, second, third = [connected.enter_context(limited.connect("OPEN")) for _ in range(3)]
        for each in (first, *[second, third] * 30):  # so often that milliseconds tell them apart
            assert api_versions(each)
        late = connected.enter_context(limited.connect("SLOW"))
        ask(late)
        with RawConnection(limited.broker.address) as between_brokers:
            assert api_versions(between_brokers)
            assert first.is_closed_by_peer()
            assert api_versions(second) and api_versions(third)
            assert not has_answer(late)
        assert late.receive()
