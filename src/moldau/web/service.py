"""One service as a set of listeners on the running event loop: open, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from moldau.metrics import Metrics
from moldau.metrics.prometheus import CONTENT_TYPE, exposition
from moldau.web.api import NOBODY, READ, Api
from moldau.web.application import Application, to_json
from moldau.web.call import Call
from moldau.web.http import Http
from moldau.web.openapi import description, page
from moldau.web.passwords import Users, read_users
from moldau.web.settings import Listener, WebSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

JSON = ("application/json",)


class Service:
    def __init__(
        self,
        api: Api,
        settings: WebSettings,
        metrics: Metrics,
        wall_clock: Callable[[], float],
        ready: Callable[[], str | None] = lambda: None,
        drains: Callable[[], None] = lambda: None,
    ) -> None:
        """`ready` says what the service still waits for; None when it serves. `drains` is called when it begins to
        stop: streams without an end have to end then."""
        self.settings = settings
        self.listeners: tuple[Listener, ...] = ()
        """With the ports that were really taken, once it is open."""
        self._ready = ready
        self._drains = drains
        self._draining = False
        self._stopped = asyncio.Event()
        self._servers: list[Quiet] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._metrics = metrics
        users = Users(read_users(settings.password_file)) if settings.password_file else None
        add_common(api, self, login=users is not None)
        self.application = Application(api, settings, users, metrics, wall_clock)

    async def __aenter__(self) -> Service:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(self) -> None:
        for warning in self.settings.warnings_of_readers():
            log.warning("%s", warning)
        for listener in self.settings.open_to_everybody():
            log.warning(
                "%s is open to every machine that reaches this one, and nobody has to log in: set "
                "authentication.method=BASIC, or listeners=%s",
                listener,
                Listener(listener.scheme, "localhost", listener.port),
            )
        app = with_cors(self.application, self.settings)
        found = []
        for listener in self.settings.listeners:
            sock = bound(listener)
            port = sock.getsockname()[1]
            found.append(Listener(listener.scheme, listener.host, port))
            server = Quiet(self._config(app, listener))
            self._servers.append(server)
            self._tasks.append(asyncio.create_task(server.serve(sockets=[sock])))
        while not all(server.started for server in self._servers):
            failed = [task for task in self._tasks if task.done()]
            if failed:
                failed[0].result()
                raise RuntimeError("a listener ended at once")
            await asyncio.sleep(0.005)
        self.listeners = tuple(found)

    def _config(self, app: ASGIApp, listener: Listener) -> uvicorn.Config:
        more: dict[str, Any] = {}
        if listener.scheme == "https":
            context = self.settings.tls()
            more["ssl_context_factory"] = lambda *_: context
        return uvicorn.Config(
            app,
            http=Http,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, self.settings.number("shutdown.graceful.ms") // 1000),
            timeout_keep_alive=60,
            h11_max_incomplete_event_size=64 * 1024,
            **more,
        )

    @property
    def not_ready(self) -> str | None:
        return "it is stopping" if self._draining else self._ready()

    @property
    def metrics_text(self) -> str:
        return exposition(self._metrics)

    def stop(self) -> None:
        self._stopped.set()

    async def run_until_stopped(self) -> None:
        """SIGTERM and SIGINT end it; what is under way is finished."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            await self._stopped.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        await self.close()

    async def close(self) -> None:
        if not self._draining:
            self._draining = True
            self._drains()
        for server in self._servers:
            server.should_exit = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._servers.clear()
        self._tasks.clear()


class Quiet(uvicorn.Server):
    """Signals are the service's own affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(listener: Listener) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named: an answer is written in two pieces, and the
    # second would wait for the client to acknowledge the first, up to 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listener.host, listener.port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"{listener}: {error.strerror or error}") from None
    sock.setblocking(False)
    return sock


def with_cors(app: Application, settings: WebSettings) -> ASGIApp:
    origins = split(settings.text("access.control.allow.origin"))
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=split(settings.text("access.control.allow.methods")),
        allow_headers=split(settings.text("access.control.allow.headers")),
    )


def split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def add_common(api: Api, service: Service, *, login: bool) -> None:
    described: list[bytes] = []

    async def health(call: Call) -> object:
        """Whether the process answers"""
        return {"status": "UP"}

    if not api.declares("GET", "/health"):  # Connect has one of its own
        api.get("/health", role=NOBODY, produces=JSON, tag="service", answer={"type": "object"})(health)

    @api.get("/ready", role=NOBODY, produces=JSON, tag="service", answer={"type": "object"}, errors=(503,))
    async def ready(call: Call) -> object:
        """Whether it serves; 503 says what it waits for"""
        problem = service.not_ready
        body = {"status": "UP"} if problem is None else {"status": "DOWN", "reason": problem}
        return Response(to_json(body), 200 if problem is None else 503, media_type=JSON[0])

    @api.get("/metrics", role=READ, produces=("text/plain", *JSON), tag="service", answer={"type": "string"})
    async def metrics(call: Call) -> object:
        """Metrics as Prometheus reads them"""
        return PlainTextResponse(service.metrics_text, headers={"content-type": CONTENT_TYPE})

    @api.get("/openapi.json", role=NOBODY, produces=JSON, tag="service", answer={"type": "object"})
    async def openapi(call: Call) -> object:
        """This description"""
        if not described:
            described.append(to_json(description(api, login=login)))
        return Response(described[0], media_type=JSON[0])

    @api.get("/docs", role=NOBODY, produces=("text/html", *JSON), tag="service", answer={"type": "string"})
    async def docs(call: Call) -> object:
        """The endpoints, for people"""
        return HTMLResponse(page(api))
