"""What the gate keeps of clients that it does not know yet."""

from __future__ import annotations

import asyncio
from struct import pack
from typing import Any, cast

import pytest

from moldau.metrics import Metrics
from moldau.security.authentication.exchange import Identity, LoginRefused, NotYet
from moldau.security.authentication.login import LoginRules
from moldau.server.connection import Connection
from moldau.server.gate import STRANGERS_READ_BYTES, Gate, LoginCounts
from moldau.server.logins import GateSettings
from moldau.wire.apis import ApiKey
from moldau.wire.codec import encode
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest
from moldau.wire.schema import Message
from tests.simulation.scheduler import NodeLoop, Scheduler
from tests.support.loops import on_loop, until
from tests.unit.server.test_connection import Host, Transport

TOKEN_BYTES = 40_000


class Slow:
    """A mechanism that needs something before it can answer."""

    def __init__(self, needed: asyncio.Future[None]) -> None:
        self._needed = needed
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        if not self._needed.done():
            raise NotYet(lambda: asyncio.shield(self._needed))
        self.identity = Identity("alice")
        return b"welcome"


class Strict:
    """A mechanism that lets nobody in."""

    identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        raise LoginRefused("no such user")


class Scene:
    def __init__(self, failure_delay_ms: int = 0) -> None:
        self.needed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.host = Host(lambda connection, frame: frame.release())
        rules = LoginRules({"SLOW": lambda: Slow(self.needed), "STRICT": Strict})
        settings = GateSettings(rules, 500_000, failure_delay_ms)
        self.gate = Gate(cast(Any, self.host), "CLIENTS", settings, LoginCounts(Metrics(), "CLIENTS"), lambda: 0)
        self.connection, self.transport = self.gate.new_connection(), Transport()
        self.connection.connection_made(cast(Any, self.transport))

    def send(self, key: ApiKey, version: int, message: Message, behind: bytes = b"") -> None:
        frame = pack(">hhih", key, version, 1, 1) + b"c" + encode(message, version)
        receive(self.connection, pack(">i", len(frame)) + frame + behind)

    def begin(self, mechanism: str = "SLOW", behind: bytes = b"") -> None:
        self.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))
        self.send(ApiKey.SASL_AUTHENTICATE, 0, SaslAuthenticateRequest(auth_bytes=b"x" * TOKEN_BYTES), behind)


def receive(connection: Connection, data: bytes) -> int:
    """As a socket is read, until the connection does not want more; how much of it is left."""
    transport = cast(Transport, connection._transport)
    while data and not transport.reading_paused:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]
    return len(data)


@on_loop
async def test_a_token_that_waits_counts_as_received() -> None:
    scene = Scene()
    scene.begin()
    assert scene.gate.intake.used == TOKEN_BYTES
    scene.needed.set_result(None)
    await until(lambda: scene.gate.intake.used == 0)
    assert scene.connection.client.principal == "User:alice"


@on_loop
async def test_little_is_kept_of_what_is_sent_behind_a_token_that_waits() -> None:
    scene = Scene()
    scene.begin()
    versions = pack(">ihhih", 11, ApiKey.API_VERSIONS, 0, 7, 1) + b"c"
    left = receive(scene.connection, versions * 4000)
    assert left > 50_000 and scene.transport.reading_paused
    assert 0 < len(scene.connection._stash) <= STRANGERS_READ_BYTES
    scene.needed.set_result(None)
    await until(lambda: not scene.transport.reading_paused)
    assert scene.connection.requests_waiting == 0


@on_loop
async def test_a_login_that_breaks_ends_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.begin()
    scene.needed.set_exception(RuntimeError("a bug"))
    await until(lambda: scene.transport.closed and not scene.gate.intake.used)
    assert "a bug" in caplog.text


@on_loop
async def test_the_token_of_a_client_that_has_gone_is_forgotten() -> None:
    scene = Scene()
    scene.begin()
    scene.connection.connection_lost(None)
    await until(lambda: scene.gate.intake.used == 0)


def test_a_login_that_fails_is_answered_after_its_delay_and_closed() -> None:
    """`connection.failed.authentication.delay.ms`, in virtual time: whoever guesses passwords has to wait."""
    scheduler = Scheduler(1)
    loop = NodeLoop(scheduler, "broker")
    scene = loop.call(lambda: Scene(failure_delay_ms=5000))
    loop.call(lambda: scene.begin("STRICT"))
    begun, answers = scheduler.now, len(scene.transport.sent)
    scheduler.run_until(lambda: False, begun + 4.9)
    assert len(scene.transport.sent) == answers and not scene.transport.closed
    loop.call(lambda: scene.send(ApiKey.SASL_AUTHENTICATE, 0, SaslAuthenticateRequest(auth_bytes=b"again")))
    scheduler.run_until(lambda: False, begun + 5.1)
    assert b"invalid credentials with SASL mechanism STRICT" in bytes(scene.transport.sent)
    assert scene.transport.closed
    assert not scheduler.problems
    loop.close()


@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_is_kept_of_what_is_sent_behind_a_login_that_fails(at_once: bool) -> None:
    """There may be thousands of them, and no budget counts what a connection has to look at later."""
    scheduler = Scheduler(1)
    loop = NodeLoop(scheduler, "broker")
    scene = loop.call(lambda: Scene(failure_delay_ms=5000))
    loop.call(lambda: scene.begin("STRICT", b"more" * 1000 if at_once else b""))
    if not at_once:
        loop.call(lambda: receive(scene.connection, b"more" * 1000))
    assert scene.transport.reading_paused
    assert (scene.connection._stash, scene.connection.requests_waiting) == (b"", 0)
    answers = len(scene.transport.sent)
    scheduler.run_until(lambda: False, scheduler.now + 6)
    assert len(scene.transport.sent) > answers and scene.transport.closed
    assert not scheduler.problems
    loop.close()


def test_a_client_that_goes_before_it_is_told_is_forgotten() -> None:
    scheduler = Scheduler(1)
    loop = NodeLoop(scheduler, "broker")
    scene = loop.call(lambda: Scene(failure_delay_ms=5000))
    loop.call(lambda: scene.begin("STRICT"))
    loop.call(lambda: scene.connection.connection_lost(None))
    scheduler.run_until(lambda: False, scheduler.now + 6)
    assert not scheduler.problems and scene.host.gone
    loop.close()
