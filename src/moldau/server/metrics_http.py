"""Metrics over HTTP for Prometheus, on the addresses of `metrics.listeners`: GET /metrics, and nothing else.

A request line and headers of at most some kilobytes, one answer, and the connection is closed: no more of HTTP is
needed, and no more of it is open to the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from moldau.config.metrics_listeners import HttpAddress
from moldau.metrics import Metrics
from moldau.metrics.prometheus import CONTENT_TYPE, exposition_in_turns
from moldau.work.turns import run

log = logging.getLogger("moldau.server.metrics")

MAX_HEAD_BYTES = 16 * 1024
REQUEST_SECONDS = 10.0
PATHS = (b"/metrics", b"/")


class MetricsServer:
    def __init__(self, metrics: Metrics, before: Callable[[], Awaitable[None]]) -> None:
        """`before` fetches what has to be asked of others first."""
        self._metrics = metrics
        self._before = before
        self._servers: list[asyncio.Server] = []

    async def listen(self, listeners: Sequence[HttpAddress]) -> list[str]:
        """The addresses that are served. Raises OSError."""
        addresses = []
        for listener in listeners:
            try:
                server = await asyncio.start_server(
                    self._serve, listener.host or None, listener.port, limit=MAX_HEAD_BYTES
                )
            except OSError as error:
                raise OSError(error.errno, f"metrics.listeners={listener}: {error.strerror}") from error
            self._servers.append(server)
            host, port = server.sockets[0].getsockname()[:2]
            addresses.append(f"http://{host}:{port}/metrics")
        return addresses

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a request for metrics failed: %s", error)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return answer("405 Method Not Allowed", "only GET\n")
        if path not in PATHS:
            return answer("404 Not Found", "metrics are at /metrics\n")
        await self._before()
        text = await run(exposition_in_turns(self._metrics))
        return answer("200 OK", text, CONTENT_TYPE, with_body=method == b"GET")


def answer(status: str, text: str, content_type: str = "text/plain; charset=utf-8", *, with_body: bool = True) -> bytes:
    body = text.encode()
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "".join(f"{line}\r\n" for line in [*head, ""]).encode() + (body if with_body else b"")
