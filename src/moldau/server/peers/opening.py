"""Opens a connection to another broker: dials, learns versions, logs in, and both sides say who they are.

A broker introduces itself on every connection it opens: cluster and id are checked on both sides, so that nobody talks
to whoever has taken over an address. Which life of the broker answers is told to the caller.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from moldau.client.core import ClientCore, Introduction, Opening, Step
from moldau.client.errors import AuthenticationFailed, ClientError, SettingError
from moldau.client.oauth import token_of
from moldau.client.settings import Address, SaslSettings
from moldau.client.tickets import tickets_of
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.peer import Lane, NotLetInError, PeerLostError
from moldau.types.errors import ErrorCode
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest, IntroduceBrokerResponse
from moldau.wire.schema import Message

BROKER_SOFTWARE: Final = "moldau-broker"
"""Who calls itself so in ApiVersions is told of the APIs that brokers have among themselves, if it may use them."""
CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens for others, and which life of it."""

    broker_id: int
    address: Address
    epoch: int
    incarnation: UUID

    def __str__(self) -> str:
        return f"broker {self.broker_id} at {self.address}"


@dataclass(frozen=True, slots=True)
class Self:
    """What this broker says of itself; `cluster_id` and `incarnation` are known once it has registered."""

    broker_id: int
    cluster_id: str
    incarnation: UUID


@dataclass(frozen=True, slots=True)
class PeerSecurity:
    """How connections of the inter-broker listener are protected."""

    tls: ssl.SSLContext | None = None
    sasl: SaslSettings | None = None


class Dial(Protocol):
    """Connects a protocol to an address; raises OSError."""

    def __call__(self, address: Address, protocol: PeerConnection, tls: ssl.SSLContext | None) -> Awaitable[None]: ...


async def dial_tcp(address: Address, protocol: PeerConnection, tls: ssl.SSLContext | None) -> None:
    """Each address that the host's name has, one after the other: what the loop tells of several failures at once does
    not say that all of them refused."""
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for host in await addresses_of(address):
        try:
            await loop.create_connection(
                lambda: protocol, host, address.port, ssl=tls, server_hostname=address.host if tls else None
            )
        except OSError as error:
            failures.append(error)
        else:
            return
    others = [error for error in failures if not isinstance(error, ConnectionRefusedError)]
    raise (others or failures)[0]


async def addresses_of(address: Address) -> list[str]:
    try:
        return [str(ipaddress.ip_address(address.host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class RefusedError(PeerLostError):
    """Nobody listens at the broker's address: its process is not there."""


@dataclass(frozen=True, slots=True)
class Opener:
    """What all connections of this broker have in common. `ourselves` is asked when it is needed: a broker knows its
    cluster and its own incarnation only once it has registered.
    """

    ourselves: Callable[[], Self]
    random_bytes: Callable[[int], bytes]
    security: Callable[[], PeerSecurity] = PeerSecurity
    """Asked for each connection: certificates may have been replaced."""
    dial: Dial = dial_tcp
    connect_seconds: float = CONNECT_SECONDS

    async def open(
        self, endpoint: Endpoint, lane: Lane, ended: Callable[[PeerConnection], None]
    ) -> tuple[PeerConnection, UUID]:
        """An open connection and the incarnation that answers there; raises PeerLostError."""
        name = f"broker-{self.ourselves().broker_id}-{lane}"
        try:
            security = self.security()
        except SettingError as error:
            raise NotLetInError(str(error)) from error
        host = endpoint.address.host
        introduction = Introduction(
            name, BROKER_SOFTWARE, security.sasl, token_of, lambda source: tickets_of(source, host), asks_again=True
        )
        core = ClientCore(endpoint, introduction)
        connection = PeerConnection(core, ended)
        try:
            async with asyncio.timeout(self.connect_seconds):
                await self.dial(endpoint.address, connection, security.tls)
                incarnation = await self._introduce(endpoint, connection)
        except BaseException as error:
            reason = str(error) or f"{endpoint} did not take the connection within {self.connect_seconds:g} s"
            connection.end(reason)
            if isinstance(error, ConnectionRefusedError):
                raise RefusedError(reason) from error
            if isinstance(error, (ssl.SSLError, AuthenticationFailed, SettingError)):
                raise NotLetInError(f"{endpoint}: {reason}" if isinstance(error, OSError) else reason) from error
            if isinstance(error, (OSError, ClientError)):  # a TimeoutError is an OSError
                raise PeerLostError(reason) from error
            raise
        if connection.lost is not None:
            raise type(connection.lost)(*connection.lost.args)
        return connection, incarnation

    async def _introduce(self, endpoint: Endpoint, connection: PeerConnection) -> UUID:
        opening = connection.core.opening(self.random_bytes)
        logs_in = connection.core.logs_in
        step: Step | None = next(opening)
        while step is not None:
            answer = await connection.send(*step)
            # SCRAM derives its keys with thousands of hashes, Kerberos asks its server: not on the loop.
            step = await asyncio.to_thread(next_step, opening, answer) if logs_in else next_step(opening, answer)
        ourselves = self.ourselves()
        introduced = await connection.call(
            IntroduceBrokerRequest(
                cluster_id=ourselves.cluster_id, broker_id=ourselves.broker_id, incarnation=ourselves.incarnation
            ),
            IntroduceBrokerResponse,
        )
        if introduced.error_code:
            raise NotLetInError(f"{endpoint} refused this broker: {ErrorCode(introduced.error_code).name}")
        if introduced.broker_id != endpoint.broker_id or introduced.cluster_id != ourselves.cluster_id:
            raise PeerLostError(
                f"{endpoint}: broker {introduced.broker_id} of cluster {introduced.cluster_id} answers there"
            )
        return introduced.incarnation


def next_step(opening: Opening, answer: Message) -> Step | None:
    """What to ask next; None once the connection may be used."""
    try:
        return opening.send(answer)
    except StopIteration:
        return None
