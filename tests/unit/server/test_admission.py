"""Who may connect when: the limits of Kafka, by broker and by listener, on a clock of the test's own."""

from __future__ import annotations

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metrics import Metrics
from moldau.server.admission import Admission

TWO = {
    "listeners": "CLIENTS://localhost:9092,BROKERS://localhost:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
WINDOW_MS = 1000
WINDOWS = 11
ADDRESS = "192.0.2.7"


class Door:
    def __init__(self, **settings: object) -> None:
        self.now_ms = 0.0
        self.given = {**TWO, **{name.replace("_", "."): str(value) for name, value in settings.items()}}
        self.metrics = Metrics()
        self.early_ms = 0
        self.admission = Admission(
            BrokerConfig.load(self.given), self.metrics, lambda: self.now_ms, lambda address: self.early_ms
        )

    def reconfigure(self, **settings: object) -> None:
        self.given |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.admission.reconfigure(BrokerConfig.load(self.given))

    def enter(self, listener: str, count: int = 1, address: str = ADDRESS) -> None:
        for _ in range(count):
            assert self.admission.has_room(listener)
            self.admission.entered(listener, address)

    def leave(self, listener: str, address: str = ADDRESS) -> None:
        self.admission.left(listener, address)

    def turn_away(self, listener: str, early_ms: int) -> None:
        self.early_ms = early_ms
        assert self.admission.refused_ms(listener, ADDRESS) == early_ms

    def gauge(self, name: str, **tags: str) -> float:
        wanted = {(each.name, each.tags): value for each, value in self.metrics.snapshot()}
        found = wanted[name, tuple(sorted(tags.items()))]
        assert isinstance(found, float | int)
        return found


def test_without_limits_nobody_waits() -> None:
    door = Door()
    assert [door.admission.arrived("CLIENTS") for _ in range(1000)] == [0] * 1000
    assert door.admission.has_room("CLIENTS")


def test_who_comes_faster_than_the_rate_waits_until_it_holds_again() -> None:
    door = Door(max_connection_creation_rate=10)
    waits = [door.admission.arrived("CLIENTS") for _ in range(110)]
    burst = 10 * (WINDOWS - 1)
    assert waits[:burst] == [0] * burst, "a young rate is measured over all windows but one"
    assert all(0 < wait <= WINDOW_MS for wait in waits[burst:])
    assert waits[burst:] == sorted(waits[burst:])
    door.now_ms = 60_000
    assert door.admission.arrived("CLIENTS") == 0


def test_a_rate_of_nothing_lets_each_wait_for_a_whole_window() -> None:
    door = Door(**{"listener.name.clients.max.connection.creation.rate": 0})
    assert door.admission.arrived("CLIENTS") == WINDOW_MS
    assert door.admission.arrived("BROKERS") == 0


def test_clients_do_not_slow_the_brokers_down() -> None:
    door = Door(max_connection_creation_rate=1)
    for _ in range(100):
        door.admission.arrived("CLIENTS")
    assert door.admission.arrived("CLIENTS") > 0
    assert door.admission.arrived("BROKERS") == 0


def test_clients_cannot_take_the_brokers_places() -> None:
    door = Door(max_connections=3)
    door.enter("CLIENTS", 3)
    assert not door.admission.has_room("CLIENTS")
    assert door.admission.has_room("BROKERS") and not door.admission.is_overfull()
    door.enter("BROKERS")
    assert door.admission.is_overfull()
    assert door.admission.has_to_give_way("CLIENTS") and not door.admission.has_to_give_way("BROKERS")
    door.leave("CLIENTS")
    assert not door.admission.is_overfull()


def test_a_listener_alone_is_not_one_for_brokers() -> None:
    door = Door(listeners="BROKERS://localhost:9092", max_connections=1)
    door.enter("BROKERS")
    assert not door.admission.has_room("BROKERS") and door.admission.has_to_give_way("BROKERS")


def test_a_listeners_own_limit_holds_for_brokers_too() -> None:
    door = Door(**{"listener.name.brokers.max.connections": 1})
    door.enter("BROKERS")
    assert not door.admission.has_room("BROKERS")
    assert door.admission.has_room("CLIENTS")


def test_who_waits_for_a_place_is_woken_once_by_whoever_leaves() -> None:
    door = Door(max_connections=1)
    door.enter("CLIENTS")
    looks: list[str] = []
    door.admission.when_somebody_left(lambda: looks.append("first"))
    door.admission.when_somebody_left(lambda: looks.append("second"))
    door.leave("CLIENTS")
    assert looks == ["first", "second"]
    door.leave("CLIENTS")
    assert looks == ["first", "second"]
    door.enter("CLIENTS")


def test_who_waits_again_while_being_woken_waits_for_the_next() -> None:
    door = Door(max_connections=1)
    looks: list[int] = []

    def look() -> None:
        looks.append(len(looks))
        door.admission.when_somebody_left(look)

    door.admission.when_somebody_left(look)
    door.leave("CLIENTS")
    assert looks == [0]
    door.leave("CLIENTS")
    assert looks == [0, 1]


def test_a_higher_limit_wakes_those_who_wait() -> None:
    door = Door(max_connections=1)
    door.enter("CLIENTS")
    rooms: list[bool] = []
    door.admission.when_somebody_left(lambda: rooms.append(door.admission.has_room("CLIENTS")))
    door.reconfigure(max_connections=2)
    assert rooms == [True]


@pytest.mark.parametrize("listener", ["CLIENTS", "BROKERS"])
def test_how_fast_they_come_and_how_long_they_wait_is_measured_by_listener(listener: str) -> None:
    door = Door(**{f"listener.name.{listener.lower()}.max.connection.creation.rate": 1})
    waits = [door.admission.arrived(listener) for _ in range(12)]
    door.turn_away(listener, 300)
    other = "BROKERS" if listener == "CLIENTS" else "CLIENTS"
    assert door.gauge("connection-accept-rate", listener=listener) == pytest.approx(12 / (WINDOWS - 1))
    assert door.gauge("connection-accept-rate", listener=other) == 0
    waited = [each for each in waits if each]
    mean = sum(waited) / len(waited)
    assert door.gauge("connection-accept-throttle-time", listener=listener) == pytest.approx(mean)
    assert door.gauge("ip-connection-accept-throttle-time", listener=listener) == pytest.approx(300)
    assert door.gauge("broker-connection-accept-rate") == (pytest.approx(1.2) if listener == "CLIENTS" else 0)


def test_an_address_has_a_limit_of_its_own_by_its_names_too() -> None:
    overrides = "0:0:0:0:0:0:0:1:1,office.example:3"
    door = Door(max_connections_per_ip=2, **{"max.connections.per.ip.overrides": overrides})
    door.enter("CLIENTS", 1, "::1")
    assert door.admission.refused_ms("CLIENTS", "::1") == 0
    door.enter("CLIENTS", 2)
    assert door.admission.refused_ms("CLIENTS", ADDRESS) == 0
    door.admission.looked_up({"office.example": ("192.0.2.1", ADDRESS)})
    assert door.admission.refused_ms("CLIENTS", ADDRESS) is None
    door.reconfigure(max_connections_per_ip=1)
    assert door.admission.refused_ms("CLIENTS", ADDRESS) is None, "what was looked up is still known"


def test_an_address_with_too_many_connections_is_turned_away_and_others_are_not() -> None:
    door = Door(max_connections_per_ip=2)
    door.enter("CLIENTS")
    door.enter("BROKERS")
    assert door.admission.refused_ms("CLIENTS", ADDRESS) == 0
    assert door.admission.refused_ms("CLIENTS", "192.0.2.8") is None
    door.leave("BROKERS")
    assert door.admission.refused_ms("CLIENTS", ADDRESS) is None
