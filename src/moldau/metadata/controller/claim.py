"""Who controls the cluster: claimed by compare-and-set, not inherited, so that nobody waits for a session to end.

A claim is allowed when the present controller is known to be gone: it stepped down, its presence ended, it registered
anew, or its incarnation is reported dead. Candidates wait their rank times a short pause; the first one's commit makes
those of the others fail.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from moldau.metadata import codec, paths
from moldau.metadata.codec import ControllerEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import NO_CONTROLLER, ClusterImage
from moldau.metadata.store import ABSENT, Put

RANK_PAUSE_MS = 50


def may_claim(image: ClusterImage, broker_id: int, alive: Collection[int], dead: Collection[UUID]) -> bool:
    """Whether this broker, which must be registered, may take the cluster over. `dead` are incarnations."""
    if broker_id not in image.brokers:
        return False
    present = image.controller
    if present is None or present.id == NO_CONTROLLER:
        return True
    holder = image.brokers.get(present.id)
    if holder is None or holder.epoch != present.broker_epoch:
        return True
    return present.id != broker_id and (present.id not in alive or holder.incarnation in dead)


def is_active_controller(image: ClusterImage, broker_id: int) -> bool:
    """Whether this registration of the broker is the one that controls."""
    present, broker = image.controller, image.brokers.get(broker_id)
    return (
        present is not None and broker is not None and (present.id, present.broker_epoch) == (broker_id, broker.epoch)
    )


def rank(image: ClusterImage, broker_id: int, alive: Collection[int]) -> int:
    """How many candidates go first: those that take part before those that are fenced, then by their ids."""
    gone = NO_CONTROLLER if image.controller is None else image.controller.id
    candidates = [each for each in image.brokers.values() if each.id in alive and each.id != gone]
    order = sorted((not each.is_active, each.id) for each in candidates if each.id != broker_id)
    own = image.brokers.get(broker_id)
    mine = (own is None or not own.is_active, broker_id)
    return sum(other < mine for other in order)


def claim(image: ClusterImage, broker_id: int) -> Decision[int]:
    """Takes the cluster over as the broker is registered now. Answers the controller epoch."""
    present = image.controller
    version = ABSENT if present is None else present.version
    unknown = codec.NOTHING_ELSE if present is None else present.unknown
    entry = ControllerEntry(broker_id, image.brokers[broker_id].epoch, unknown)
    return Decision([Put(paths.CONTROLLER, codec.encode_controller(entry), version)], version + 2)


def step_down(image: ClusterImage, broker_id: int) -> Decision[bool]:
    """Before a stop: the next one need not wait until we are found missing. The entry stays, so that epochs rise."""
    present = image.controller
    if present is None or not is_active_controller(image, broker_id):
        return Decision([], False)
    entry = ControllerEntry(NO_CONTROLLER, codec.NO_EPOCH, present.unknown)
    return Decision([Put(paths.CONTROLLER, codec.encode_controller(entry), present.version)], True)
