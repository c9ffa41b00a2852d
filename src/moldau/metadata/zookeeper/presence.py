"""Which brokers are alive: ephemeral nodes below /brokers/ids, as Kafka's tools know them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping

from moldau.metadata.store import AliveWatcher, DuplicateBrokerError, SessionState, Unwatch
from moldau.metadata.watching import Listeners
from moldau.metadata.zookeeper.layout import Layout
from moldau.metadata.zookeeper.port import (
    BadVersionError,
    ConnectionLostError,
    Node,
    NodeExistsError,
    NoNodeError,
    Port,
)

LOG = logging.getLogger(__name__)


class BrokerPresence:
    """`patience_seconds` is how long a node may outlive its broker: a session time-out, and what the ensemble adds."""

    def __init__(self, port: Port, layout: Layout, patience_seconds: float, clock: Callable[[], float]) -> None:
        self._port = port
        self._layout = layout
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._own: tuple[int, bytes] | None = None
        self._alive: dict[int, bytes] = {}
        self._watchers: Listeners[Mapping[int, bytes]] = Listeners("living brokers")
        self._changed = asyncio.Event()
        self._gone = asyncio.Event()
        self._announcing = asyncio.Lock()

    @property
    def own(self) -> tuple[int, bytes] | None:
        return self._own

    def alive(self) -> Mapping[int, bytes]:
        return self._alive

    def watch(self, watcher: AliveWatcher) -> Unwatch:
        return self._watchers.add(watcher)

    def look_again(self) -> None:
        """There is a new connection, which watches nothing yet."""
        self._changed.set()
        self._gone.set()

    async def follow(self) -> None:
        """Reads all nodes whenever one comes or goes; never ends."""
        while True:
            self._changed.clear()
            with contextlib.suppress(ConnectionLostError):
                await self._read()
            await self._changed.wait()

    async def _read(self) -> None:
        names = await self._port.children(self._layout.broker_ids, self._changed.set)
        ids = sorted(int(name) for name in names if name.isdigit())
        nodes = await asyncio.gather(*(self._port.get(self._layout.broker_id(number)) for number in ids))
        alive = {number: node.value for number, node in zip(ids, nodes, strict=True) if node is not None}
        if alive != self._alive:
            self._alive = alive
            self._watchers.tell(alive)

    async def announce(self, broker_id: int, value: bytes) -> None:
        if self._own is not None and self._own[0] != broker_id:
            await self.withdraw()
        self._own = (broker_id, value)
        try:
            await self.announce_again()
        except DuplicateBrokerError:
            self._own = None
            raise

    async def announce_again(self) -> None:
        """On this connection; raises ConnectionLostError and DuplicateBrokerError."""
        async with self._announcing:
            if self._own is None:
                return
            broker_id, value = self._own
            path = self._layout.broker_id(broker_id)
            deadline = self._clock() + self._patience_seconds
            while not await self._take(path, value, deadline):
                pass

    async def withdraw(self) -> None:
        async with self._announcing:
            if self._own is not None:
                await self._remove(self._layout.broker_id(self._own[0]))
                self._own = None

    async def _remove(self, path: str) -> None:
        node = await self._port.get(path)
        if node is not None and node.owner == self._port.session_id:
            try:
                await self._port.delete(path)
            except NoNodeError:
                return

    async def _take(self, path: str, value: bytes, deadline: float) -> bool:
        """Whether the node is ours; False where one has to look again. Raises DuplicateBrokerError."""
        try:
            await self._port.create(path, value, ephemeral=True)
            return True
        except NodeExistsError:
            node = await self._port.get(path)
        if node is None:
            return False
        if node.owner == self._port.session_id and node.value == value:
            return True  # the answer to an earlier attempt was lost
        if node.owner == self._port.session_id or shares_directories(node.value, value):
            try:
                await self._port.replace(path, value, node.version)
                return True
            except (BadVersionError, NoNodeError, NodeExistsError):
                return False
        await self._wait_until_gone(path, node, deadline)
        return False

    async def _wait_until_gone(self, path: str, node: Node, deadline: float) -> None:
        gone = self._gone = asyncio.Event()
        if not await self._port.exists(path, gone.set):
            return
        LOG.warning("%s is held by another session; waiting for its end", path)
        try:
            await asyncio.wait_for(gone.wait(), max(deadline - self._clock(), 0))
        except TimeoutError:
            if self._port.state is not SessionState.CONNECTED:  # who is cut off does not hear of that end either
                raise ConnectionLostError(path) from None
            raise DuplicateBrokerError(
                f"another broker is alive under this id: {path} in ZooKeeper is held by session "
                f"0x{node.owner & 0xFFFFFFFFFFFFFFFF:x} ({described(node.value)}). Give this broker another "
                "broker.id, or stop the other."
            ) from None


def directories_in(value: bytes) -> frozenset[str]:
    try:
        found = json.loads(value)
        return frozenset(map(str, found.get("directories") or ()))
    except (ValueError, AttributeError, TypeError):
        return frozenset()


def shares_directories(one: bytes, other: bytes) -> bool:
    """A log directory is locked by one process at a time: a node with one of ours is from an earlier life of this
    broker, whose session has not ended yet."""
    return bool(directories_in(one) & directories_in(other))


def described(value: bytes) -> str:
    try:
        found = json.loads(value)
        return f"{found['host']}:{found['port']}"
    except (ValueError, KeyError, TypeError):
        return "unreadable"
