"""Changes to the cluster's metadata: runs a pure rule on the current image, commits what it decides, waits for the
new image.

Only the active controller decides (`decide`): each of its commits checks that `/controller` is still as it knows it, so
that one that was replaced while it slept changes nothing. What concerns this broker alone (`decide_own`: its
registration, a claim, a block of producer ids) is decided by compare-and-set of the entry itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from moldau.config.broker import BrokerConfig
from moldau.metadata import paths
from moldau.metadata.controller.claim import is_active_controller
from moldau.metadata.controller.decision import Decision, Permission, Rule, everyone
from moldau.metadata.controller.in_sync import AlteredPartition, WantedIsr, alter_partitions
from moldau.metadata.controller.topic_creation import CreatedTopic, NewTopic, create_topics
from moldau.metadata.controller.topic_names import check_topic_name
from moldau.metadata.image import NO_CONTROLLER, ClusterImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import Check, Operation, VersionConflictError
from moldau.metrics import Histogram
from moldau.security.mutation_quotas import UNLIMITED_MUTATIONS, Mutations
from moldau.server.services import Services
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work
from moldau.work.turns import run

T = TypeVar("T")

MAX_CONFLICTS = 20


class Controller:
    def __init__(
        self, broker_id: int, services: Services, images: ImageHolder, config: Callable[[], BrokerConfig]
    ) -> None:
        self._broker_id = broker_id
        self._store = services.store
        self._images = images
        self._config = config
        self._lock = asyncio.Lock()
        self._monotonic = services.clocks.monotonic
        self._begun: float | None = None
        self.commit_times = Histogram()
        self.rng = services.rng
        self.new_uuid = services.new_uuid

    @property
    def is_active(self) -> bool:
        return is_active_controller(self._images.image, self._broker_id)

    @property
    def active_id(self) -> int | None:
        present = self._images.image.controller
        return None if present is None or present.id == NO_CONTROLLER else present.id

    @property
    def deciding_seconds(self) -> float:
        """For how long a decision is under way that this broker makes; 0 where none is."""
        return 0.0 if self._begun is None else self._monotonic() - self._begun

    async def decide(self, rule: Rule[T]) -> T:
        """The rule's answer, once what it decided is durable and this broker's image contains it. Raises
        NOT_CONTROLLER where another broker controls the cluster."""
        return await self._decide(rule, self._checks)

    async def decide_own(self, rule: Rule[T]) -> T:
        """The same for entries that this broker may change whoever controls the cluster."""
        return await self._decide(rule, no_checks)

    async def _decide(self, rule: Rule[T], checks: Callable[[ClusterImage], Sequence[Operation]]) -> T:
        async with self._lock:
            self._begun = self._monotonic()
            try:
                for _ in range(MAX_CONFLICTS):
                    image = self._images.image
                    checked = checks(image)
                    decided = rule(image)
                    decision = decided if isinstance(decided, Decision) else await run(decided)
                    try:
                        await self._commit(decision, checked)
                    except VersionConflictError:
                        # The change we collided with is on its way into our image.
                        await self._images.reached(await self._store.sync())
                        continue
                    return decision.answer
            finally:
                self._begun = None
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The metadata changed faster than this request could be decided.")

    async def _commit(self, decision: Decision[object], checked: Sequence[Operation]) -> None:
        revision = None
        for part in await run(decision.parting()):
            began = self._monotonic()
            try:
                revision = await self._store.commit([*checked, *part])
            finally:
                self.commit_times.record((self._monotonic() - began) * 1000)
        if revision is not None:
            await self._images.reached(revision)

    def _checks(self, image: ClusterImage) -> Sequence[Operation]:
        if image.controller is None or not is_active_controller(image, self._broker_id):
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return (Check(paths.CONTROLLER, image.controller.version),)

    # --- what is asked for often ---

    async def create_topics(
        self,
        wanted: list[NewTopic],
        validate_only: bool,
        may_create: Permission,
        mutations: Mutations = UNLIMITED_MUTATIONS,
    ) -> list[CreatedTopic]:
        def rule(image: ClusterImage) -> Work[Decision[list[CreatedTopic]]]:
            mutations.restart()
            return create_topics(
                image,
                wanted,
                self._config(),
                self.rng,
                self.new_uuid,
                validate_only=validate_only,
                may_create=may_create,
                charge=mutations.take,
            )

        return await self.decide(rule)

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, wanted: Sequence[WantedIsr]
    ) -> list[AlteredPartition]:
        """A leader asks for other in-sync sets. Raises STALE_BROKER_EPOCH, NOT_CONTROLLER."""
        return await self.decide(lambda image: alter_partitions(image, broker_id, broker_epoch, wanted, self._config()))

    async def auto_create_topic(self, name: str) -> None:
        """Creates a topic that a client asked for, with the broker's defaults; somebody else's creation is as good."""
        (created,) = await self.create_topics([NewTopic(name)], False, everyone)
        if created.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(created.code, created.message)

    @staticmethod
    def is_valid_name(name: str) -> bool:
        try:
            check_topic_name(name)
        except KafkaError:
            return False
        return True


def no_checks(_image: ClusterImage) -> Sequence[Operation]:
    return ()
