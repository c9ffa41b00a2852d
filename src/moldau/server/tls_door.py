"""The door of a listener with TLS: a client shakes hands here, and becomes a connection once it has.

Who has not finished holds memory and nothing else: there are at most so many of them, the oldest goes when another one
comes, and each has so many seconds. The context is asked for with each client, so that new certificates hold at once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from moldau.server.acceptor import Acceptor
from moldau.server.admission import Admission
from moldau.server.connection import Connection, ConnectionHost
from moldau.server.gate import LoginCounts
from moldau.tls.names import NameOf, distinguished_name

log = logging.getLogger("moldau.server.tls_door")

MAX_UNFINISHED: Final = 1_000
HANDSHAKE_SECONDS: Final = 10.0
GOODBYE_SECONDS: Final = 2.0
"""How long the end of a connection waits for the client's own goodbye."""


class TlsDoor:
    def __init__(
        self,
        listener: str,
        context: Callable[[], ssl.SSLContext],
        new_connection: Callable[[], Connection],
        counts: LoginCounts,
        admission: Admission,
    ) -> None:
        self._listener = listener
        self._context = context
        self._admission = admission
        self._new_connection = new_connection
        self._counts = counts
        self._unfinished: dict[asyncio.Task[None], socket.socket] = {}
        self._told = False
        self._loop = asyncio.get_running_loop()
        self._acceptor: Acceptor | None = None

    def listen(self, bound: socket.socket) -> None:
        self._acceptor = Acceptor(self._listener, bound, self._admission, self._begin)

    def close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for task in tuple(self._unfinished):
            task.cancel()

    def _begin(self, client: socket.socket, address: str) -> None:
        if len(self._unfinished) < MAX_UNFINISHED // 2:
            self._told = False
        if len(self._unfinished) >= MAX_UNFINISHED:
            if not self._told:  # not once for each of thousands
                self._told = True
                log.warning(
                    "listener %s: %d TLS handshakes are unfinished: the oldest are given up",
                    self._listener,
                    MAX_UNFINISHED,
                )
            oldest = next(iter(self._unfinished))
            del self._unfinished[oldest]
            oldest.cancel()
        task = self._loop.create_task(self._shake_hands(client, address))
        self._unfinished[task] = client
        task.add_done_callback(lambda done: self._unfinished.pop(done, None))

    async def _shake_hands(self, client: socket.socket, address: str) -> None:
        connection = self._new_connection()
        connection.client.address = address
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=GOODBYE_SECONDS,
            )
        except (OSError, RuntimeError, ValueError) as error:  # an SSLError is an OSError
            self._counts.failed.value += 1
            log.info("%s: TLS handshake failed on listener %s: %s", address, self._listener, reason_of(error))
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise
        finally:
            if not connection.has_begun:
                self._admission.left(self._listener, address)


class NamedByCertificate(Connection):
    """A connection whose user is who its certificate says; without one, nobody. As in Kafka, who shows a certificate
    that no rule makes a user of is not served."""

    __slots__ = ("_counts", "_name_of")

    def __init__(self, host: ConnectionHost, listener: str, name_of: Callable[[], NameOf], counts: LoginCounts) -> None:
        super().__init__(host, listener)
        self._name_of = name_of
        self._counts = counts

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        handshake = cast(ssl.SSLObject, transport.get_extra_info("ssl_object"))
        certificate = handshake.getpeercert(binary_form=True)
        if certificate is not None:
            try:
                subject = distinguished_name(certificate)
            except ValueError as error:  # what OpenSSL takes need not be one to whoever reads it more closely
                self._refuse(transport, f"its certificate cannot be read: {error}")
                return
            name = self._name_of()(subject)
            if name is None:
                self._refuse(transport, f"no rule of ssl.principal.mapping.rules makes a user of {subject}")
                return
            self.client.principal = f"User:{name}"
        self._counts.succeeded.value += 1
        super().connection_made(transport)

    def _refuse(self, transport: asyncio.BaseTransport, reason: str) -> None:
        self._counts.failed.value += 1
        super().connection_made(transport)
        self.close()
        log.info("%s: closing: %s on listener %s", self.client.address, reason, self.client.listener)


def reason_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(error) or type(error).__name__
