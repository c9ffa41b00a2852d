"""Runs the controller's rules against the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import MetadataStore, VersionConflictError

T = TypeVar("T")


class MetadataWriter:
    """Reads the image, asks a rule, commits what it decides; anew if someone else was faster."""

    def __init__(self, store: MetadataStore, images: ImageHolder) -> None:
        self._store = store
        self._images = images
        self._turn = asyncio.Lock()

    async def execute(self, rule: Callable[[ClusterImage], Decision[T]]) -> T:
        """The rule's answer, once what it decided is durable and in the image. Raises what rule or store raises."""
        async with self._turn:
            while True:
                decision = rule(self._images.image)
                if not decision.operations:
                    return decision.answer
                try:
                    revision = await self._store.commit(decision.operations)
                except VersionConflictError:
                    await self._images.reached(await self._store.sync())
                    continue
                await self._images.reached(revision)
                return decision.answer
