"""The door with TLS, over pairs of sockets: who becomes a connection, who does not, and what is let go of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.metrics import Metrics
from moldau.security.authentication.login import LoginRules
from moldau.server import tls_door
from moldau.server.gate import Gate, LoginCounts
from moldau.server.logins import GateSettings
from moldau.server.tls_door import NamedByCertificate, TlsDoor, reason_of
from moldau.server.unfinished import Unfinished
from tests.support.loops import on_loop, until
from tests.unit.server.test_connection import Host, Transport
from tests.unit.tls.test_stores import DATA

LISTENER, ADDRESS = "SAFE", "192.0.2.1"


class Connection(asyncio.Protocol):
    """What the door makes of a client that has shaken hands."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(address="")
        self.has_begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.has_begun = True
        self.version = transport.get_extra_info("ssl_object").version()
        self.transport = transport


class Admission:
    def __init__(self) -> None:
        self.left_by: list[str] = []

    def left(self, listener: str, *_: str) -> None:
        self.left_by.append(listener)


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "broker.pem")
    return context


class Scene:
    def __init__(self) -> None:
        self.admission, self.counts = Admission(), LoginCounts(Metrics(), LISTENER)
        self.connections: list[Connection] = []
        self.context = server_context()
        self.contexts_asked = 0
        self.door = TlsDoor(LISTENER, self._context, self._connection, self.counts, cast(Any, self.admission))
        self._theirs: list[socket.socket] = []
        self._transports: list[asyncio.Transport] = []

    def _context(self) -> ssl.SSLContext:
        self.contexts_asked += 1
        return self.context

    def _connection(self) -> Any:
        self.connections.append(Connection())
        return self.connections[-1]

    async def comes(self) -> socket.socket:
        """Somebody who has said nothing yet; as the acceptor hands it over, and a turn of the loop later."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._theirs.append(theirs)
        self.door._begin(ours, ADDRESS)
        await asyncio.sleep(0)
        return theirs

    async def shakes_hands(self, theirs: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connecting = asyncio.get_running_loop().create_connection
        transport, _ = await connecting(asyncio.Protocol, sock=theirs, ssl=context, server_hostname="localhost")
        self._transports.append(transport)

    def end(self) -> None:
        for transport in self._transports:
            transport.abort()
        for connection in self.connections:
            if connection.has_begun:
                cast(asyncio.Transport, connection.transport).abort()
        for theirs in self._theirs:
            theirs.close()


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    made = Scene()
    try:
        yield made
    finally:
        made.end()


async def is_closed(theirs: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        return await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
    return True


@on_loop
async def test_who_has_shaken_hands_is_a_connection() -> None:
    with scene() as here:
        theirs = await here.comes()
        await here.shakes_hands(theirs)
        (connection,) = here.connections
        await until(lambda: connection.has_begun)
        assert connection.version == "TLSv1.3"
        await asyncio.sleep(0)
        assert here.admission.left_by == [] and here.counts.failed.value == 0


@on_loop
async def test_who_speaks_no_tls_is_counted_and_gives_its_place_back() -> None:
    with scene() as here:
        theirs = await here.comes()
        await asyncio.get_running_loop().sock_sendall(theirs, b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: here.admission.left_by)
        assert here.admission.left_by == [LISTENER] and here.counts.failed.value == 1
        assert not here.connections[0].has_begun


@on_loop
async def test_who_goes_away_before_the_end_gives_its_place_back() -> None:
    with scene() as here:
        (await here.comes()).close()
        await until(lambda: here.admission.left_by)
        assert here.admission.left_by == [LISTENER] and here.counts.failed.value == 1


@on_loop
async def test_the_certificates_of_the_moment_count() -> None:
    with scene() as here:
        theirs = await here.comes()
        here.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # without a certificate nobody can be served
        other = await here.comes()
        await here.shakes_hands(theirs)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await here.shakes_hands(other)
        await until(lambda: here.counts.failed.value)
        assert here.contexts_asked == 2


@on_loop
async def test_of_too_many_who_have_not_finished_the_oldest_goes() -> None:
    with pytest.MonkeyPatch.context() as patch, scene() as here:
        patch.setattr(tls_door, "MAX_UNFINISHED", 2)
        first, second, third = [await here.comes() for _ in range(3)]
        assert await is_closed(first)
        await until(lambda: here.admission.left_by)
        assert here.admission.left_by == [LISTENER]
        for theirs in (second, third):
            await here.shakes_hands(theirs)
        assert here.counts.failed.value == 0, "who was given up has not failed"


@on_loop
async def test_thousands_who_do_not_finish_are_told_of_once() -> None:
    log = logging.getLogger("moldau.server.tls_door")
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        with pytest.MonkeyPatch.context() as patch, scene() as here:
            patch.setattr(tls_door, "MAX_UNFINISHED", 2)
            for _ in range(6):
                await here.comes()
            assert [each.levelname for each in told] == ["WARNING"]
            here.door.close()
            await until(lambda: len(here.admission.left_by) == 6)
    finally:
        log.removeHandler(handler)


@on_loop
async def test_the_end_of_the_door_is_the_end_of_those_before_it() -> None:
    with scene() as here:
        waiting = [await here.comes() for _ in range(3)]
        here.door.close()
        for theirs in waiting:
            assert await is_closed(theirs)
        assert here.admission.left_by == [LISTENER] * 3


@pytest.mark.parametrize(("most", "seconds", "given_up"), [(2, 1000.0, 1), (9, 0.05, 3)])
def test_who_has_shaken_hands_and_says_no_more_has_its_time_and_gives_way(
    most: int, seconds: float, given_up: int
) -> None:
    """On a listener with TLS and a login: the one is over, and the other has not begun."""

    async def run() -> None:
        with scene() as here:
            host = Host(lambda connection, frame: frame.release())
            settings = GateSettings(LoginRules({}), 500_000, 0)
            gate = Gate(cast(Any, host), LISTENER, settings, here.counts, lambda: 0)
            gate.unfinished = Unfinished(LISTENER, most, seconds)
            here.door = TlsDoor(LISTENER, here._context, gate.new_connection, here.counts, cast(Any, here.admission))
            for _ in range(3):
                await here.shakes_hands(await here.comes())
            await until(lambda: all(each.is_closing() for each in here._transports[:given_up]))
            assert not any(each.is_closing() for each in here._transports[given_up:])
            assert len(gate.unfinished) == 3 - given_up
            assert here.admission.left_by == [], "their ends are told by the connections that they have become"

    asyncio.run(run())


class Showing(Transport):
    """Of a client that has shown this certificate."""

    def __init__(self, certificate: bytes) -> None:
        super().__init__()
        self._handshake = SimpleNamespace(getpeercert=lambda binary_form: certificate)

    def get_extra_info(self, name: str) -> object:
        return self._handshake if name == "ssl_object" else super().get_extra_info(name)


@on_loop
async def test_a_certificate_that_cannot_be_read_is_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    """Its connection has begun, so that its place is given back once: by its end."""
    caplog.set_level(logging.INFO)
    host, counts = Host(lambda connection, frame: frame.release()), LoginCounts(Metrics(), LISTENER)
    connection = NamedByCertificate(cast(Any, host), LISTENER, lambda: str, counts)
    transport = Showing(b"nonsense")
    connection.connection_made(cast(Any, transport))
    assert transport.closed and connection.has_begun and not connection.open
    assert (counts.failed.value, counts.succeeded.value) == (1, 0)
    assert "closing: its certificate cannot be read" in caplog.text
    connection.connection_lost(None)
    assert host.gone


def test_why_a_handshake_failed_is_told_in_words() -> None:
    plain = ssl.SSLError(1, "[SSL: HTTP_REQUEST] http request")
    plain.reason = "HTTP_REQUEST"
    assert reason_of(plain) == "http request"
    assert reason_of(ConnectionResetError()) == "ConnectionResetError"
    assert reason_of(TimeoutError("too late")) == "too late"
    refused = ssl.SSLCertVerificationError()
    refused.verify_message = "certificate has expired"
    assert reason_of(refused) == "the client's certificate is refused: certificate has expired"
