"""Takes clients from the socket of a listener, one after the other, as fast as its limits allow.

The one that has to wait is held here; those behind it stay in the kernel's queue. Whose address has too many is closed
here, at once or after a while, and nobody has read a byte of it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from moldau.server.admission import Admission
from moldau.server.connection import Connection
from moldau.types.addresses import canonical

log = logging.getLogger("moldau.server.acceptor")

ACCEPTED_AT_ONCE: Final = 64
OUT_OF_FILES_SECONDS: Final = 1.0
"""How long nobody is taken where the process, or the system, has no files left."""
MOST_TURNED_AWAY: Final = 1_000
"""That are to be closed in a while; more are closed at once."""

Begin = Callable[[socket.socket, str], None]


class Acceptor:
    def __init__(self, listener: str, bound: socket.socket, admission: Admission, begin: Begin) -> None:
        self._listener = listener
        self._bound = bound
        self._admission = admission
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._held: tuple[socket.socket, str] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turned_away: dict[socket.socket, asyncio.TimerHandle] = {}
        self._open = True
        self._loop.add_reader(bound.fileno(), self._accept)

    def close(self) -> None:
        self._open = False
        self._loop.remove_reader(self._bound.fileno())
        if self._timer is not None:
            self._timer.cancel()
        if self._held is not None:
            self._held[0].close()
            self._held = None
        for client, timer in self._turned_away.items():
            timer.cancel()
            client.close()
        self._turned_away.clear()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("listener %s cannot accept: %s", self._listener, error)
                self._wait(OUT_OF_FILES_SECONDS, self._go_on)
                return
            client.setblocking(False)
            name = canonical(str(address[0]))
            wait_ms = self._admission.arrived(self._listener)
            if wait_ms > 0 or not self._admission.has_room(self._listener):
                self._hold(client, name, wait_ms)
                return
            self._let_in(client, name)

    def _hold(self, client: socket.socket, address: str, wait_ms: int) -> None:
        log.debug("%s: waits for %d ms, or for a place, on listener %s", address, wait_ms, self._listener)
        self._held = client, address
        self._wait(wait_ms / 1000, self._look)

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._bound.fileno())
        self._timer = self._loop.call_later(seconds, then)

    def _look(self) -> None:
        if self._held is None or not self._open:
            return
        if not self._admission.has_room(self._listener):
            self._admission.when_somebody_left(self._look)
            return
        (client, address), self._held = self._held, None
        self._let_in(client, address)
        self._go_on()

    def _go_on(self) -> None:
        if self._open:
            self._loop.add_reader(self._bound.fileno(), self._accept)

    def _let_in(self, client: socket.socket, address: str) -> None:
        refused_ms = self._admission.refused_ms(self._listener, address)
        if refused_ms is None:
            self._admission.entered(self._listener, address)
            self._begin(client, address)
        elif refused_ms == 0 or len(self._turned_away) >= MOST_TURNED_AWAY:
            client.close()
        else:
            self._turned_away[client] = self._loop.call_later(refused_ms / 1000, self._turn_away, client)

    def _turn_away(self, client: socket.socket) -> None:
        del self._turned_away[client]
        client.close()


class PlainDoor:
    """The door of a listener without TLS: there is nothing to wait for."""

    def __init__(self, listener: str, new_connection: Callable[[], Connection], admission: Admission) -> None:
        self._listener = listener
        self._new_connection = new_connection
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[None]] = set()
        self._acceptor: Acceptor | None = None

    def listen(self, bound: socket.socket) -> None:
        self._acceptor = Acceptor(self._listener, bound, self._admission, self._enter)

    def close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()

    def _enter(self, client: socket.socket, address: str) -> None:
        task = self._loop.create_task(self._connect(client, address))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _connect(self, client: socket.socket, address: str) -> None:
        connection = self._new_connection()
        connection.client.address = address
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client)
        except OSError as error:
            log.info("%s: gone before it was served on listener %s: %s", address, self._listener, error)
            client.close()
            self._admission.left(self._listener, address)
