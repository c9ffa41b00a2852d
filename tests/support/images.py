"""Cluster images made by hand, for those who only read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from moldau.metadata.codec import Listener
from moldau.metadata.image import BrokerImage, ClusterImage


def with_brokers(image: ClusterImage, brokers: Mapping[int, tuple[str, int, int, UUID]]) -> ClusterImage:
    """Brokers on this host by id: name and port of their listener, epoch, incarnation."""
    made = {
        number: BrokerImage(
            id=number,
            epoch=epoch,
            incarnation=incarnation,
            listeners=MappingProxyType({name: Listener(name, "127.0.0.1", port, "PLAINTEXT")}),
            rack=None,
            fenced=False,
            version=0,
        )
        for number, (name, port, epoch, incarnation) in brokers.items()
    }
    return replace(image, brokers=MappingProxyType(made), version=image.version + 1)
