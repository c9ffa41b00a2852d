"""What was heard of the deaths of other brokers, and for how long it counts.

A refused connection tells of a death at once or not at all: a little later the session has ended, or a new life has
begun. Whoever answers again was never dead, and is not believed to be so for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from moldau.metadata.image import ClusterImage

COUNTS_SECONDS = 10.0
#: One that was taken for dead wrongly is not fenced on evidence again for so long: its presence decides.
SPARED_SECONDS = 60.0


class Deaths:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told: dict[UUID, float] = {}
        self._spared_until: dict[int, float] = {}

    def told(self, broker_id: int, incarnation: UUID) -> bool:
        """Whether it is believed."""
        now = self._monotonic()
        if now < self._spared_until.get(broker_id, 0.0):
            return False
        self._told[incarnation] = now
        return True

    def take_back(self, broker_id: int, incarnation: UUID) -> bool:
        """It has answered. Whether anything had been told."""
        if self._told.pop(incarnation, None) is None:
            return False
        self._spared_until[broker_id] = self._monotonic() + SPARED_SECONDS
        return True

    def known(self, image: ClusterImage) -> frozenset[UUID]:
        """Incarnations. A broker that registered anew is another one: what was said of the earlier is done with."""
        current = {broker.incarnation for broker in image.brokers.values()}
        oldest = self._monotonic() - COUNTS_SECONDS
        self._told = {each: at for each, at in self._told.items() if at >= oldest and each in current}
        return frozenset(self._told)
