"""The sockets that clients connect to, and the host of their connections: limits, shared buffers, idle sweeps."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from moldau.config.broker import BrokerConfig
from moldau.config.listeners import Listener
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.server.acceptor import PlainDoor
from moldau.server.admission import Admission
from moldau.server.buffers import DEFAULT_BUDGET_BYTES, Budget, BufferPool
from moldau.server.connection import SCRATCH_BYTES, AnswerGate, Connection, Frame
from moldau.server.gate import Gate
from moldau.server.host_names import HostNames
from moldau.server.services import Services
from moldau.server.tls_door import TlsDoor
from moldau.types.addresses import is_address

log = logging.getLogger("moldau.server.listeners")

IDLE_SWEEPS_PER_LIMIT = 4
RECEIVE_BUFFER = "socket.receive.buffer.bytes"


def loop_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


class Host:
    """What all connections share. Implements ConnectionHost."""

    def __init__(
        self,
        config: BrokerConfig,
        dispatch: Callable[[Connection, Frame], None],
        services: Services,
        gate: AnswerGate,
    ) -> None:
        metrics, quotas = services.metrics, services.quotas
        self.gate = gate
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.pool = BufferPool()
        self.budget = Budget(
            config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else DEFAULT_BUDGET_BYTES
        )
        self.intake = self.budget
        self.max_frame_bytes = config.socket_request_max_bytes
        self.dispatch = dispatch
        self.connections: set[Connection] = set()
        self._config = config
        self.run_blocking = services.run_blocking
        self.admission = Admission(
            config, metrics, loop_ms, lambda address: quotas.connected(address) if quotas.active else 0
        )
        self._quotas = quotas
        self.names = HostNames(services.look_up, services.run_blocking, self._looked_up)
        self.names.want((*limited_names(config), *quotas.hosts))
        metrics.gauge(lambda: len(self.connections), "kafka.server", "socket-server-metrics", "connection-count")
        metrics.gauge(lambda: self.budget.used, "kafka.network", "SocketServer", "MemoryPoolUsed")

    def _looked_up(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self.admission.looked_up(addresses)
        self._quotas.looked_up(addresses)

    def follow_quotas(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Behind the quota manager, which has the change by then."""
        if delta.quotas:
            self.names.want(self._quotas.hosts)

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        if self.admission.is_overfull():
            self._close_longest_idle()

    def _close_longest_idle(self) -> None:
        may_go = [one for one in self.connections if self.admission.has_to_give_way(one.client.listener)]
        if may_go:
            longest = min(may_go, key=lambda one: one.last_active)
            log.warning("%s: closing: a broker needs its place (max.connections)", longest.client.address)
            longest.abort()

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.admission.left(connection.client.listener, connection.client.address)

    def reconfigure(self, config: BrokerConfig) -> None:
        self._config = config
        self.admission.reconfigure(config)
        self.names.want(limited_names(config))

    def sweep_idle(self, now: float) -> None:
        limit = self._config.connections_max_idle_ms
        if limit < 0:
            return
        oldest = now - limit / 1000
        for connection in tuple(self.connections):
            if connection.answers_pending:
                connection.last_active = now  # what it is told will be a sign of life: nobody counts each answer
            # A silent link to another broker is there to tell of its end.
            elif connection.last_active < oldest and not connection.client.is_exempt:
                connection.abort()


class Listeners:
    """Binds and listens first: ports are known before the broker registers, and whoever connects from then on waits
    instead of being refused. Accepts later, when the broker can serve."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._doors: list[TlsDoor | PlainDoor] = []

    def bind(self) -> None:
        for listener in self._config.listeners:
            bound = bind(listener, self._config)
            bound.listen(max(self._config.socket_listen_backlog_size, 1))
            self._sockets.append((listener, bound))

    def advertised(self) -> dict[str, tuple[str, int]]:
        """Host and port that clients are told, by listener name; port 0 stands for the one that was bound."""
        bound = {listener.name: bound_socket.getsockname()[1] for listener, bound_socket in self._sockets}
        told = {}
        for listener in self._config.advertised_listeners:
            host = listener.host or socket.gethostname()
            told[listener.name] = (host, listener.port or bound[listener.name])
        return told

    def accept(self, host: Host, gates: Mapping[str, Gate], doors: Mapping[str, TlsDoor]) -> None:
        """`gates` stand before listeners that ask who is there, `doors` before those with TLS."""
        for listener, bound_socket in self._sockets:
            gate = gates.get(listener.name)
            connections = partial(Connection, host, listener.name) if gate is None else gate.new_connection
            door = doors.get(listener.name) or PlainDoor(listener.name, connections, host.admission)
            door.listen(bound_socket)
            self._doors.append(door)

    def close(self) -> None:
        for door in self._doors:
            door.close()
        for _, bound_socket in self._sockets:
            bound_socket.close()


def bind(listener: Listener, config: BrokerConfig) -> socket.socket:
    family = socket.AF_INET6 if is_ipv6(listener.host) else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Accepted sockets inherit these.
        # Kafka's default of 100 KB costs a third more CPU per produced GB than letting the system tune (measured).
        if RECEIVE_BUFFER in config.origins.static:
            set_buffer(bound, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        set_buffer(bound, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
        bound.bind((listener.host, listener.port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"listeners={listener}: {error.strerror}") from error
    return bound


def set_buffer(bound: socket.socket, option: int, size: int) -> None:
    if size > 0:
        bound.setsockopt(socket.SOL_SOCKET, option, size)


def is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def limited_names(config: BrokerConfig) -> list[str]:
    return [host for host in config.max_connections_per_ip_overrides if not is_address(host)]


def idle_sweep_seconds(config: BrokerConfig) -> float:
    return max(0.05, config.connections_max_idle_ms / 1000 / IDLE_SWEEPS_PER_LIMIT)


def as_addresses(advertised: dict[str, tuple[str, int]]) -> Sequence[str]:
    return [f"{name}://{host}:{port}" for name, (host, port) in advertised.items()]
