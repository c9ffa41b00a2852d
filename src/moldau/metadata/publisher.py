"""Follows a metadata store and tells subscribers of each new image, in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from moldau.metadata.codec import BadEntryError
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import ImageDelta, applying, build
from moldau.metadata.store import Changes, MetadataStore, Revision, Unwatch
from moldau.work.turns import Work, begin

LOG = logging.getLogger(__name__)

ImageSubscriber: TypeAlias = Callable[[ClusterImage, ClusterImage, ImageDelta], Work[None] | None]
FailureWatcher: TypeAlias = Callable[[BadEntryError], None]


class ImageHolder:
    """The current image. Subscribers are called on the event loop, one after the other, before it becomes the current
    one; one that may have much to do returns work, which is done in turns.

    An entry that cannot be read (a later release wrote it) leaves the image as it was for good: what came after would
    be applied to the wrong past. `on_failure` is told, once, and every wait ends in the error.
    """

    def __init__(self, store: MetadataStore, on_failure: FailureWatcher | None = None) -> None:
        self._store = store
        self._on_failure = on_failure
        self._failure: BadEntryError | None = None
        self._image = EMPTY_IMAGE
        self._unwatch: Unwatch | None = None
        self._loading: list[Changes] | None = None
        self._arrived: deque[Changes] = deque()
        self._following: asyncio.Task[None] | None = None
        self._subscribers: dict[object, ImageSubscriber] = {}
        self._waiting: dict[asyncio.Future[ClusterImage], Revision] = {}

    @property
    def image(self) -> ClusterImage:
        return self._image

    async def start(self) -> ClusterImage:
        """Loads the image and follows the store; subscribers hear of what comes after. Raises BadEntryError."""
        self._loading = []
        self._unwatch = self._store.watch("/", self._on_changes)
        try:
            self._image = build(await self._store.list("/"))
        except BaseException:
            self.stop()
            raise
        arrived, self._loading = self._loading, None
        for changes in arrived:
            self._on_changes(changes)
        return self._image

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._arrived.clear()
        if self._following is not None:
            self._following.cancel()
        for future in tuple(self._waiting):
            future.cancel()

    def subscribe(self, subscriber: ImageSubscriber) -> Unwatch:
        """`subscriber(old, new, delta)` after each change, in the order of subscription."""
        key = object()
        self._subscribers[key] = subscriber

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    async def reached(self, revision: Revision) -> ClusterImage:
        """The image once it contains the commit with this revision."""
        if self._image.version >= revision:
            return self._image
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()
        self._waiting[future] = revision
        try:
            return await future
        finally:
            del self._waiting[future]

    def _on_changes(self, changes: Changes) -> None:
        if self._loading is not None:
            self._loading.append(changes)
            return
        self._arrived.append(changes)
        if self._following is None:
            self._follow()

    def _follow(self) -> None:
        """Applies what has arrived: small changes at once, large ones in turns, and all in their order."""
        while self._arrived:
            begun = begin(self._apply(self._arrived.popleft()))
            if begun is not None:
                self._following = asyncio.get_running_loop().create_task(self._go_on(begun))
                return

    async def _go_on(self, begun: Awaitable[None]) -> None:
        try:
            await begun
        finally:
            self._following = None
        self._follow()

    def _apply(self, changes: Changes) -> Work[None]:
        if changes.revision <= self._image.version or self._failure is not None:
            return
        old = self._image
        try:
            image, delta = yield from applying(old, changes)
        except BadEntryError as error:
            self._fail(error)
            return
        for subscriber in tuple(self._subscribers.values()):
            try:
                work = subscriber(old, image, delta)
                if work is not None:
                    yield from work
            except Exception:
                LOG.exception("a subscriber of metadata version %d failed", image.version)
        self._image = image
        for future, revision in self._waiting.items():
            if revision <= self._image.version and not future.done():
                future.set_result(self._image)

    def _fail(self, error: BadEntryError) -> None:
        LOG.critical(
            "the cluster's metadata can no longer be followed after version %d: %s", self._image.version, error
        )
        self._failure = error
        for future in self._waiting:
            if not future.done():
                future.set_exception(error)
        if self._on_failure is not None:
            self._on_failure(error)
