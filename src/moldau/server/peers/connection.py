"""One connection to another broker on the event loop: requests out as they come, answers matched in their order.

Received bytes go straight into a buffer of their frame, and record batches of an answer are views of it: between the
socket and the log's write nothing copies them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar, cast

from moldau.client.core import ClientCore, Frames
from moldau.client.errors import ClientError, VersionUnsupported
from moldau.server.peers.buffers import RecycledBuffers
from moldau.server.peers.peer import NotLetInError, PeerLostError
from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)

AHEAD_BYTES: Final = 4096
"""Small answers come whole with one read; of a large one no more than this is copied."""
LARGEST_ANSWER_BYTES: Final = 512 * 1024 * 1024


class PeerConnection(asyncio.BufferedProtocol):
    """Made by a channel; ends once, for a reason that everybody who waits is told."""

    def __init__(self, core: ClientCore, ended: Callable[[PeerConnection], None]) -> None:
        self.core = core
        self.lost: PeerLostError | None = None
        self._ended = ended
        self._frames = Frames(core.broker, AHEAD_BYTES, LARGEST_ANSWER_BYTES, RecycledBuffers())
        self._waiting: deque[asyncio.Future[Message]] = deque()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._retires = False

    # --- the loop's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.lost is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                _, answer = self.core.read(frame)
                future = self._waiting.popleft()
                if not future.done():  # else whoever asked has gone
                    future.set_result(answer)
            self._end_if_retired()
        except ClientError as error:
            self.end(str(error))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        reason = f"{self.core.broker}: {error or 'the broker closed the connection'}"
        self.end(reason, NotLetInError if isinstance(error, ssl.SSLError) else PeerLostError)

    # --- our side ---

    def send(self, request: Message, answer_class: type[R], version: int) -> asyncio.Future[R]:
        """Raises PeerLostError if the connection has ended."""
        if self.lost is not None or self._transport is None:
            raise type(self.lost)(*self.lost.args) if self.lost else PeerLostError(f"{self.core.broker}: not connected")
        data, _ = self.core.write(request, answer_class, version)
        future: asyncio.Future[Message] = self._loop.create_future()
        self._waiting.append(future)
        self._transport.write(data)
        return cast("asyncio.Future[R]", future)

    async def call(self, request: Message, answer_class: type[R], max_version: int | None = None) -> R:
        try:
            version = self.core.version_of(request, max_version)
        except VersionUnsupported as error:
            raise PeerLostError(str(error)) from error
        return await self.send(request, answer_class, version)

    @property
    def is_stale(self) -> bool:
        """Whether its login is about to end."""
        return self.core.is_stale(self._loop.time() - self._began)

    def retire(self) -> None:
        """Gets no more requests, and ends with the last answer."""
        self._retires = True
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._retires and not self._waiting:
            self.end("its login is about to end")

    def end(self, reason: str, kind: type[PeerLostError] = PeerLostError) -> None:
        if self.lost is not None:
            return
        self.lost = kind(reason)
        self.core.forget()
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_exception(kind(reason))
        self._ended(self)
