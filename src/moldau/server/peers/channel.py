"""One lane to one broker: opens its connection when somebody calls, opens it again after it was lost, not too often."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.opening import Endpoint, Opener
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)

FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 1.0
REQUEST_SECONDS: Final = 30.0


class Channel:
    def __init__(self, endpoint: Endpoint, lane: Lane, opener: Opener) -> None:
        self.endpoint = endpoint
        self._lane = lane
        self._opener = opener
        self._connection: PeerConnection | None = None
        self._opening: asyncio.Task[PeerConnection] | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self._closed: str | None = None
        self._loop = asyncio.get_running_loop()

    async def call(
        self, request: Message, answer_class: type[R], timeout_seconds: float | None, max_version: int | None
    ) -> R:
        seconds = REQUEST_SECONDS if timeout_seconds is None else timeout_seconds
        connection: PeerConnection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = self._usable() or await self._opened()
                answer = await connection.call(request, answer_class, max_version)
        except TimeoutError:
            reason = f"{self.endpoint} did not answer within {seconds:g} s"
            if connection is not None:
                # What comes now comes too late, and everything behind it would wait for it.
                connection.end(reason)
            raise PeerLostError(reason) from None
        self._pause = 0.0
        return answer

    def close(self, reason: str) -> None:
        """Requests under way fail, and so do later ones."""
        self._closed = reason
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.end(reason)

    def _usable(self) -> PeerConnection | None:
        if self._connection is not None and self._connection.is_stale:
            retiring, self._connection = self._connection, None
            self._not_before = 0.0
            retiring.retire()
        return self._connection

    # --- opening ---

    async def _opened(self) -> PeerConnection:
        """One attempt at a time, which all who wait for it share."""
        self._check_not_closed()
        if self._opening is None:
            self._opening = self._loop.create_task(self._open())
            self._opening.add_done_callback(self._attempt_ended)
        try:
            return await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if not being_cancelled():  # it was the attempt that was given up
                self._check_not_closed()
            raise

    def _check_not_closed(self) -> None:
        if self._closed is not None:
            raise PeerLostError(self._closed)

    def _attempt_ended(self, attempt: asyncio.Task[PeerConnection]) -> None:
        self._opening = None
        if not attempt.cancelled():
            attempt.exception()  # whoever waited for it was told; perhaps nobody waits any more

    async def _open(self) -> PeerConnection:
        await asyncio.sleep(self._not_before - self._loop.time())
        # Until a call was answered: somebody who accepts and closes at once must not be dialled in a loop.
        self._pause = min(max(self._pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        self._not_before = self._loop.time() + self._pause
        self._connection, _ = await self._opener.open(self.endpoint, self._lane, self._lost)
        return self._connection

    def _lost(self, connection: PeerConnection) -> None:
        if self._connection is connection:
            self._connection = None
            if self._pause == 0.0:  # it has served: the next attempt is free
                self._not_before = 0.0


def being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
