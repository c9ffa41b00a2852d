"""What the active controller has to do, seen from one image: asked after each image until it decides nothing.

Levels, not edges (see `levels`): a controller that takes over in the middle of anything goes on from what it finds. One
kind of work is decided at a time: brokers that are gone, brokers that come, partitions that are not as they should be,
preferred leaders, pieces that were left over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.balance import DEFAULT_PERCENTAGE, balancing
from moldau.metadata.controller.decision import PARTITIONS_PER_COMMIT, Decision
from moldau.metadata.controller.features import unsupported
from moldau.metadata.controller.fencing import fence, unfence
from moldau.metadata.controller.levels import Settled, settling, unsettled
from moldau.metadata.controller.orphans import sweeping
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import ClusterImage
from moldau.work.slices import Work

_NOBODY: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of brokers beside their presence.

    `caught_up`: the registration epoch that a broker's own image has reached. `dead`: incarnations that do not answer
    any more (a refused connection), whatever their presence says.
    """

    caught_up: Mapping[int, int] = field(default_factory=lambda: _NOBODY)
    dead: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class DutySettings:
    """`config` holds the cluster's defaults; `balance_at_ms` is when preferred leaders are looked at next."""

    config: BrokerConfig
    imbalance_percentage: int = DEFAULT_PERCENTAGE
    balance_at_ms: int | None = None
    trust_boot_id: bool = True
    partitions_per_commit: int = PARTITIONS_PER_COMMIT


@dataclass(frozen=True, slots=True)
class Done:
    """For logs and gauges: what a decision of the duties is about. `balanced` tells that the balance was looked at."""

    fenced: tuple[int, ...] = ()
    unfenced: tuple[int, ...] = ()
    partitions: int = 0
    elections: int = 0
    swept: int = 0
    balanced: bool = False


def duties(
    image: ClusterImage, alive: Collection[int], evidence: Evidence, now_ms: int, settings: DutySettings
) -> Work[Decision[Done]]:
    """`alive` are the brokers whose presence is known, `now_ms` any clock that `balance_at_ms` is told by."""
    config = settings.config
    gone = _gone(image, alive, evidence)
    if gone:
        decision = yield from fence(image, gone, config, limit=settings.partitions_per_commit)
        return Decision(decision.operations, _done(decision.answer, fenced=gone), whole=True)
    coming = _coming(image, alive, evidence)
    if coming:
        taken = yield from unfence(
            image, coming, config, trust_boot_id=settings.trust_boot_id, limit=settings.partitions_per_commit
        )
        unfenced = coming if taken.whole else ()
        return Decision(taken.operations, _done(taken.answer, unfenced=unfenced), whole=taken.whole)
    standing = Standing(image, trust_boot_id=settings.trust_boot_id)
    index = yield from image.indexing()
    places = yield from unsettled(image, index, standing)
    settled = yield from settling(image, places, [standing], config, settings.partitions_per_commit)
    if settled:
        return Decision([each.put for each in settled], _done(settled), whole=True)
    balance_is_due = settings.balance_at_ms is not None and now_ms >= settings.balance_at_ms
    if balance_is_due:
        moved = yield from balancing(image, config, settings.imbalance_percentage)
        if moved:
            return Decision([each.put for each in moved], _done(moved, balanced=True))
    swept = yield from sweeping(image)
    return Decision(swept, Done(swept=len(swept), balanced=balance_is_due))


def _gone(image: ClusterImage, alive: Collection[int], evidence: Evidence) -> tuple[int, ...]:
    """Who is to be fenced. A controller that does not see itself has lost its session: its view counts for nothing."""
    controller = image.controller
    if controller is not None and controller.id not in alive:
        return ()
    return tuple(
        broker.id
        for _, broker in sorted(image.brokers.items())
        if not broker.fenced and (broker.id not in alive or broker.incarnation in evidence.dead)
    )


def _coming(image: ClusterImage, alive: Collection[int], evidence: Evidence) -> tuple[int, ...]:
    return tuple(
        broker.id
        for _, broker in sorted(image.brokers.items())
        if broker.fenced
        and broker.id in alive
        and broker.incarnation not in evidence.dead
        and evidence.caught_up.get(broker.id) == broker.epoch
        and unsupported(broker.features, image.features.levels) is None  # raised while it registered
    )


def _done(
    settled: list[Settled], *, fenced: tuple[int, ...] = (), unfenced: tuple[int, ...] = (), balanced: bool = False
) -> Done:
    elected = [each for each in settled if each.elected]
    return Done(
        fenced=fenced,
        unfenced=unfenced,
        partitions=len(settled),
        elections=len(elected),
        balanced=balanced,
    )
