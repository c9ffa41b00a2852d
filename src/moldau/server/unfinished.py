"""Clients of a listener that have not said yet who they are. They cost memory and a socket each, so there are at most
so many of them (the oldest goes when another one comes), and each has so many seconds. What they announce to send they
have a budget of their own for, so that nobody else's requests wait for theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from moldau.server.buffers import Budget
from moldau.server.connection import Connection

log = logging.getLogger("moldau.server.gate")

MOST: Final = 5_000
LOGIN_SECONDS: Final = 30.0
BUDGET_BYTES: Final = 64 * 1024 * 1024


class Unfinished:
    def __init__(self, listener: str, most: int = MOST, seconds: float = LOGIN_SECONDS) -> None:
        self._listener = listener
        self._most = most
        self._seconds = seconds
        self._since: dict[Connection, float] = {}
        #: Those that have begun to send something large, the one that began first in front.
        self._receivers: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told = False

    def __len__(self) -> int:
        return len(self._since)

    def began(self, connection: Connection) -> None:
        if len(self._since) >= self._most:
            self._give_up_the_oldest()
        self._since[connection] = asyncio.get_running_loop().time()
        self._wait()

    def ended(self, connection: Connection) -> None:
        self._forget(connection)
        if len(self._since) < self._most // 2:
            self._told = False

    def receives(self, connection: Connection) -> None:
        if connection in self._since:
            self._receivers.pop(connection, None)
            self._receivers[connection] = None

    def give_up_a_receiver(self) -> None:
        """The one that has held memory for what it has not sent yet for the longest time. Strangers decide how often
        that is: each that has sent all by now is passed over once."""
        while self._receivers:
            receiver = next(iter(self._receivers))
            del self._receivers[receiver]
            if receiver.is_receiving:
                self._give_up(receiver)
                return

    def _forget(self, connection: Connection) -> None:
        self._since.pop(connection, None)
        self._receivers.pop(connection, None)

    def _give_up_the_oldest(self) -> None:
        self._give_up(next(iter(self._since)))

    def _give_up(self, connection: Connection) -> None:
        if not self._told:  # not once for each of thousands
            self._told = True
            log.warning(
                "listener %s: %d logins are unfinished: the oldest are given up", self._listener, len(self._since)
            )
        self._forget(connection)
        connection.abort()

    def _wait(self) -> None:
        """One timer, for the oldest: they come in the order of their time."""
        if self._timer is None and self._since:
            loop = asyncio.get_running_loop()
            due = next(iter(self._since.values())) + self._seconds
            self._timer = loop.call_later(max(0.0, due - loop.time()), self._look)

    def _look(self) -> None:
        self._timer = None
        late_before = asyncio.get_running_loop().time() - self._seconds
        late = []
        for connection, since in self._since.items():
            if since > late_before:
                break
            late.append(connection)
        for connection in late:
            self._forget(connection)
            log.info(
                "%s: closing: no login on listener %s within %g s",
                connection.client.address, self._listener, self._seconds,
            )  # fmt: skip
            connection.abort()
        self._wait()


class LoginBudget(Budget):
    """Whoever finds it used up does not wait for those who keep it so: the oldest of them is given up."""

    def __init__(self, unfinished: Unfinished, limit: int = BUDGET_BYTES) -> None:
        super().__init__(limit)
        self._unfinished = unfinished

    def take(self, size: int, receiver: object = None) -> None:
        super().take(size)
        if receiver is not None:
            self._unfinished.receives(cast(Connection, receiver))

    def when_free(self, resume: Callable[[], None]) -> None:
        super().when_free(resume)
        self._unfinished.give_up_a_receiver()
