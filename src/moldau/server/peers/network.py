"""The other brokers as the cluster's image knows them, each with its lanes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from moldau.client.settings import Address
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.server.peers.channel import Channel
from moldau.server.peers.opening import Endpoint, Opener
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)

log = logging.getLogger("moldau.server.peers")


def endpoint_of(image: ClusterImage, broker_id: int, listener: str) -> Endpoint | None:
    broker = image.brokers.get(broker_id)
    found = None if broker is None else broker.listeners.get(listener)
    if broker is None or found is None:
        return None
    return Endpoint(broker_id, Address(found.host, found.port), broker.epoch, broker.incarnation)


class NetworkPeer:
    """Implements `Peer`."""

    def __init__(self, broker_id: int, endpoint: Callable[[int], Endpoint | None], opener: Opener) -> None:
        self.broker_id = broker_id
        self._endpoint = endpoint
        self._opener = opener
        self._channels: dict[Lane, Channel] = {}

    async def call(
        self,
        request: Message,
        answer_class: type[R],
        lane: Lane = Lane.CONTROL,
        *,
        timeout_seconds: float | None = None,
        max_version: int | None = None,
    ) -> R:
        return await self._channel(lane).call(request, answer_class, timeout_seconds, max_version)

    def _channel(self, lane: Lane) -> Channel:
        endpoint = self._endpoint(self.broker_id)
        if endpoint is None:
            raise PeerLostError(f"broker {self.broker_id} is not registered with a listener for other brokers")
        channel = self._channels.get(lane)
        if channel is None or channel.endpoint != endpoint:
            if channel is not None:
                channel.close(f"{channel.endpoint} has become {endpoint}, epoch {endpoint.epoch}")
            channel = self._channels[lane] = Channel(endpoint, lane, self._opener)
        return channel

    def follow(self, endpoint: Endpoint | None) -> None:
        """Closes what leads to a broker that is not there any more."""
        for lane, channel in tuple(self._channels.items()):
            if channel.endpoint != endpoint:
                channel.close(f"{channel.endpoint} has gone" if endpoint is None else f"{endpoint} has come back anew")
                del self._channels[lane]

    def close(self, reason: str) -> None:
        for channel in self._channels.values():
            channel.close(reason)
        self._channels.clear()


class NetworkPeers:
    """Implements `Peers`; subscribed to the image. `listener` is the name of the listener that brokers share."""

    def __init__(self, image: Callable[[], ClusterImage], listener: str, opener: Opener) -> None:
        self._image = image
        self._listener = listener
        self._opener = opener
        self._peers: dict[int, NetworkPeer] = {}
        self._closed: str | None = None

    def get(self, broker_id: int) -> NetworkPeer:
        peer = self._peers.get(broker_id)
        if peer is None:
            peer = self._peers[broker_id] = NetworkPeer(broker_id, self._endpoint, self._opener)
        return peer

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        return None if self._closed else endpoint_of(self._image(), broker_id, self._listener)

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if old.brokers is new.brokers:
            return
        for broker_id, peer in self._peers.items():
            peer.follow(endpoint_of(new, broker_id, self._listener))

    def close(self, reason: str = "this broker stops") -> None:
        self._closed = reason
        for peer in self._peers.values():
            peer.close(reason)
