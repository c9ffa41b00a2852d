"""Changes to the cluster's metadata: runs a pure rule on the current image, commits what it decides, waits for the
new image.

One change at a time; with a shared store another controller's commit shows as a version conflict, and the rule is
asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.decision import Decision, Permission, Rule, everyone
from moldau.metadata.controller.topic_creation import CreatedTopic, NewTopic, create_topics
from moldau.metadata.controller.topic_names import check_topic_name
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import VersionConflictError
from moldau.server.services import Services
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.turns import run

T = TypeVar("T")

MAX_CONFLICTS = 20


class Controller:
    def __init__(
        self,
        services: Services,
        images: ImageHolder,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._store = services.store
        self._images = images
        self._config = config
        self._lock = asyncio.Lock()
        self.rng = services.rng
        self.new_uuid = services.new_uuid

    async def decide(self, rule: Rule[T]) -> T:
        """The rule's answer, once what it decided is durable and this broker's image contains it."""
        async with self._lock:
            for _ in range(MAX_CONFLICTS):
                decided = rule(self._images.image)
                decision = decided if isinstance(decided, Decision) else await run(decided)
                if not decision.operations:
                    return decision.answer
                try:
                    revision = await self._store.commit(decision.operations)
                except VersionConflictError:
                    # The change we collided with is on its way into our image.
                    await self._images.reached(await self._store.sync())
                    continue
                await self._images.reached(revision)
                return decision.answer
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The metadata changed faster than this request could be decided.")

    async def create_topics(
        self, wanted: list[NewTopic], validate_only: bool, may_create: Permission
    ) -> list[CreatedTopic]:
        return await self.decide(
            lambda image: create_topics(
                image,
                wanted,
                self._config(),
                self.rng,
                self.new_uuid,
                validate_only=validate_only,
                may_create=may_create,
            )
        )

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
