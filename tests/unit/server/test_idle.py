"""Who says nothing for `connections.max.idle.ms` is closed, and nobody else; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

from moldau.config.broker import BrokerConfig
from moldau.metrics import Metrics
from moldau.server.connection import AnswerGate, Connection, Frame, Slot
from moldau.server.listeners import Host
from tests.fakes.unlimited import Unlimited
from tests.simulation.scheduler import NodeLoop, Scheduler
from tests.unit.server.test_connection import Transport


class Client:
    def __init__(self, host: Host) -> None:
        self.transport = Transport()
        self.connection = Connection(host, "PLAINTEXT")
        self.connection.connection_made(cast(Any, self.transport))

    def ask(self) -> None:
        request = pack(">i", 4) + b"ping"
        buffer = self.connection.get_buffer(-1)
        buffer[: len(request)] = request
        self.connection.buffer_updated(len(request))


class Scene:
    def __init__(self, idle_ms: int) -> None:
        self.scheduler = Scheduler(1)
        self.loop = NodeLoop(self.scheduler, "broker")
        self.slots: list[Slot] = []
        config = BrokerConfig.load({"connections.max.idle.ms": str(idle_ms)})
        services = SimpleNamespace(run_blocking=None, metrics=Metrics(), quotas=Unlimited(), look_up=None)
        self.host = self.loop.call(lambda: Host(config, self._dispatch, cast(Any, services), AnswerGate()))

    def _dispatch(self, connection: Connection, frame: Frame) -> None:
        frame.release()
        self.slots.append(connection.reserve())

    def connect(self) -> Client:
        return cast(Client, self.loop.call(lambda: Client(self.host)))

    def ask(self, client: Client) -> None:
        self.loop.call(client.ask)

    def answer(self) -> None:
        self.loop.call(lambda: self.slots.pop().answer([b"pong"]))

    def wait(self, seconds: float) -> None:
        self.scheduler.run_until(lambda: False, self.scheduler.now + seconds)
        self.loop.call(lambda: self.host.sweep_idle(self.loop.time()))


@contextmanager
def idle_after(milliseconds: int) -> Iterator[Scene]:
    scene = Scene(milliseconds)
    try:
        yield scene
    finally:
        scene.loop.close()


def test_an_idle_client_is_closed_and_an_active_one_is_not() -> None:
    with idle_after(10_000) as scene:
        idle, active = scene.connect(), scene.connect()
        for _ in range(2):
            scene.wait(4.9)
            scene.ask(active)
            scene.answer()
        assert not idle.transport.closed
        scene.wait(0.4)
        assert idle.transport.closed and not active.transport.closed
        scene.wait(9)
        assert not active.transport.closed
        scene.wait(1)
        assert active.transport.closed


def test_who_waits_for_an_answer_is_not_idle() -> None:
    with idle_after(10_000) as scene:
        client = scene.connect()
        scene.ask(client)
        scene.wait(60)
        assert not client.transport.closed
        scene.answer()
        scene.wait(9)
        assert not client.transport.closed, "the answer is a sign of life, too"
        scene.wait(2)
        assert client.transport.closed


def test_without_a_limit_nobody_is_closed() -> None:
    with idle_after(-1) as scene:
        client = scene.connect()
        scene.wait(1_000_000)
        assert not client.transport.closed
