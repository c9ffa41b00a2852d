"""Answers that are written piece by piece, while the request may still be coming in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Stream(Response):
    """`pieces` are sent as they come. `watches`: nobody else reads the request any more, and its end by the client
    ends the stream. Starlette's own kind would always read it, and swallow what a handler still wants."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        watches: bool,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self._pieces = pieces
        self._watches = watches
        self.init_headers(headers)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        watching = asyncio.ensure_future(gone(receive)) if self._watches else None
        try:
            await asyncio.wait({sending, *([watching] if watching else [])}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, watching):
                if task is not None and not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
            await self._pieces.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
