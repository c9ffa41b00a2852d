"""Brokers that go and come: fenced, they neither lead nor are in sync anywhere; unfenced, they may be again.

Registration starts fenced. A broker is taken in by the commit that takes what it was before out of every in-sync set
(KIP-903), and, if it stopped uncleanly, out of every set of eligible leaders (KIP-966).
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.brokers import put_state
from moldau.metadata.controller.decision import PARTITIONS_PER_COMMIT, Decision
from moldau.metadata.controller.levels import Settled, settling, unsettled
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import ClusterImage
from moldau.work.slices import Work


def fence(
    image: ClusterImage, brokers: Collection[int], config: BrokerConfig, *, limit: int = PARTITIONS_PER_COMMIT
) -> Work[Decision[list[Settled]]]:
    """Shuts these brokers out, with the most urgent of what follows from it. The rest shows in the next image: no
    election waits until all is decided."""
    going = sorted(number for number in brokers if number in image.brokers and not image.brokers[number].fenced)
    standing = Standing(image, leaving=going)
    index = yield from image.indexing()
    places = yield from unsettled(image, index, standing)
    settled = yield from settling(image, places, [standing], config, limit)
    states = [put_state(image.brokers[number], fenced=True) for number in going]
    return Decision([*states, *(each.put for each in settled)], settled)


def unfence(
    image: ClusterImage,
    brokers: Collection[int],
    config: BrokerConfig,
    *,
    trust_boot_id: bool = True,
    limit: int = PARTITIONS_PER_COMMIT,
) -> Work[Decision[list[Settled]]]:
    """Takes these brokers in. Where that touches more partitions than one commit may, it first decides on what must go
    before, without them; asked again, it has less left to do."""
    coming = sorted(number for number in brokers if number in image.brokers and image.brokers[number].fenced)
    without_them = Standing(image, judged=coming, trust_boot_id=trust_boot_id)
    with_them = Standing(image, joining=coming, trust_boot_id=trust_boot_id)
    index = yield from image.indexing()
    places = yield from unsettled(image, index, without_them)
    settled = yield from settling(image, places, [without_them, with_them], config, limit + 1)
    if len(settled) > limit:
        before = yield from settling(image, places, [without_them], config, limit)
        if before:
            return Decision([each.put for each in before], before)
        settled = settled[:limit]
    states = [put_state(image.brokers[number], fenced=False) for number in coming]
    return Decision([*(each.put for each in settled), *states], settled, whole=True)
