"""The gate of a listener with SASL: until it is known who is there, nothing is served but the way to say so.

A connection has the gate as its host at first. Once its user is known it gets the broker's own, so that requests of a
client that is logged in cost nothing more than on an open listener; where logins end, `Sessions` stands in between
and looks at the clock.

A request out of turn closes the connection without an answer. A login that fails is answered after
`connection.failed.authentication.delay.ms`, so that guessing is slow, and closed. Who does not get on with
it is cut off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from struct import Struct

from moldau.metrics import Counter, Metrics
from moldau.security.authentication.exchange import LoginRefused, NotYet
from moldau.security.authentication.login import Login, OutOfTurn, Progress
from moldau.server.buffers import Budget, BufferPool
from moldau.server.connection import AnswerGate, Connection, ConnectionHost, Frame, Slot
from moldau.server.logins import GateSettings
from moldau.server.unfinished import LoginBudget, Unfinished
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.codec import decode, encode
from moldau.wire.framing import (
    SIZE,
    RequestHeader,
    frame_response,
    read_request_header,
    response_has_tags,
    skip_header_tags,
)
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.wire.primitives import DecodeError
from moldau.wire.schema import Message

log = logging.getLogger("moldau.server.gate")

API_KEY = Struct(">h")
SOCKET_SERVER = "socket-server-metrics"
#: What a stranger sends behind a token that is being checked lies here, uncounted: no more than was read at once. What
#: is longer is received for itself, and counts.
STRANGERS_READ_BYTES = 4096
#: There may be a name in it of half a megabyte: strangers must not be able to push everything else out of the logs.
LONGEST_REASON = 300


class LoginCounts:
    """Kafka's names, for each listener."""

    def __init__(self, metrics: Metrics, listener: str) -> None:
        def counter(name: str) -> Counter:
            return metrics.counter("kafka.server", SOCKET_SERVER, name, listener=listener)

        self.succeeded = counter("successful-authentication-total")
        self.failed = counter("failed-authentication-total")
        self.succeeded_again = counter("successful-reauthentication-total")
        self.failed_again = counter("failed-reauthentication-total")
        self.expired = counter("expired-connections-killed-count")


