"""Which connections are those of other brokers: who has introduced himself as one that is registered, in this life.

An introduction may come before our image has the registration, and a registration may end before its connections do:
so all of them are judged again when registrations change. Without an authorizer anybody may act for the cluster. Then
it is the listener that tells brokers from clients: on another one than theirs a broker is believed, as everybody is,
but quotas hold for it (its listener may be about to change, one broker after the other).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.security.context import ClientIdentity


class Connected(Protocol):
    client: ClientIdentity


class Introductions:
    def __init__(self, connections: Collection[Connected]) -> None:
        self._connections = connections

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if delta.brokers:
            for connection in self._connections:
                recognise(connection.client, new)


def recognise(client: ClientIdentity, image: ClusterImage) -> None:
    said = client.introduction
    if said is None:
        return
    registered = image.brokers.get(said.broker_id)
    is_right = registered is not None and registered.incarnation == said.incarnation
    client.broker_id = said.broker_id if is_right else None
    client.is_exempt = is_right and said.is_trusted
