"""Who connects from an address with too many connections is turned away before anything is said, and costs nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, cast

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metrics import Metrics
from moldau.server import acceptor
from moldau.server.acceptor import Acceptor
from moldau.server.admission import Admission
from moldau.server.connection import Connection
from moldau.server.gate import LoginCounts
from moldau.server.tls_door import TlsDoor
from tests.support.loops import on_loop, until
from tests.unit.server.test_connection import Host

LISTENER, HERE = "PLAINTEXT", "127.0.0.1"
SETTINGS = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "max.connections.per.ip": "2"}


class Scene:
    """A bound socket, and who was let in of those that connected to it."""

    def __init__(self) -> None:
        self.early_ms = 0
        self.admission = Admission(BrokerConfig.load(SETTINGS), Metrics(), lambda: 0.0, lambda _: self.early_ms)
        self.entered: list[socket.socket] = []
        self.bound = socket.create_server((HERE, 0))
        self.bound.setblocking(False)
        self.outside: list[socket.socket] = []

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.bound.getsockname())
        client.setblocking(False)
        self.outside.append(client)
        return client

    def enter(self, client: socket.socket, address: str) -> None:
        assert address == HERE
        self.entered.append(client)

    def close(self) -> None:
        for each in (self.bound, *self.entered, *self.outside):
            each.close()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


@on_loop
async def test_an_address_has_its_connections_and_no_more() -> None:
    scene = Scene()
    accepting = Acceptor(LISTENER, scene.bound, scene.admission, scene.enter)
    first, second = scene.connect(), scene.connect()
    await until(lambda: len(scene.entered) == 2)
    third = scene.connect()
    await until(lambda: is_closed(third))
    assert len(scene.entered) == 2
    assert not is_closed(first)
    assert not is_closed(second)
    scene.admission.left(LISTENER, HERE)
    scene.connect()
    await until(lambda: len(scene.entered) == 3)
    accepting.close()
    scene.close()


@on_loop
async def test_who_comes_too_early_is_closed_later_and_holds_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "MOST_TURNED_AWAY", 1)
    scene = Scene()
    accepting = Acceptor(LISTENER, scene.bound, scene.admission, scene.enter)
    scene.early_ms = 3_600_000
    held = scene.connect()
    beyond = scene.connect()
    await until(lambda: is_closed(beyond))
    assert not is_closed(held)
    assert not scene.entered
    scene.early_ms = 0
    scene.connect()
    await until(lambda: scene.entered)
    accepting.close()
    assert is_closed(held)
    scene.early_ms = 1
    other = Acceptor(LISTENER, scene.bound, scene.admission, scene.enter)
    held = scene.connect()
    await until(lambda: is_closed(held))
    other.close()
    scene.close()


@on_loop
async def test_handshakes_that_nobody_finishes_count() -> None:
    scene = Scene()
    host = Host(lambda connection, frame: None)
    door = TlsDoor(
        LISTENER,
        lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        lambda: Connection(cast(Any, host), LISTENER),
        LoginCounts(Metrics(), LISTENER),
        scene.admission,
    )
    door.listen(scene.bound)
    first, second = scene.connect(), scene.connect()
    third = scene.connect()
    await until(lambda: is_closed(third))
    assert not is_closed(first)
    assert not is_closed(second)
    first.close()  # without a word: its place is free
    await until(lambda: scene.admission.refused_ms(LISTENER, HERE) is None)
    door.close()
    await asyncio.sleep(0)
    scene.close()