class Gate:
    """Implements ConnectionHost for connections of one listener whose user is not known yet."""

    def __init__(
        self,
        inside: ConnectionHost,
        listener: str,
        settings: GateSettings,
        counts: LoginCounts,
        wall_ms: Callable[[], int],
    ) -> None:
        self._inside = inside
        self._listener = listener
        self.settings = settings
        self._counts = counts
        self._wall_ms = wall_ms
        self._sessions = Sessions(inside, self, counts)
        self.scratch: memoryview = inside.scratch[:STRANGERS_READ_BYTES]
        self.unfinished = Unfinished(listener)
        self.pool: BufferPool = inside.pool
        self.budget: Budget = inside.budget
        self.intake: Budget = LoginBudget(self.unfinished)
        self.gate: AnswerGate = inside.gate
        self.run_blocking = inside.run_blocking

    @property
    def max_frame_bytes(self) -> int:
        return self.settings.max_token_bytes

    def opened(self, connection: Connection) -> None:
        self._inside.opened(connection)
        self.unfinished.began(connection)

    def closed(self, connection: Connection) -> None:
        self.unfinished.ended(connection)
        self._inside.closed(connection)

    def new_connection(self) -> Connection:
        connection = Connection(self, self._listener)
        connection.login = Login(self.settings.rules)
        return connection

    def dispatch(self, connection: Connection, frame: Frame) -> None:
        login = connection.login
        assert login is not None
        try:
            if login.bare_tokens:
                self._take_bare_token(connection, login, bytes(frame.view))
            else:
                header = read_request_header(frame.view)
                if header.api_key == ApiKey.API_VERSIONS:
                    self._tell_versions(connection, login, header.api_version, frame)
                    return
                self._take_request(connection, login, header, frame)
        except OutOfTurn as error:
            self._close(connection, login, str(error))
        except DecodeError as error:
            self._close(connection, login, f"a request cannot be read: {error}")
        frame.release()

    def _tell_versions(self, connection: Connection, login: Login, version: int, frame: Frame) -> None:
        login.ask_versions()
        if version <= ApiVersionsRequest.LAST_VERSION:  # a newer client asks again, in the version that it is told
            login.versions_told()
        self._inside.dispatch(connection, frame)

    def _take_request(self, connection: Connection, login: Login, header: RequestHeader, frame: Frame) -> None:
        if header.api_key == ApiKey.SASL_HANDSHAKE and header.api_version <= SaslHandshakeRequest.LAST_VERSION:
            handshake, _ = decode(SaslHandshakeRequest, header.api_version, frame.view, header.body)
            self._shake_hands(connection, login, header, handshake.mechanism)
        elif header.api_key == ApiKey.SASL_AUTHENTICATE and header.api_version <= SaslAuthenticateRequest.LAST_VERSION:
            flexible = header.api_version >= SaslAuthenticateRequest.FLEXIBLE_FROM
            body = skip_header_tags(frame.view, header.body) if flexible else header.body
            request, _ = decode(SaslAuthenticateRequest, header.api_version, frame.view, body)
            self._take_token(connection, login, header, bytes(request.auth_bytes))
        else:
            raise login.refuse(f"a request with API key {header.api_key}, version {header.api_version}")

    # --- steps of a login ---

    def _shake_hands(self, connection: Connection, login: Login, header: RequestHeader, mechanism: str) -> None:
        if login.handshake(mechanism, header.api_version):
            answer = SaslHandshakeResponse(mechanisms=list(login.offered))
            connection.reserve().answer([framed(header, answer)])
            return
        answer = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(login.offered))
        reason = f"SASL mechanism {mechanism[:40]!r} is none of {', '.join(login.offered)}"
        self._fail(connection, login, reason, framed(header, answer))

    def _take_token(
        self, connection: Connection, login: Login, header: RequestHeader, token: bytes, reserved: Slot | None = None
    ) -> None:
        slot = reserved or connection.reserve()
        again = login.again
        try:
            progress = login.authenticate(token, self._now(), self._wall_ms())
        except NotYet as wait:
            self._later(connection, wait, token, lambda: self._take_token(connection, login, header, token, slot))
            return
        except LoginRefused as refusal:
            told = refusal.told or invalid_credentials(again, login.mechanism)
            answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
            self._fail(connection, login, refusal.reason, framed(header, answer), slot)
            return
        answer = SaslAuthenticateResponse(
            error_message=None, auth_bytes=progress.token, session_lifetime_ms=progress.session_ms
        )
        self._let_in(connection, login, progress, again)
        slot.answer([framed(header, answer)])

    def _take_bare_token(
        self, connection: Connection, login: Login, token: bytes, reserved: Slot | None = None
    ) -> None:
        slot = reserved or connection.reserve()
        again = login.again
        try:
            progress = login.authenticate(token, self._now(), self._wall_ms())
        except NotYet as wait:
            self._later(connection, wait, token, lambda: self._take_bare_token(connection, login, token, slot))
            return
        except LoginRefused as refusal:
            self._fail(connection, login, refusal.reason, b"", slot)
            return
        self._let_in(connection, login, progress, again)
        slot.answer([SIZE.pack(len(progress.token)) + progress.token])

    def _later(self, connection: Connection, wait: NotYet, token: bytes, take: Callable[[], None]) -> None:
        """Takes the token once more when what it needs is there; what the client sends meanwhile waits behind it. Until
        then the token counts as received: there may be thousands of them."""

        async def waited() -> None:
            try:
                await wait.begin()
                if connection.open:
                    take()
            except Exception:
                log.exception("%s: closing: a login failed", connection.client.address)
                connection.abort()

        connection.park()
        self.intake.take(len(token))
        connection.waiting = waiting = asyncio.ensure_future(waited())
        waiting.add_done_callback(lambda _: self.intake.give_back(len(token)))

    def _let_in(self, connection: Connection, login: Login, progress: Progress, again: str) -> None:
        if progress.identity is None:
            return
        client = connection.client
        client.principal, client.by_token = progress.identity.principal, progress.identity.by_token
        self.unfinished.ended(connection)
        connection.host = self._sessions if login.ends else self._inside
        (self._counts.succeeded if again == "authentication" else self._counts.succeeded_again).value += 1
        log.debug("%s: %s with %s", client.address, client.principal, login.mechanism)

    # --- what goes wrong ---

    def _fail(self, connection: Connection, login: Login, reason: str, answer: bytes, slot: Slot | None = None) -> None:
        """Nothing that the client sends from now on is looked at."""
        self._count_failure(login)
        log.info(
            "%s: failed %s on listener %s: %s",
            connection.client.address,
            login.again,
            connection.client.listener,
            reason[:LONGEST_REASON],
        )
        waiting = slot or connection.reserve()
        connection.listen_no_more()

        def refuse() -> None:
            if connection.open:
                waiting.answer([answer])
                connection.close()

        asyncio.get_running_loop().call_later(self.settings.failure_delay_ms / 1000, refuse)

    def _close(self, connection: Connection, login: Login, reason: str) -> None:
        self._count_failure(login)
        log.info("%s: closing: %s on listener %s", connection.client.address, reason, connection.client.listener)
        connection.close()

    def _count_failure(self, login: Login) -> None:
        (self._counts.failed if login.again == "authentication" else self._counts.failed_again).value += 1

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class Sessions:
    """Implements ConnectionHost for clients whose login has an end."""

    def __init__(self, inside: ConnectionHost, gate: Gate, counts: LoginCounts) -> None:
        self._inside = inside
        self._gate = gate
        self._counts = counts
        self.scratch: memoryview = inside.scratch
        self.pool: BufferPool = inside.pool
        self.budget: Budget = inside.budget
        self.intake: Budget = inside.intake
        self.gate: AnswerGate = inside.gate
        self.opened = inside.opened
        self.closed = inside.closed
        self.run_blocking = inside.run_blocking

    @property
    def max_frame_bytes(self) -> int:
        return self._inside.max_frame_bytes

    def dispatch(self, connection: Connection, frame: Frame) -> None:
        login = connection.login
        assert login is not None
        now = asyncio.get_running_loop().time()
        if is_handshake(frame) and login.begins_again(now):
            connection.host = self._gate
            self._gate.unfinished.began(connection)
            self._gate.dispatch(connection, frame)
        elif login.has_expired(now):
            self._counts.expired.value += 1
            log.info("%s: closing: the login of %s has expired", connection.client.address, connection.client.principal)
            frame.release()
            connection.close()
        else:
            self._inside.dispatch(connection, frame)


def is_handshake(frame: Frame) -> bool:
    return frame.size >= API_KEY.size and API_KEY.unpack_from(frame.view)[0] == ApiKey.SASL_HANDSHAKE


def framed(header: RequestHeader, answer: Message) -> bytes:
    tags = response_has_tags(header.api_key, header.api_version >= answer.FLEXIBLE_FROM)
    return frame_response(header.correlation_id, tags, encode(answer, header.api_version))


def invalid_credentials(again: str, mechanism: str) -> str:
    return f"Authentication failed during {again} due to invalid credentials with SASL mechanism {mechanism}"
