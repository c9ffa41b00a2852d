"""Answers that are written piece by piece, while the request may still be coming in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

LAST_SECONDS: Final = 5.0


class Stream(Response):
    """`pieces` are sent as they come. `watches`: nobody else reads the request any more, and its end by the client
    ends the stream. Starlette's own kind would always read it, and swallow what a handler still wants. `cut`: there
    is an end, and it does not wait for long for a client that takes nothing."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        watches: bool,
        cut: asyncio.Event | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self._pieces = pieces
        self._watches = watches
        self._cut = cut
        self.init_headers(headers)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(gone(receive))] if self._watches else []
        if self._cut is not None:
            ends.append(asyncio.ensure_future(self._cut.wait()))
        try:
            await asyncio.wait({sending, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if self._cut is not None and self._cut.is_set():
                await asyncio.wait({sending}, timeout=LAST_SECONDS)
        finally:
            for task in (sending, *ends):
                if not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
            await self._pieces.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self._cut is not None and self._cut.is_set():
            return  # an answer without its end closes the connection, so that nothing more comes in over it
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
