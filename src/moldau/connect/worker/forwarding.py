"""A request that another worker has to answer: handed on, and its answer handed back."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from moldau.connect.worker.errors import NotLeader, rebalancing
from moldau.connect.worker.signing import ALGORITHM, SIGNATURE
from moldau.connect.worker.topics import TopicUnavailable
from moldau.web import ApiError, Call

FORWARDED = "forward"
PASSED_ON = ("accept", "authorization", "content-type", SIGNATURE, ALGORITHM)
SECONDS = 90.0


class Forwarder:
    def __init__(
        self,
        leader: Callable[[], str | None] = lambda: None,
        owner: Callable[[str], str | None] = lambda _: None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """The addresses of the leader, and of the worker that has a connector."""
        self._leader = leader
        self._owner = owner
        self._tls = tls

    async def forward(self, call: Call, to_owner_of: str | None = None) -> Response:
        url = self._leader() if to_owner_of is None else self._owner(to_owner_of)
        request = call.request
        # One hop: who is asked again and is not the leader either has an older view.
        if url is None or request.query_params.get(FORWARDED) is not None:
            raise rebalancing()
        query = "&".join(part for part in (request.url.query, f"{FORWARDED}=false") if part)
        path = request.scope["raw_path"].decode("latin-1")
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        body = await call.body()
        return await asyncio.to_thread(send, url, request.method, f"{path}?{query}", headers, body, self._tls)


def to_leader(forwarder: Forwarder, call: Call, action: Callable[[], object]) -> Any:
    """Runs what blocks; hands the request on where another worker has to do it."""

    async def run() -> object:
        try:
            return await blocking(action)
        except NotLeader:
            return await forwarder.forward(call)

    return run()


async def blocking(action: Callable[[], object]) -> object:
    try:
        return await asyncio.to_thread(action)
    except TopicUnavailable as error:
        raise ApiError(500, str(error)) from None


def send(
    url: str, method: str, target: str, headers: dict[str, str], body: bytes, tls: ssl.SSLContext | None = None
) -> Response:
    """`tls` for addresses that begin with https; the system's trust without it."""
    where = urlsplit(url)
    host, port = where.hostname or "", where.port
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    if where.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=tls)
    try:
        connection.request(method, target, body or None, headers)
        answer = connection.getresponse()
        content = answer.read()
        passed = {name: value for name, value in answer.getheaders() if name.lower() in ("location", "content-type")}
        return Response(content, answer.status, passed)
    except (OSError, http.client.HTTPException) as error:
        raise ApiError(500, f"IO Error trying to forward REST request: {error}") from None
    finally:
        connection.close()
