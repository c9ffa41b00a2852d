"""Nobody is taken for dead who is not: a broker that runs is fenced when its presence has ended, and not before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from moldau.server.deaths import COUNTS_SECONDS

if TYPE_CHECKING:
    from moldau.metadata.image import BrokerImage, ClusterImage
    from tests.simulation.world import World

#: Between two looks at an image, and for a decision on its way.
SLACK_SECONDS = 1.0


class TakenIn(NamedTuple):
    incarnation: UUID
    since: float


class Fences:
    def __init__(self, world: World) -> None:
        self._world = world
        self._version = 0
        self._taken_in: dict[int, TakenIn] = {}
        self._accused_at: dict[int, float] = {}

    def accuse(self, broker_id: int) -> None:
        """Somebody lies about it."""
        self._accused_at[broker_id] = self._world.scheduler.now

    def look(self, image: ClusterImage) -> str | None:
        """What is wrong with an image that nobody has had before."""
        if image.version < self._version:
            return None
        self._version = image.version
        for broker in image.brokers.values():
            before = self._taken_in.get(broker.id)
            is_same = before is not None and before.incarnation == broker.incarnation
            if not broker.fenced and not is_same:
                self._taken_in[broker.id] = TakenIn(broker.incarnation, self._world.scheduler.now)
            elif broker.fenced and before is not None and is_same:
                del self._taken_in[broker.id]
                if self._runs(broker) and not self._has_reason(broker.id, before.since):
                    return f"broker {broker.id} is fenced at revision {image.version}, and lives"
        return None

    def _runs(self, broker: BrokerImage) -> bool:
        life = self._world.machines[broker.id].life
        membership = None if life is None else getattr(life.core, "membership", None)
        return membership is not None and membership.incarnation == broker.incarnation

    def _has_reason(self, broker_id: int, since: float) -> bool:
        was_absent = self._world.ensemble.absent_at.get(broker_id, -math.inf) >= since - SLACK_SECONDS
        accused_at = self._accused_at.get(broker_id, -math.inf)
        return was_absent or self._world.scheduler.now < accused_at + COUNTS_SECONDS + SLACK_SECONDS
