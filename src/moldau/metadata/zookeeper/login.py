"""How kazoo's client logs in to ZooKeeper and encrypts: SASL DIGEST-MD5 (RFC 2831) and GSSAPI, TLS from key stores of
every kind.

kazoo's own SASL needs pure-sasl, which nobody maintains, and knows Kerberos only through another package than ours; so
one step of its connection is replaced by our exchanges. What kazoo does about a refusal, never to connect again, is
replaced too: the connection is tried again, as with everything else that may pass, and the reason is kept.

digest     server: realm, nonce, qop, …      client: username, nonce, cnonce, response, …      server: rspauth
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import ssl
import threading
from collections.abc import Callable, Generator
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE

from moldau.client.errors import ClientError
from moldau.client.sasl import kerberos
from moldau.client.ticket_source import ticket_source
from moldau.client.tickets import tickets_of
from moldau.config.zookeeper_security import SERVICE, ZooKeeperSecurity
from moldau.tls.contexts import client_context

LOG = logging.getLogger(__name__)

Exchange = Generator[bytes, bytes, None]

REALM: Final = "zk-sasl-md5"
FIELD: Final = re.compile(r'([\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,]*))')
ONLY_OURS: Final = CREATOR_ALL_ACL
READABLE: Final = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


class LoginRefusedError(Exception):
    """ZooKeeper does not let us in, or we cannot show who we are."""


def digest(username: str, password: str, cnonce: str) -> Exchange:
    told = fields_of((yield b"").decode())
    realm, nonce, uri = told.get("realm", REALM), told.get("nonce", ""), f"{SERVICE}/{REALM}"
    if not nonce:
        raise LoginRefusedError("ZooKeeper's DIGEST-MD5 challenge has no nonce")
    known = md5(f"{username}:{realm}:{password}".encode()).digest() + f":{nonce}:{cnonce}".encode()

    def proof(verb: str) -> str:
        asked = md5(f"{verb}:{uri}".encode()).hexdigest()
        return md5(f"{md5(known).hexdigest()}:{nonce}:00000001:{cnonce}:auth:{asked}".encode()).hexdigest()

    answer = yield (
        f'charset=utf-8,username="{quoted(username)}",realm="{quoted(realm)}",nonce="{quoted(nonce)}",nc=00000001,'
        f'cnonce="{cnonce}",digest-uri="{uri}",maxbuf=65536,response={proof("AUTHENTICATE")},qop=auth'
    ).encode()
    if not hmac.compare_digest(fields_of(answer.decode()).get("rspauth", ""), proof("")):
        raise LoginRefusedError("ZooKeeper did not prove that it knows the password")


def md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)  # the mechanism's choice; it is the only one with a password


def fields_of(text: str) -> dict[str, str]:
    return {name: re.sub(r"\\(.)", r"\1", within) or bare for name, within, bare in FIELD.findall(text)}


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def exchange_of(security: ZooKeeperSecurity, host: str) -> Exchange:
    """Raises ClientError."""
    assert security.login is not None
    options = security.login.options
    if security.is_digest:
        return digest(options["username"], options["password"], os.urandom(16).hex())
    source = ticket_source({"sasl.kerberos.service.name": security.service}, options)
    return kerberos(tickets_of(source, host))


Granted = Callable[[float], None]


class Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Tells for how many seconds the ensemble lets a session live that it does not hear of. What was asked for it
    holds within limits of its own, and kazoo keeps the answer to itself."""

    def __init__(self, client: Any, retry: Any, logger: Any, granted: Granted, **more: Any) -> None:
        super().__init__(client, retry, logger=logger, **more)
        self._granted = granted

    def _invoke(self, timeout: float, request: Any, xid: Any = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect):
            self._granted(answer[0].time_out / 1000)
        return answer


class LoginConnection(Connection):
    """Logs in on each connection before anything else is sent; `told` learns of it, with what went wrong or None."""

    def __init__(
        self, client: Any, retry: Any, logger: Any, granted: Granted, security: ZooKeeperSecurity, told: Told
    ) -> None:
        super().__init__(client, retry, logger, granted, sasl_options={})
        self._security = security
        self._told = told

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        from kazoo.exceptions import ConnectionDropped

        try:
            self._log_in(exchange_of(self._security, host), timeout)
        except ConnectionDropped:
            self._told(f"{host} closed the connection during the login, as it does with a login that it refuses")
            raise
        except AuthFailedError:
            reason = f"{host} refused the login"
            self._told(reason)
            raise ConnectionDropped(reason) from None
        except (ClientError, LoginRefusedError) as error:
            self._told(str(error))
            raise ConnectionDropped(str(error)) from None
        self._told(None)

    def _log_in(self, exchange: Exchange, timeout: float) -> None:
        message, number = next(exchange), 0
        while True:
            number += 1
            self._submit(SASL(message), timeout, number)
            header, buffer, offset = self._read_header(timeout)
            if header.zxid > 0:
                self.client.last_zxid = header.zxid
            if header.err:
                raise EXCEPTIONS[header.err]()
            try:
                message = exchange.send(SASL.deserialize(buffer, offset)[0] or b"")
            except StopIteration:
                return


Told = Callable[[str | None], None]


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, connect_seconds: float | None, tls: ssl.SSLContext | None, told: Told) -> None:
        super().__init__()
        self._connect_seconds = connect_seconds
        self._tls = tls
        self._told = told

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        if self._connect_seconds is not None:
            kwargs["timeout"] = min(kwargs.get("timeout") or self._connect_seconds, self._connect_seconds)
        made = super().create_connection(*args, **kwargs)
        if self._tls is None:
            return made
        try:
            made.settimeout(kwargs.get("timeout"))
            return self._tls.wrap_socket(made, server_hostname=kwargs["hostname"])
        except ssl.SSLError as error:
            made.close()
            self._told(f"no TLS with {kwargs['hostname']}: {getattr(error, 'verify_message', '') or error}")
            raise
        except BaseException:
            made.close()
            raise


class LoggedIn:
    """Whether the last attempt to log in went well; for the thread that waits for it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self._decided = threading.Event()

    def __call__(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            LOG.warning("no login to ZooKeeper: %s", problem)
        self.problem = problem
        self._decided.set()

    def wait(self, seconds: float) -> None:
        """Raises LoginRefusedError."""
        if not self._decided.wait(seconds):
            raise LoginRefusedError(f"no login within {seconds:g} s")
        if self.problem is not None:
            raise LoginRefusedError(self.problem)


def make_client(
    hosts: str,
    session_seconds: float,
    security: ZooKeeperSecurity,
    told: Told,
    logger: logging.Logger,
    connect_seconds: float | None = None,
    granted: Granted = lambda _seconds: None,
    **more: Any,
) -> KazooClient:
    """Raises TlsError (a ValueError) where key stores cannot be read."""
    tls = None if security.tls is None else client_context(security.tls)
    client = KazooClient(
        hosts=hosts, timeout=session_seconds, handler=Handler(connect_seconds, tls, told), logger=logger, **more
    )
    retry: KazooRetry = client._conn_retry.copy()
    if security.login is not None:
        client._connection = LoginConnection(client, retry, logger, granted, security, told)
    else:
        client._connection = Connection(client, retry, logger, granted)
    return client


def lock_of(security: ZooKeeperSecurity, secret: bool) -> list[ACL] | None:
    """Who may use a node that is made; None leaves it to everybody."""
    if not security.locks_nodes:
        return None
    return ONLY_OURS if secret else READABLE
