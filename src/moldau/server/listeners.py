"""The sockets that clients connect to, and the host of their connections: limits, shared buffers, idle sweeps."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence

from moldau.config.broker import BrokerConfig
from moldau.config.listeners import Listener
from moldau.metrics import Metrics
from moldau.server.appends import RunBlocking
from moldau.server.buffers import DEFAULT_BUDGET_BYTES, Budget, BufferPool
from moldau.server.connection import SCRATCH_BYTES, AnswerGate, Connection, Frame

log = logging.getLogger("moldau.server.listeners")

IDLE_SWEEPS_PER_LIMIT = 4
RECEIVE_BUFFER = "socket.receive.buffer.bytes"


class Host:
    """What all connections share. Implements ConnectionHost."""

    def __init__(
        self,
        config: BrokerConfig,
        dispatch: Callable[[Connection, Frame], None],
        run_blocking: RunBlocking,
        metrics: Metrics,
        gate: AnswerGate,
    ) -> None:
        self.gate = gate
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.pool = BufferPool()
        self.budget = Budget(
            config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else DEFAULT_BUDGET_BYTES
        )
        self.max_frame_bytes = config.socket_request_max_bytes
        self.dispatch = dispatch
        self.connections: set[Connection] = set()
        self._config = config
        self.run_blocking = run_blocking
        self._per_address: Counter[str] = Counter()
        metrics.gauge(lambda: len(self.connections), "kafka.server", "socket-server-metrics", "connection-count")
        metrics.gauge(lambda: self.budget.used, "kafka.network", "SocketServer", "MemoryPoolUsed")

    def opened(self, connection: Connection) -> bool:
        self.connections.add(connection)
        address = connection.client.address
        self._per_address[address] += 1
        limit = self._config.max_connections_per_ip_overrides.get(address, self._config.max_connections_per_ip)
        if self._per_address[address] > limit:
            log.warning("%s: closing: more than %d connections (max.connections.per.ip)", address, limit)
            return False
        if len(self.connections) > self._config.max_connections:
            log.warning(
                "%s: closing: more than %d connections (max.connections)", address, self._config.max_connections
            )
            return False
        return True

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        address = connection.client.address
        self._per_address[address] -= 1
        if self._per_address[address] <= 0:
            del self._per_address[address]

    def reconfigure(self, config: BrokerConfig) -> None:
        self._config = config

    def sweep_idle(self, now: float) -> None:
        limit = self._config.connections_max_idle_ms
        if limit < 0:
            return
        oldest = now - limit / 1000
        for connection in [one for one in self.connections if one.last_active < oldest and not one.answers_pending]:
            if connection.client.broker_id is None:  # a silent link to another broker is there to tell of its end
                connection.abort()


class Listeners:
    """Binds and listens first: ports are known before the broker registers, and whoever connects from then on waits
    instead of being refused. Accepts later, when the broker can serve."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._servers: list[asyncio.Server] = []

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

    async def accept(self, host: Host) -> None:
        loop = asyncio.get_running_loop()
        for listener, bound_socket in self._sockets:
            server = await loop.create_server(
                lambda name=listener.name: Connection(host, name),  # type: ignore[misc]
                sock=bound_socket,
                backlog=max(self._config.socket_listen_backlog_size, 1),
            )
            self._servers.append(server)

    def close(self) -> None:
        for server in self._servers:
            server.close()
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


def idle_sweep_seconds(config: BrokerConfig) -> float:
    return max(0.05, config.connections_max_idle_ms / 1000 / IDLE_SWEEPS_PER_LIMIT)


def as_addresses(advertised: dict[str, tuple[str, int]]) -> Sequence[str]:
    return [f"{name}://{host}:{port}" for name, (host, port) in advertised.items()]
