"""Backends by user: one for all, or one for each name and password that requests bring, bounded in number and time."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from moldau.rest import errors
from moldau.rest.backend import Backend, Login
from moldau.rest.settings import RestSettings
from moldau.web import ApiError, Call
from moldau.web.application import credentials


class Backends:
    def __init__(self, settings: RestSettings, monotonic: Callable[[], float]) -> None:
        self.settings = settings
        self._monotonic = monotonic
        self.threads = ThreadPoolExecutor(settings.number("consumer.threads"), "rest-consumer")
        self._shared = Backend(settings, self.threads, monotonic)
        self._per_user = settings.flag("client.credentials.from.http")
        self._key = os.urandom(32)
        self._opened: dict[bytes, tuple[Backend, float]] = {}
        self._opening: dict[bytes, asyncio.Lock] = {}

    def __len__(self) -> int:
        return len(self._opened)

    @property
    def shared(self) -> Backend:
        """The one that needs no login, or logs in with the proxy's own."""
        return self._shared

    async def of(self, call: Call) -> Backend:
        if not self._per_user:
            return self._shared
        name, password = credentials(call.request.headers.get("authorization"))
        if not name:
            raise errors.no_login(self.settings.web.text("authentication.realm"))
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        now = self._monotonic()
        known = self._opened.get(digest)
        if known is None:
            async with self._opening.setdefault(digest, asyncio.Lock()):
                try:
                    known = self._opened.get(digest) or (await self._open(Login(name, password)), now)
                finally:
                    self._opening.pop(digest, None)
        self._opened[digest] = known[0], now
        return known[0]

    async def _open(self, login: Login) -> Backend:
        await self.sweep()
        if len(self._opened) >= self.settings.number("client.credentials.max"):
            raise ApiError(503, "too many users at a time (client.credentials.max)", headers={"Retry-After": "5"})
        backend = Backend(self.settings, self.threads, self._monotonic, login)
        try:
            await backend.cluster_id()
        except errors.RestError as error:
            await asyncio.to_thread(backend.close)
            if error.code in (40101, 50003) and await self._refused(login):
                raise errors.no_login(self.settings.web.text("authentication.realm"), "is it right?") from None
            raise
        return backend

    async def _refused(self, login: Login) -> bool:
        """librdkafka says only that nobody answered; our own client says why."""
        backend = Backend(self.settings, self.threads, self._monotonic, login)
        try:
            await backend.wire(lambda cluster: cluster.metadata([]))
        except errors.RestError as error:
            return error.code == 40101
        return False

    async def sweep(self) -> None:
        """Closes the clients of users who have been silent for long; where there are too many, the oldest too. Those
        whose streams or consumer instances live stay."""
        limit = self.settings.number("client.credentials.max")
        idle = self.settings.seconds("client.credentials.idle.ms")
        now = self._monotonic()
        by_age = sorted(self._opened.items(), key=lambda each: each[1][1])
        spare = len(by_age) - limit + 1
        for digest, (backend, used) in by_age:
            if not backend.busy and (now - used > idle or spare > 0):
                spare -= 1
                del self._opened[digest]
                await asyncio.to_thread(backend.close)

    async def close(self) -> None:
        backends = [self._shared, *(backend for backend, _ in self._opened.values())]
        self._opened.clear()
        await asyncio.gather(*(asyncio.to_thread(backend.close) for backend in backends))
        self.threads.shutdown(wait=False)
