"""Controlled shutdown (KIP-841): a broker that leaves hands its partitions over before it closes.

From the first commit on it is marked, so that nobody takes it into an in-sync set again; what it led is led by others,
or by nobody if no other replica is eligible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.brokers import put_state
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.in_sync import check_broker_epoch
from moldau.metadata.controller.levels import settling, unsettled
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Operation
from moldau.work.slices import Work


@dataclass(frozen=True, slots=True)
class Leaving:
    """How many partitions changed, and how many the broker still leads or is in sync with afterwards."""

    moved: int
    left: int


def begin_shutdown(
    image: ClusterImage, broker_id: int, broker_epoch: int, config: BrokerConfig
) -> Work[Decision[Leaving]]:
    """Asked again, it answers what is left. Raises STALE_BROKER_EPOCH."""
    check_broker_epoch(image, broker_id, broker_epoch)
    broker = image.brokers[broker_id]
    standing = Standing(image, leaving=(broker_id,))
    index = yield from image.indexing()
    operations: list[Operation] = []
    if not broker.fenced and not broker.shutting_down:
        operations.append(put_state(broker, fenced=False, shutting_down=True))
    places = yield from unsettled(image, index, standing)
    settled = yield from settling(image, places, [standing], config)
    mine = {*index.led_by(broker_id), *index.in_sync_at(broker_id)}
    left = len(mine - {each.place for each in settled})
    return Decision([*operations, *(each.put for each in settled)], Leaving(len(settled), left))


def may_close(image: ClusterImage, broker_id: int, reached: Mapping[int, int]) -> bool:
    """Whether the broker may go: it leads nothing, and all who take part know that (`reached`: the version of each
    one's image is at least that of this one)."""
    if image.index.led_by(broker_id):
        return False
    others = (broker.id for broker in image.brokers.values() if broker.is_active and broker.id != broker_id)
    return all(reached.get(other, 0) >= image.version for other in others)
