"""The proxies between brokers leave nothing open in the process of the test that uses them."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.cli.cluster.local_cluster import free_ports
from tests.faults.proxies import HUB, STOP_SECONDS, Proxies, known_host
from tests.support.waiting import wait_until

BROKER = 90
MORE_THAN_THE_KERNEL_TAKES = 1 << 24


class CalledUpon(Proxies):
    """Somebody connects when their end has begun, some turns of their loop later."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self._turns = turns
        self.there: tuple[str, int] | None = None
        self.client = socket.socket()

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        both_begin = threading.Event()
        self._loop.call_soon_threadsafe(both_begin.wait)
        asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._loop.call_soon_threadsafe(self._connect, self._turns)
        both_begin.set()
        asked.result(STOP_SECONDS)

    def _connect(self, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._connect, turns - 1)
        else:
            self.client.connect_ex(self.there)


@contextmanager
def nothing_stays_open() -> Iterator[None]:
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(each.message) for each in told] == []


@contextmanager
def silent_server() -> Iterator[tuple[str, int]]:
    """Connections wait in the kernel, and what comes on them is never read."""
    with socket.create_server((HUB, 0)) as server:
        yield server.getsockname()


def relayed(proxies: Proxies, server: tuple[str, int]) -> tuple[str, int]:
    host, (port,) = known_host(BROKER), free_ports(1)
    proxies._relay((host, port), server, source=host, target=HUB)
    wait_until(lambda: listens(host, port), "the proxy listens")
    return host, port


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("turns", range(5))
def test_what_is_being_accepted_at_the_end_is_closed(turns: int) -> None:
    with nothing_stays_open(), silent_server() as server, CalledUpon(turns) as proxies:
        proxies.there = relayed(proxies, server)
    proxies.client.close()


def test_what_was_closed_with_something_unsent_is_closed() -> None:
    with nothing_stays_open(), silent_server() as server, Proxies() as proxies:

        async def to_the_server() -> list[Any]:
            return [each for each in proxies._connections if each.get_extra_info("peername") == server]

        def passed_on() -> list[Any]:
            return asyncio.run_coroutine_threadsafe(to_the_server(), proxies._loop).result(STOP_SECONDS)

        there = relayed(proxies, server)
        wait_until(lambda: all(each.is_closing() for each in passed_on()), "nobody is connected")
        client = socket.create_connection(there)
        (connection,) = wait_until(lambda: [each for each in passed_on() if not each.is_closing()], "it is passed on")
        proxies._loop.call_soon_threadsafe(connection.write, bytes(MORE_THAN_THE_KERNEL_TAKES))
        client.close()
        wait_until(connection.is_closing, "it is closed behind")
        del connection
