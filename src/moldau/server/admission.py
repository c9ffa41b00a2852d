"""How many connections there are and how fast new ones come, and so whether the next one has to wait. Kafka's rules:

`max.connections` and `max.connection.creation.rate` hold for the broker and for each listener. For these nobody is
turned away: who comes too fast, or finds no place, waits before it is served, and those behind it wait in the kernel's
queue. Clients cannot shut the brokers out of a listener of their own: there the limits of the broker do not count.
Who is turned away is an address with too many connections, or too many new ones: before anything is said to it, so that
it takes neither a handshake nor its place from others.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from moldau.config.broker import BrokerConfig
from moldau.metrics import Metrics
from moldau.security.quotas import Measured

log = logging.getLogger("moldau.server.admission")

TYPE = "socket-server-metrics"


class Admission:
    def __init__(
        self, config: BrokerConfig, metrics: Metrics, now_ms: Callable[[], float], connected: Callable[[str], int]
    ) -> None:
        """`connected` is told of each address that connects; gives the milliseconds that it is too early."""
        self._config = config
        self._addresses: Mapping[str, Sequence[str]] = {}
        self._overrides = config.max_connections_per_ip_overrides
        self._now_ms = now_ms
        self._connected = connected
        self._per_address: Counter[str] = Counter()
        self._window_ms = config.quota_window_size_seconds * 1000
        self._open: Counter[str] = Counter()
        self._waiting: list[Callable[[], None]] = []
        self._of_broker = self._new_measured()
        self._of_listener = {listener.name: self._new_measured() for listener in config.listeners}
        self._by_address = {listener.name: self._new_measured() for listener in config.listeners}
        metrics.gauge(
            lambda: self._of_broker.rate.per_second(now_ms()), "kafka.server", TYPE, "broker-connection-accept-rate"
        )
        for name in self._of_listener:
            self._show(metrics, name)

    def _new_measured(self) -> Measured:
        return Measured(self._config.quota_window_num, self._window_ms)

    def _show(self, metrics: Metrics, listener: str) -> None:
        own, by_address, now_ms = self._of_listener[listener], self._by_address[listener], self._now_ms

        def gauge(read: Callable[[], float], name: str) -> None:
            metrics.gauge(read, "kafka.server", TYPE, name, listener=listener)

        gauge(lambda: own.rate.per_second(now_ms()), "connection-accept-rate")
        gauge(lambda: own.mean_wait_ms(now_ms()), "connection-accept-throttle-time")
        gauge(lambda: by_address.mean_wait_ms(now_ms()), "ip-connection-accept-throttle-time")

    def reconfigure(self, config: BrokerConfig) -> None:
        self._config = config
        self._override()
        self._wake()

    def looked_up(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """What host names in `max.connections.per.ip.overrides` stand for."""
        self._addresses = addresses
        self._override()

    def _override(self) -> None:
        self._overrides = {
            address: most
            for host, most in self._config.max_connections_per_ip_overrides.items()
            for address in self._addresses.get(host, (host,))
        }

    # --- one connection ---

    def arrived(self, listener: str) -> int:
        """Somebody connects; gives the milliseconds that it has to wait."""
        own = self._of_listener[listener]
        wait_ms = self._record(own, self._config.connection_limits[listener].per_second)
        if not self._is_for_brokers(listener):
            wait_ms = max(wait_ms, self._record(self._of_broker, self._config.max_connection_creation_rate))
        if wait_ms > 0:
            own.wait(wait_ms, self._now_ms())
        return wait_ms

    def _record(self, measured: Measured, per_second: int) -> int:
        now_ms = self._now_ms()
        measured.rate.record(1, now_ms)
        if per_second == 0:
            return self._window_ms
        return round(min(measured.rate.delay_ms(per_second, now_ms), self._window_ms))

    def refused_ms(self, listener: str, address: str) -> int | None:
        """After how many milliseconds somebody is turned away; None where he is not."""
        early_ms = self._connected(address)
        if early_ms:
            log.warning("%s: closing: more connections than its quota allows (connection_creation_rate)", address)
            self._by_address[listener].wait(early_ms, self._now_ms())
            return early_ms
        limit = self._overrides.get(address, self._config.max_connections_per_ip)
        if self._per_address[address] >= limit:
            log.warning("%s: closing: more than %d connections (max.connections.per.ip)", address, limit)
            return 0
        return None

    def has_room(self, listener: str) -> bool:
        if self._open[listener] >= self._config.connection_limits[listener].most:
            return False
        return self._is_for_brokers(listener) or self._open.total() < self._config.max_connections

    def entered(self, listener: str, address: str) -> None:
        self._open[listener] += 1
        self._per_address[address] += 1

    def left(self, listener: str, address: str) -> None:
        if self._open[listener]:
            self._open[listener] -= 1
        self._per_address[address] -= 1
        if self._per_address[address] <= 0:
            del self._per_address[address]
        self._wake()

    def is_overfull(self) -> bool:
        """Because another broker came in: a client has to go."""
        return self._open.total() > self._config.max_connections

    def has_to_give_way(self, listener: str) -> bool:
        return not self._is_for_brokers(listener)

    # --- those who wait ---

    def when_somebody_left(self, look: Callable[[], None]) -> None:
        """Once; whoever finds no room then asks again."""
        self._waiting.append(look)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for look in waiting:
            look()

    def _is_for_brokers(self, listener: str) -> bool:
        return len(self._config.listeners) > 1 and listener == self._config.inter_broker_listener_name
