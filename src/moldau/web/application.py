"""The ASGI application: routes, logs in, calls the handler, turns what it returns or raises into an answer, and logs.

The access log is one JSON object a line: when, who, what, status, bytes, milliseconds.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from moldau.metrics import Metrics
from moldau.web.api import NOBODY, Api, Endpoint, cut
from moldau.web.call import Call
from moldau.web.errors import ApiError
from moldau.web.passwords import User, Users
from moldau.web.settings import WebSettings

log = logging.getLogger(__name__)

LARGEST_QUERY: Final = 64 * 1024
CLIENT_CLOSED: Final = 499
GROUP: Final = "moldau.web"
ALWAYS_ANSWERED: Final = frozenset({"/health", "/ready"})
"""However many requests are under way."""


class Application:
    def __init__(
        self, api: Api, settings: WebSettings, users: Users | None, metrics: Metrics, wall_clock: Callable[[], float]
    ) -> None:
        self.api = api
        self.settings = settings
        self.users = users
        self.under_way = 0
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._access = logging.getLogger(settings.text("request.logger.name"))
        self._largest_body = settings.number("max.request.bytes")
        self._body_seconds = settings.number("request.body.timeout.ms") / 1000
        self._most = settings.number("max.concurrent.requests")
        self._open = frozenset(settings.list("authentication.skip.paths"))
        metrics.gauge(lambda: self.under_way, GROUP, "Requests", "UnderWay")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = perf_counter()
        exchange = Exchange(send)
        request = Request(scope, receive)
        self.under_way += 1
        try:
            response = await self._answered(request, exchange)
            await response(scope, receive, exchange.send)
        except (ClientDisconnect, ConnectionError):
            exchange.status = exchange.status or CLIENT_CLOSED
        finally:
            self.under_way -= 1
            self._told(request, exchange, (perf_counter() - begun) * 1000)

    async def _answered(self, request: Request, exchange: Exchange) -> Response:
        endpoint = None
        try:
            if self.under_way > self._most and request.url.path not in ALWAYS_ANSWERED:
                raise ApiError(503, "too many requests at a time", headers={"Retry-After": "1"})
            endpoint, call = await self._call(request, exchange)
            return self._response(await endpoint.handler(call), endpoint, request)
        except ApiError as error:
            return self._refusal(error, endpoint, request)
        except (ClientDisconnect, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return self._refusal(ApiError(500, "Internal Server Error"), endpoint, request)

    async def _call(self, request: Request, exchange: Exchange) -> tuple[Endpoint, Call]:
        segments = cut(request.scope.get("raw_path") or request.url.path.encode())
        given = query_of(request.scope["query_string"])
        if self.api.rewrite is not None:
            segments = self.api.rewrite(segments, given)
        endpoint, path = self.api.find(request.method, segments)
        exchange.route = endpoint.path
        user = await self._logged_in(request, endpoint)
        if user is not None:
            exchange.user = user.name
            if not user.may(endpoint.role):
                raise ApiError(403, f"User {user.name} is denied: the role {endpoint.role} is needed", 40301)
        self._check_accepted(request, endpoint)
        query = {each.name: each.read(given.get(each.name)) for each in endpoint.query}
        media_types = endpoint.consumes or self.api.media_types
        limits = self._largest_body, media_types, self._body_seconds
        return endpoint, Call(request, endpoint, path, query, exchange.user, *limits)

    async def _logged_in(self, request: Request, endpoint: Endpoint) -> User | None:
        if self.users is None or endpoint.role == NOBODY or endpoint.path in self._open:
            return None
        name, password = credentials(request.headers.get("authorization"))
        user = self.users.known(name, password) or await asyncio.to_thread(self.users.check, name, password)
        if user is None:
            realm = self.settings.text("authentication.realm")
            raise ApiError(401, "Unauthorized", headers={"WWW-Authenticate": f'Basic realm="{realm}"'})
        return user

    def _check_accepted(self, request: Request, endpoint: Endpoint) -> None:
        if accepted(request.headers.get("accept"), self._produced(endpoint)) is None:
            raise ApiError(406, "HTTP 406 Not Acceptable")

    def _produced(self, endpoint: Endpoint | None) -> tuple[str, ...]:
        return (endpoint.produces if endpoint else None) or self.api.media_types

    def _response(self, result: object, endpoint: Endpoint, request: Request) -> Response:
        if isinstance(result, Response):
            return result
        kind = accepted(request.headers.get("accept"), self._produced(endpoint))
        status = endpoint.status
        return Response(b"" if status == 204 else to_json(result), status, media_type=kind)

    def _refusal(self, error: ApiError, endpoint: Endpoint | None, request: Request) -> Response:
        kind = accepted(request.headers.get("accept"), self.api.media_types) or "application/json"
        return Response(to_json(error.body), error.status, error.headers, kind)

    def _told(self, request: Request, exchange: Exchange, milliseconds: float) -> None:
        route = exchange.route or "unknown"
        tags = {"method": request.method, "path": route, "status": str(exchange.status)}
        self._metrics.counter(GROUP, "Requests", "RequestsPerSec", **tags).value += 1
        self._metrics.histogram(GROUP, "Requests", "TimeMs", method=request.method, path=route).record(milliseconds)
        if self._access.isEnabledFor(logging.INFO):
            line = {
                "at": round(self._wall_clock(), 3),
                "client": request.client.host if request.client else None,
                "user": exchange.user,
                "method": request.method,
                "path": request.url.path,
                "query": request.url.query,
                "status": exchange.status,
                "bytes": exchange.size,
                "ms": round(milliseconds, 3),
            }
            self._access.info(json.dumps(line))


class Exchange:
    """What is told of a request when it is over."""

    __slots__ = ("_send", "route", "size", "status", "user")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.size = 0
        self.route: str | None = None
        self.user: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
        await self._send(message)


def to_json(value: object) -> bytes:
    """What UTF-8 cannot say is escaped: half of a pair of surrogates, as it was in a request that is refused for it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def query_of(raw: bytes) -> dict[str, str]:
    if len(raw) > LARGEST_QUERY:
        raise ApiError(414, "the query is too long")
    try:
        return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError:
        raise ApiError(400, "the query cannot be read") from None


def credentials(header: str | None) -> tuple[str, str]:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def accepted(header: str | None, produced: tuple[str, ...]) -> str | None:
    """The first type that the client likes best; the service's first one where it has no wish."""
    if not header or produced == ("*/*",):
        return produced[0] if produced != ("*/*",) else "application/octet-stream"
    best: tuple[float, int, str] | None = None
    for part in header.split(","):
        wanted, *parameters = [piece.strip().lower() for piece in part.split(";")]
        quality = quality_of(parameters)
        matching = [kind for kind in produced if fits(kind, wanted)]
        if matching and quality > 0 and (best is None or (quality, specificity(wanted)) > best[:2]):
            best = (quality, specificity(wanted), matching[0])
    return best[2] if best else None


def fits(kind: str, wanted: str) -> bool:
    main = kind.split("/")[0]
    return wanted in ("*/*", kind, f"{main}/*")


def specificity(wanted: str) -> int:
    return 2 - wanted.count("*")


def quality_of(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
