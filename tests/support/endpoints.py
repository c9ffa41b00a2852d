"""Several brokers' edges in one process: real sockets, connections, dispatch and peers over one image that the test
writes; behind the handlers there is only what the test puts there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.codec import Listener
from moldau.metadata.image import EMPTY_IMAGE, NO_CONTROLLER, BrokerImage, ClusterImage, ControllerImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metrics import Metrics
from moldau.security.authorizer import AllowAll, Authorizer
from moldau.server.broker import Broker
from moldau.server.connection import AnswerGate, Connection
from moldau.server.dispatch import Dispatcher
from moldau.server.forwarding import Forwarding
from moldau.server.handlers.catalogue import APIS
from moldau.server.introductions import Introductions
from moldau.server.listeners import Host
from moldau.server.peers.network import NetworkPeers
from moldau.server.peers.opening import Opener, Self
from moldau.server.registry import Api
from moldau.server.services import Clocks, Services
from moldau.server.traffic import Traffic
from tests.fakes.unlimited import Unlimited

LISTENER = "PLAINTEXT"


class World:
    """One image for all, in every broker's hands at once; `announce` makes the next one."""

    def __init__(self) -> None:
        self.image: ClusterImage = replace(EMPTY_IMAGE, cluster_id="the-cluster", version=1)
        self.endpoints: list[EndPoint] = []
        self._waiting: list[asyncio.Future[None]] = []

    def announce(self, **changes: Any) -> None:
        old, new = self.image, replace(self.image, version=self.image.version + 1, **changes)
        for endpoint in self.endpoints:
            endpoint.peers.apply(old, new, ImageDelta())
            endpoint.introductions.apply(old, new, ImageDelta(brokers=frozenset(new.brokers)))
        self.image = new
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_image(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def register(self, broker_id: int, port: int, incarnation: UUID | None = None) -> None:
        made = BrokerImage(
            id=broker_id,
            epoch=self.image.version + 1,
            incarnation=incarnation or UUID(int=self.image.version + 1),
            listeners=MappingProxyType({LISTENER: Listener(LISTENER, "127.0.0.1", port, LISTENER)}),
            rack=None,
            fenced=False,
            version=0,
        )
        self.announce(brokers=MappingProxyType({**self.image.brokers, broker_id: made}))

    def elect(self, broker_id: int | None) -> None:
        version = 0 if self.image.controller is None else self.image.controller.version + 1
        self.announce(controller=ControllerImage(NO_CONTROLLER if broker_id is None else broker_id, 1, version))

    async def close(self) -> None:
        for endpoint in self.endpoints:
            await endpoint.close()


class EndPoint:
    """A broker as far as its sockets reach. Implements the authority of forwarding and the holder of images."""

    def __init__(
        self,
        world: World,
        broker_id: int,
        apis: Mapping[int, Api] = APIS,
        authorizer: Authorizer | None = None,
        controller: object = None,
    ) -> None:
        self.world = world
        self.broker_id = broker_id
        self._loop = asyncio.get_running_loop()
        opener = Opener(self._ourselves, lambda count: b"r" * count)
        self.peers = NetworkPeers(lambda: world.image, LISTENER, opener)
        metrics, gate = Metrics(), AnswerGate()
        config = BrokerConfig.load({"node.id": str(broker_id)})
        clocks = Clocks(self._loop.time, lambda: 0, self._loop.time)
        absent = cast(Any, None)
        services = Services(
            absent, absent, absent, absent, clocks, absent, absent, absent, metrics, Unlimited(), absent, "",
            authorizer or AllowAll(),
        )  # fmt: skip
        appends = cast(Any, _NoAppends())
        self.broker = Broker(
            config, services, cast(Any, self), cast(Any, controller), absent, absent, absent, appends, metrics, absent,
            absent, absent, absent, apis, Unlimited(), Traffic(metrics, ()),
        )  # fmt: skip
        self.broker.forwarding = Forwarding(self.broker, self, self.peers, world.next_image, self._loop.time)
        self.dispatcher = Dispatcher(self.broker, dict(apis))
        self.host = Host(config, self.dispatcher.dispatch, services, gate)
        self.introductions = Introductions(self.host.connections)
        self._server: asyncio.Server | None = None
        world.endpoints.append(self)

    @property
    def image(self) -> ClusterImage:
        return self.world.image

    def subscribe(self, *_: object) -> None:
        """As the holder of images: the world tells whom it has to."""

    async def reached(self, version: int) -> ClusterImage:
        while self.world.image.version < version:
            await self.world.next_image()
        return self.world.image

    @property
    def is_active(self) -> bool:
        return self.active_id == self.broker_id

    @property
    def active_id(self) -> int | None:
        present = self.world.image.controller
        return None if present is None or present.id == NO_CONTROLLER else present.id

    def _ourselves(self) -> Self:
        return Self(self.broker_id, self.image.cluster_id or "", self.image.brokers[self.broker_id].incarnation)

    async def listen(self, port: int = 0) -> int:
        self._server = await self._loop.create_server(lambda: Connection(self.host, LISTENER), "127.0.0.1", port)
        bound: int = self._server.sockets[0].getsockname()[1]
        self.world.register(self.broker_id, bound)
        return bound

    async def close(self) -> None:
        """As a process that ends: nobody is told, sockets are closed."""
        self.peers.close()
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.host.connections):
            connection.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class _NoAppends:
    def flush(self) -> None: ...
