"""The cluster as its controllers know it, over our own client: librdkafka's admin client lacks these requests."""

from __future__ import annotations

from moldau.client.asking.quorum import (
    Upgrade,
    describe_cluster,
    describe_features,
    describe_quorum,
    unregister_broker,
    update_features,
)

__all__ = [
    "Upgrade",
    "describe_cluster",
    "describe_features",
    "describe_quorum",
    "unregister_broker",
    "update_features",
]
