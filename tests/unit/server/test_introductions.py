"""Who says to be a broker is one as long as such a broker is registered, and only where brokers speak is it let through
by the quotas.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.client.core import ClientCore, Introduction
from moldau.client.settings import Address
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.server.handlers.fetch import Fetch
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.opening import dial_tcp
from moldau.types.errors import ErrorCode
from moldau.wire.messages.fetch import FetchRequest
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest, IntroduceBrokerResponse
from tests.support.endpoints import EndPoint, World
from tests.support.loops import on_loop, until

HOURS = 10_000
INCARNATION = UUID(int=77)


class Rules:
    """An authorizer that lets everybody act for the cluster."""

    keeps_rules = True

    def allows(self, *_: object, **__: object) -> bool:
        return True


class Scene:
    """Broker 1, and somebody who says to be broker 2."""

    def __init__(self, listener: str = "PLAINTEXT", rules: bool = False) -> None:
        self.world = World()
        self.broker = EndPoint(self.world, 1, authorizer=Rules() if rules else None)  # type: ignore[arg-type]
        self._listener = listener

    async def introduced(self, incarnation: UUID = INCARNATION) -> ClientIdentity:
        port = await self.broker.listen()
        self.connection = PeerConnection(ClientCore("broker", Introduction("somebody")), lambda _: None)
        await dial_tcp(Address("127.0.0.1", port), self.connection, None)
        await until(lambda: self.broker.host.connections)
        (accepted,) = self.broker.host.connections
        accepted.client.listener = self._listener
        request = IntroduceBrokerRequest(cluster_id="the-cluster", broker_id=2, incarnation=incarnation)
        answer = await self.connection.send(request, IntroduceBrokerResponse, 0)
        assert answer.error_code == ErrorCode.NONE
        return accepted.client

    def register(self, incarnation: UUID) -> None:
        self.world.register(2, 1, incarnation)

    def unregister(self) -> None:
        brokers = self.world.image.brokers
        self.world.announce(brokers=MappingProxyType({key: each for key, each in brokers.items() if key != 2}))

    async def close(self) -> None:
        self.connection.end("done")
        await self.world.close()


def state_of(client: ClientIdentity) -> tuple[int | None, bool]:
    return client.broker_id, client.is_exempt


@on_loop
async def test_a_broker_counts_from_its_registration_to_its_end() -> None:
    scene = Scene()
    client = await scene.introduced()
    assert state_of(client) == (None, False)
    scene.register(INCARNATION)
    assert state_of(client) == (2, True)
    scene.register(UUID(int=78))  # it has started again: this is its former life
    assert state_of(client) == (None, False)
    scene.register(INCARNATION)
    scene.unregister()
    assert state_of(client) == (None, False)
    await scene.close()


@pytest.mark.parametrize("incarnation", [INCARNATION, UUID(int=5)])
@on_loop
async def test_only_the_life_that_is_registered_is_that_broker(incarnation: UUID) -> None:
    scene = Scene()
    scene.register(INCARNATION)
    client = await scene.introduced(incarnation)
    assert state_of(client) == ((2, True) if incarnation == INCARNATION else (None, False))
    await scene.close()


@pytest.mark.parametrize(
    ("listener", "rules", "is_exempt"),
    [("PLAINTEXT", False, True), ("CLIENTS", False, False), ("PLAINTEXT", True, True), ("CLIENTS", True, True)],
)
@on_loop
async def test_limits_hold_where_clients_may_say_the_same(listener: str, rules: bool, is_exempt: bool) -> None:
    scene = Scene(listener, rules)
    scene.register(INCARNATION)
    client = await scene.introduced()
    assert state_of(client) == (2, is_exempt)
    await scene.close()


@on_loop
async def test_who_only_says_so_is_closed_for_being_idle() -> None:
    scene = Scene()
    await scene.introduced()
    scene.broker.host.sweep_idle(asyncio.get_running_loop().time() + HOURS)
    await until(lambda: scene.connection.lost is not None)
    await scene.close()


@pytest.mark.parametrize(
    ("replica_id", "is_exempt", "is_limited"), [(-1, True, True), (2, False, True), (2, True, False)]
)
def test_a_fetch_is_a_followers_only_from_a_broker(replica_id: int, is_exempt: bool, is_limited: bool) -> None:
    client = ClientIdentity(ANONYMOUS, "PLAINTEXT", "127.0.0.1", is_exempt=is_exempt)
    broker = SimpleNamespace(quotas=SimpleNamespace(active=True))
    request = FetchRequest(replica_id=replica_id)
    fetch = Fetch(cast(Any, broker), RequestContext(client, "c", 1, 12, 1), request, cast(Any, None))
    assert fetch.is_limited == is_limited
