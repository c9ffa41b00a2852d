"""Host names in settings and quotas that hold for addresses: looked up once, when they come, as Kafka does."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Mapping, Sequence

from moldau.server.appends import RunBlocking
from moldau.types.addresses import canonical

log = logging.getLogger("moldau.server.host_names")

LookUp = Callable[[str], Sequence[str]]
"""All addresses of a host. Raises OSError; may block."""


class HostNames:
    def __init__(
        self, look_up: LookUp, run_blocking: RunBlocking, told: Callable[[Mapping[str, Sequence[str]]], None]
    ) -> None:
        """`told` hears of all that were found, whenever there is a new one."""
        self._look_up = look_up
        self._run_blocking = run_blocking
        self._told = told
        self._found: dict[str, Sequence[str]] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def want(self, names: Collection[str]) -> None:
        """Begins to look up those of them that are not known."""
        for name in names:
            if name not in self._found and name not in self._looking:
                self._looking[name] = asyncio.ensure_future(self._look(name))

    async def known(self) -> None:
        """Returns when nothing is being looked up."""
        while self._looking:
            await asyncio.wait(self._looking.values())

    async def _look(self, name: str) -> None:
        try:
            self._found[name] = await self._run_blocking(lambda: self._look_up(name))
        except (OSError, UnicodeError) as error:  # no such host, or none that could be written in a request
            log.error(
                "the limit of %s holds for nobody (max.connections.per.ip.overrides, connection_creation_rate): %s",
                name,
                error,
            )
        else:
            self._told(self._found)
        finally:
            del self._looking[name]


def addresses_of(host: str) -> Sequence[str]:
    """As the system knows them."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(canonical(str(sockaddr[0])) for *_, sockaddr in found))
