"""Which replica a consumer should read from (KIP-392): `replica.selector.class`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True)
class ReplicaView:
    broker_id: int
    rack: str | None
    end_offset: int
    lag_ms: float


class ReplicaSelector(Protocol):
    def select(self, client_rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> int:
        """The broker id of the leader, or of one of the followers that hold what is asked for."""
        ...


class RackAware:
    """In the client's own rack if there is a replica, the leader before others; of several the one that is least
    behind.
    """

    def select(self, client_rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> int:
        near = [one for one in followers if one.rack == client_rack]
        if not client_rack or leader.rack == client_rack or not near:
            return leader.broker_id
        return max(near, key=lambda one: (one.end_offset, -one.lag_ms, -one.broker_id)).broker_id


def selector_of(class_name: str | None) -> ReplicaSelector | None:
    """None: everybody reads from the leader. Other classes than Kafka's own cannot be loaded here."""
    if not class_name:
        return None
    if class_name != RACK_AWARE:
        raise ValueError(f"replica.selector.class {class_name} is not known; {RACK_AWARE} is")
    return RackAware()
