"""What namespaces.py does, for who is not root: brokers reach each other and their ZooKeeper, and clients reach them,
through proxies in this process, which hold what one sends to the other. Needs addresses of 127/8 and /proc: Linux.

A cut holds bytes, and new connections, until it is over, as TCP does while packets are lost. Who listens nowhere is
refused: the proxy of a broker that is dead does not listen either. Who connects is known by the owner of the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from moldau.cli.cluster.local_cluster import Command, LocalCluster, Process

#: Where ZooKeeper and the clients are, as brokers see it.
HUB = "127.0.0.1"
PIECE_BYTES = 1 << 16
LOOK_AGAIN_SECONDS = 0.05
STOP_SECONDS = 10.0
#: A connection that is ended is closed in a later turn of the loop.
TURNS_TO_CLOSE = 3

Address = tuple[str, int]


def known_host(number: int) -> str:
    """Where a broker says that it is."""
    return f"127.0.100.{number}"


def own_host(number: int) -> str:
    """Where it listens."""
    return f"127.0.101.{number}"


def zookeeper_host(number: int) -> str:
    """Where it finds ZooKeeper."""
    return f"127.0.102.{number}"


class Proxies:
    """Runs in a `with` block; brokers behind it must be dead at its end."""

    hub = HUB

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._healed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()
        self._proxied: set[Address] = set()
        self._cluster: LocalCluster | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait_for(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Connections that are being accepted are waited for: asyncio's task, were it to end before it begins, would
        forget the socket. What was closed with something still to be sent, to who does not read it, ends here, too."""
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for connection in tuple(self._connections):
            connection.abort()  # type: ignore[attr-defined]
        for _ in range(TURNS_TO_CLOSE):
            await asyncio.sleep(0)

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_SECONDS)

    # --- what a cluster asks ---

    def host_of(self, member: Process) -> str:
        return known_host(member.number) if member.kind == "broker" else HUB

    def wrap(self, member: Process, command: Command) -> Command:
        if member.kind != "broker":
            return command
        known, own = f"PLAINTEXT://{member.address}", f"PLAINTEXT://{own_host(member.number)}:{member.port}"
        told = [f"listeners={own}" if each == f"listeners={known}" else each for each in command]
        place = next(index for index, each in enumerate(told) if each.startswith("zookeeper.connect="))
        told[place] = f"zookeeper.connect={','.join(self._ways_to_zookeeper(member, told[place]))}"
        return [*told, "--set", f"advertised.listeners={known}"]

    def _ways_to_zookeeper(self, member: Process, setting: str) -> Iterator[str]:
        host = zookeeper_host(member.number)
        for server in setting.removeprefix("zookeeper.connect=").split(","):
            port = int(server.rpartition(":")[2])
            self._relay((host, port), (HUB, port), source=known_host(member.number), target=HUB)
            yield f"{host}:{port}"

    def prepare(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        for broker in cluster.brokers:
            address = (own_host(broker.number), broker.port)
            self._relay((broker.host, broker.port), address, source=None, target=broker.host)

    # --- faults ---

    @contextlib.contextmanager
    def lost(self, *pairs: tuple[str, str]) -> Iterator[None]:
        """What the first of each pair sends to the second does not arrive."""
        self._wait_for(self._cut(pairs, +1))
        try:
            yield
        finally:
            self._wait_for(self._cut(pairs, -1))

    async def _cut(self, pairs: tuple[tuple[str, str], ...], count: int) -> None:
        for pair in pairs:
            self._cuts[pair] += count
        self._healed.set()
        self._healed = asyncio.Event()

    async def _may_pass(self, *pairs: tuple[str, str]) -> None:
        while any(self._cuts[pair] for pair in pairs):
            await self._healed.wait()

    # --- the way over ---

    def _relay(self, there: Address, to: Address, source: str | None, target: str) -> None:
        """`source`: who alone connects there; None asks each time."""
        if there not in self._proxied:
            self._proxied.add(there)
            self._loop.call_soon_threadsafe(lambda: self._begin(self._listen(there, to, source, target)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, there: Address, to: Address, source: str | None, target: str) -> None:
        """Where nobody listens at the other end, nobody listens here."""
        while True:
            await someone_listens(to)
            refused = asyncio.Event()

            def accepted(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: asyncio.Event = refused
            ) -> None:
                self._connections.add(writer.transport)
                sender = source or self._owner_of(writer.get_extra_info("peername"))
                self._begin(self._pass_on((reader, writer), to, (sender, target), refused))

            server = await asyncio.start_server(accepted, *there, reuse_address=True)
            try:
                await refused.wait()
            finally:
                await close(server)

    async def _pass_on(
        self,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        to: Address,
        way: tuple[str, str],
        refused: asyncio.Event,
    ) -> None:
        back = (way[1], way[0])
        try:
            await self._may_pass(way, back)
            far = await asyncio.open_connection(*to)
            self._connections.add(far[1].transport)
        except OSError:
            refused.set()
            near[1].transport.abort()
            return
        except asyncio.CancelledError:
            near[1].transport.abort()
            raise
        pumps = [
            asyncio.create_task(self._pump(near[0], far[1], way)),
            asyncio.create_task(self._pump(far[0], near[1], back)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            near[1].transport.abort()
            far[1].transport.abort()
            raise
        finally:
            for pump in pumps:
                pump.cancel()
            near[1].close()
            far[1].close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: tuple[str, str]) -> None:
        """Until either end is closed, or gone."""
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                await self._may_pass(way)
                writer.write(data)
                await writer.drain()
        await self._may_pass(way)

    def _owner_of(self, address: Address) -> str:
        """Which broker holds the other end of a connection, or the hub, where clients are."""
        inode = inode_of(address)
        assert self._cluster is not None
        for broker in self._cluster.brokers:
            if inode is not None and broker.pid is not None and holds(broker.pid, inode):
                return broker.host
        return HUB


async def close(server: asyncio.Server) -> None:
    """What asyncio has accepted before it takes in first: closed under that, it would forget the socket."""
    for each in server.sockets:
        asyncio.get_running_loop().remove_reader(each.fileno())
    await asyncio.sleep(0)
    server.close()


async def someone_listens(at: Address) -> None:
    """Looks from time to time."""
    never = asyncio.Event()
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(*at)
            writer.close()
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(never.wait(), LOOK_AGAIN_SECONDS)


def inode_of(address: Address) -> str | None:
    """Of the socket with this own address, as the kernel lists it: bytes of the host backwards, all in hexadecimal."""
    host = bytes(map(int, reversed(address[0].split(".")))).hex().upper()
    wanted = f"{host}:{address[1]:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == wanted:
            return fields[9]
    return None


def holds(pid: int, inode: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for number in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{number}") == f"socket:[{inode}]":
                    return True
    return False
