"""Connections between processes in memory. Each direction is a FIFO with delays from the seed; a cut holds what is sent
that way until it heals, as TCP does, or ends the connection then. Nothing is lost, doubled or overtaken inside of a
connection, as little as in TCP: it comes late on one and twice on two, where the sender has opened another and sends
again. A process that dies ends its connections; a machine that loses power says nothing, until it is back and knows
none of them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol
from zlib import crc32

from moldau.client.settings import Address
from tests.simulation.scheduler import NodeLoop, Scheduler

LONGEST_DELAY_SECONDS = 0.004
SLOW_SECONDS = 0.2


class Process(Protocol):
    """Who has an end of a connection."""

    name: str
    loop: NodeLoop
    is_up: bool


class Transport:
    """One end. What the protocols of the product ask of asyncio's transports, and no more."""

    def __init__(self, network: Network, process: Process, peer: str) -> None:
        self._network, self.process, self.peer = network, process, peer
        self.other: Transport
        self.protocol: Any = None
        self.closing = False
        self.number = 0
        self._inbox: deque[bytes | None] = deque()
        self._reading = True
        self._arrived = 0.0
        self._held: deque[bytes | None] = deque()
        #: How many faults hold up this one, while others between the same two go on.
        self.stalls = 0

    # --- for protocols ---

    def write(self, data: bytes) -> None:
        if not self.closing:
            self._send(bytes(data))

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._send(None)
            self._end()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._wake()

    def get_extra_info(self, name: str) -> object:
        return (self.peer, 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    # --- the way over ---

    def _send(self, data: bytes | None) -> None:
        if self._held or self.stalls or self._network.is_cut(self.process.name, self.peer):
            self._held.append(data)
            return
        scheduler = self._network.scheduler
        self._arrived = max(self._arrived, scheduler.now + self._network.delay(self.process.name, self.peer))
        scheduler.at(self._arrived, lambda: self.other.receive(data))

    def healed(self) -> None:
        held, self._held = self._held, deque()
        for data in held:
            self._send(data)

    def receive(self, data: bytes | None) -> None:
        """Data has come to this end, or, with None, the end of the stream."""
        self._network.scheduler.note(self.number, -1 if data is None else crc32(data))
        if self.process.is_up:
            self._inbox.append(data)
            self._wake()

    def accepted(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.connection_made(self)
        self._wake()

    def _wake(self) -> None:
        if self._inbox and self.protocol is not None and self._reading:
            self.process.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        while self._inbox and self._reading and not self.closing:
            data = self._inbox.popleft()
            if data is None:
                self.closing = True
                self._end()
                return
            view = memoryview(data)
            while view and not self.closing:
                buffer = self.protocol.get_buffer(-1)
                size = min(len(buffer), len(view))
                buffer[:size] = view[:size]
                view = view[size:]
                self.protocol.buffer_updated(size)

    def _end(self, error: Exception | None = None) -> None:
        self._network.forget(self)
        if self.protocol is not None:
            self.process.loop.call_soon(self.protocol.connection_lost, error)

    def reset(self) -> None:
        """The other end is gone, and this end learns of it."""
        if self.process.is_up and not self.closing:
            self.closing = True
            self._end(ConnectionResetError("reset"))


class Server(Process, Protocol):
    is_listening: bool
    is_powered: bool

    def accept(self, transport: Transport) -> None: ...


class Network:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.servers: dict[Address, Callable[[], Server | None]] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        #: What each message takes longer than elsewhere.
        self.slowness: dict[tuple[str, str], float] = {}
        self._ends: dict[Transport, None] = {}
        self._count = 0
        self._waiting: list[Callable[[], None]] = []

    def delay(self, sender: str, receiver: str) -> float:
        rng = self.scheduler.rng
        slowness = self.slowness.get((sender, receiver), 0.0)
        return slowness + rng.random() * (SLOW_SECONDS if rng.random() < 0.01 else LONGEST_DELAY_SECONDS)

    def is_cut(self, sender: str, receiver: str) -> bool:
        return bool(self._cuts.get((sender, receiver)))

    def cut(self, sender: str, receiver: str) -> None:
        self._cuts[sender, receiver] = self._cuts.get((sender, receiver), 0) + 1

    def heal(self, sender: str, receiver: str) -> None:
        self._cuts[sender, receiver] -= 1
        if self._cuts[sender, receiver]:
            return
        for end in tuple(self._ends):
            if (end.process.name, end.peer) == (sender, receiver) and end in self._ends:
                if self.scheduler.rng.random() < 0.3:
                    end.reset()
                    end.other.reset()
                else:
                    end.healed()
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            again()

    def stall(self, sender: str, receiver: str, seconds: float) -> None:
        """Some of the connections that there are lose a packet: what is sent on them that way comes late, all else does
        not wait for it."""
        ways = [end for end in self._ends if (end.process.name, end.peer) == (sender, receiver)]
        stalled = [end for end in ways if self.scheduler.rng.random() < 0.5]
        for end in stalled:
            end.stalls += 1
        self.scheduler.after(seconds, lambda: self._go_on(stalled))

    def _go_on(self, stalled: list[Transport]) -> None:
        for end in stalled:
            end.stalls -= 1
            end.healed()

    def forget(self, end: Transport) -> None:
        if not end._held:
            self._ends.pop(end, None)

    async def dial(self, process: Process, address: Address, protocol: Any, tls: ssl.SSLContext | None) -> None:
        """Raises ConnectionRefusedError."""
        connected = asyncio.get_running_loop().create_future()
        there_and_back = self.delay(process.name, address.host) + self.delay(address.host, process.name)
        self.scheduler.after(there_and_back, lambda: self._connect(process, address, protocol, connected))
        await connected

    def _connect(self, process: Process, address: Address, protocol: Any, connected: asyncio.Future[None]) -> None:
        server = self.servers[address]()
        if connected.done() or not process.is_up:
            return
        again = lambda: self._connect(process, address, protocol, connected)  # noqa: E731
        name = address.host
        if self.is_cut(process.name, name) or self.is_cut(name, process.name):
            self._waiting.append(again)
        elif server is None or not server.is_up or not server.is_listening:
            if server is None or server.is_powered:
                process.loop.call_soon(refuse, connected)
            else:
                self.scheduler.after(0.5, again)
        else:
            self._link(process, server, protocol)
            process.loop.call_soon(settle, connected)

    def _link(self, process: Process, server: Server, protocol: Any) -> None:
        near, far = Transport(self, process, server.name), Transport(self, server, process.name)
        near.other, far.other = far, near
        self._count += 2
        near.number, far.number = self._count, self._count + 1
        self._ends[near] = self._ends[far] = None
        process.loop.call_soon(near.accepted, protocol)
        server.loop.call_soon(server.accept, far)

    def process_ended(self, process: Process, *, told: bool) -> None:
        """`told`: the system lives on and closes what the process had open."""
        for end in [each for each in self._ends if each.process is process]:
            if told:
                end._send(None)
            else:
                self.scheduler.after(10.0 * self.scheduler.rng.random(), end.other.reset)
            if not end._held:
                self._ends.pop(end, None)


def refuse(connected: asyncio.Future[None]) -> None:
    if not connected.done():
        connected.set_exception(ConnectionRefusedError(111, "refused"))


def settle(connected: asyncio.Future[None]) -> None:
    if not connected.done():
        connected.set_result(None)
