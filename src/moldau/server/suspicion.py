"""Holding an answer about partitions whose leader is suspected to be dead until the next image says who leads them.

A client that is told of the dead leader, or of none, asks again only after a pause of its own, which is longer than an
election takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from moldau.metadata.image import ClusterImage

if TYPE_CHECKING:
    from moldau.server.broker import Broker

LONGEST_HOLD_SECONDS: Final = 0.5
MOMENT_SECONDS: Final = 0.01
"""In which the end of a link is noticed, where the client's connection has ended by the same death."""


def concerns_suspects(image: ClusterImage, suspects: Collection[int], topics: Iterable[str]) -> bool:
    """Whether one of these topics has a partition that a suspected broker leads."""
    if not suspects:
        return False
    found = (image.topics.get(name) for name in topics)
    return any(partition.leader in suspects for topic in found if topic is not None for partition in topic.partitions)


def led_elsewhere(image: ClusterImage, local_id: int, topics: Iterable[str]) -> bool:
    """Whether one of these topics has a partition that is led by another broker, or by nobody."""
    found = (image.topics.get(name) for name in topics)
    return any(partition.leader != local_id for topic in found if topic is not None for partition in topic.partitions)


async def until_settled(broker: Broker, topics: Collection[str]) -> None:
    """Returns when no suspected broker leads these topics, after a while in any case."""
    try:
        async with asyncio.timeout(LONGEST_HOLD_SECONDS):
            while concerns_suspects(broker.image, broker.suspects, topics):
                await broker.images.reached(broker.image.version + 1)
    except TimeoutError:
        pass
