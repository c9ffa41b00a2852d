"""Follows a metadata store and brings each new image to its subscribers, in order and in two phases.

*Prepare* may wait and may fail: whatever an image needs on this broker (a log's files) is made here, while the old
image is still served. *Apply* may not fail: it takes over what is prepared, in turns if there is much of it. A broker
never goes on with half an image: when a subscriber fails, the image before stays, for good, and `on_failure` is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from moldau.metadata.codec import BadEntryError
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import ImageDelta, applying, build
from moldau.metadata.store import Changes, MetadataStore, Revision, Unwatch
from moldau.metadata.watching import Listeners
from moldau.work.slices import Work
from moldau.work.turns import begin, run

LOG = logging.getLogger(__name__)

Prepare: TypeAlias = Callable[[ClusterImage, ClusterImage, ImageDelta], Awaitable[None] | None]
"""Called with the old image, the new one and what differs; None where there is nothing to wait for."""
Apply: TypeAlias = Callable[[ClusterImage, ClusterImage, ImageDelta], Work[None] | None]
FailureWatcher: TypeAlias = Callable[[Exception], None]


class ImageNotFollowedError(Exception):
    """An image came that a subscriber could not take over."""


class _Subscriber(NamedTuple):
    apply: Apply
    prepare: Prepare | None


class ImageHolder:
    """The current image. Subscribers are called on the event loop, one after the other, before it becomes the current
    one; one that may have much to do returns work, which is done in turns.

    An entry that cannot be read (a later release wrote it), or a subscriber that fails, leaves the image as it was for
    good: what came after would be applied to the wrong past. `on_failure` is told, once, and every wait ends in the
    error.
    """

    def __init__(self, store: MetadataStore, on_failure: FailureWatcher | None = None) -> None:
        self._store = store
        self._on_failure = on_failure
        self._failure: Exception | None = None
        self._image = EMPTY_IMAGE
        self._unwatch: Unwatch | None = None
        self._loading: list[Changes] | None = None
        self._arrived: deque[Changes] = deque()
        self._following: asyncio.Task[None] | None = None
        self._subscribers: dict[object, _Subscriber] = {}
        self._watchers: Listeners[ClusterImage] = Listeners("the current image")
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

    def subscribe(self, apply: Apply, prepare: Prepare | None = None) -> Unwatch:
        """After each change, in the order of subscription: all of `prepare`, then all of `apply`."""
        key = object()
        self._subscribers[key] = _Subscriber(apply, prepare)

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    def watch(self, watcher: Callable[[ClusterImage], None]) -> Unwatch:
        """For who looks at the current image: is told of each once it is that, which may be many turns of the loop
        behind the subscribers."""
        return self._watchers.add(watcher)

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

    async def next(self) -> ClusterImage:
        """Waits for an image that is newer than the current one."""
        return await self.reached(self._image.version + 1)

    async def hold(self, load: Callable[[ClusterImage], Work[None]]) -> None:
        """Does what may take long with the current image, in turns: what changes meanwhile waits until it is done. Who
        subscribes in the end has missed nothing."""
        while self._following is not None:
            await asyncio.wait((self._following,))
        begun = begin(load(self._image))
        if begun is not None:
            self._following = asyncio.get_running_loop().create_task(self._held(begun))
            await self._following

    async def _held(self, loading: Awaitable[None]) -> None:
        try:
            await loading
        finally:
            self._following = None
            self._follow()

    def _on_changes(self, changes: Changes) -> None:
        if self._loading is not None:
            self._loading.append(changes)
            return
        self._arrived.append(changes)
        if self._following is None:
            self._follow()

    def _follow(self) -> None:
        """Applies what has arrived: small changes at once, large ones in turns, and all in their order."""
        while self._arrived and self._failure is None:
            taking_over = self._take_over(self._arrived.popleft())
            if taking_over is not None:
                self._following = asyncio.get_running_loop().create_task(self._go_on(taking_over))
                return

    async def _go_on(self, taking_over: Awaitable[None]) -> None:
        try:
            await taking_over
        finally:
            self._following = None
        self._follow()

    def _take_over(self, changes: Changes) -> Awaitable[None] | None:
        """Done at once, or something to await."""
        if changes.revision <= self._image.version:
            return None
        old = self._image
        try:
            built = begin(applying(old, changes))
        except Exception as error:
            self._fail(not_built(changes.revision, error))
            return None
        if isinstance(built, Awaitable):
            return self._take_over_in_turns(old, changes.revision, built)
        return self._prepare_and_apply(old, *built)

    async def _take_over_in_turns(
        self, old: ClusterImage, revision: Revision, building: Awaitable[tuple[ClusterImage, ImageDelta]]
    ) -> None:
        try:
            image, delta = await building
        except Exception as error:
            self._fail(not_built(revision, error))
            return
        rest = self._prepare_and_apply(old, image, delta)
        if rest is not None:
            await rest

    def _prepare_and_apply(self, old: ClusterImage, image: ClusterImage, delta: ImageDelta) -> Awaitable[None] | None:
        preparing: list[Awaitable[None]] = []
        try:
            for subscriber in tuple(self._subscribers.values()):
                begun = None if subscriber.prepare is None else subscriber.prepare(old, image, delta)
                if begun is not None:
                    preparing.append(begun)
        except Exception as error:
            self._fail(not_followed(image.version, "cannot be prepared for", error))
            return None
        if preparing:
            return self._apply_when_prepared(old, image, delta, preparing)
        return begin(self._apply(old, image, delta))

    async def _apply_when_prepared(
        self, old: ClusterImage, image: ClusterImage, delta: ImageDelta, preparing: Sequence[Awaitable[None]]
    ) -> None:
        try:
            await asyncio.gather(*preparing)
        except Exception as error:
            self._fail(not_followed(image.version, "cannot be prepared for", error))
            return
        await run(self._apply(old, image, delta))

    def _apply(self, old: ClusterImage, image: ClusterImage, delta: ImageDelta) -> Work[None]:
        for subscriber in tuple(self._subscribers.values()):
            try:
                work = subscriber.apply(old, image, delta)
                if work is not None:
                    yield from work
            except Exception as error:
                self._fail(not_followed(image.version, "is applied by half", error))
                return
        self._image = image
        for future, revision in self._waiting.items():
            if revision <= self._image.version and not future.done():
                future.set_result(self._image)
        self._watchers.tell(image)

    def _fail(self, error: Exception) -> None:
        LOG.critical(
            "the cluster's metadata can no longer be followed after version %d: %s", self._image.version, error
        )
        self._failure = error
        for future in self._waiting:
            if not future.done():
                future.set_exception(error)
        if self._on_failure is not None:
            self._on_failure(error)


def not_built(version: int, cause: Exception) -> Exception:
    """An entry that cannot be read says what is wrong; all else is a mistake of ours."""
    return cause if isinstance(cause, BadEntryError) else not_followed(version, "cannot be built", cause)


def not_followed(version: int, what: str, cause: Exception) -> ImageNotFollowedError:
    LOG.error("metadata version %d %s", version, what, exc_info=cause)
    error = ImageNotFollowedError(f"metadata version {version} {what}: {cause}")
    error.__cause__ = cause
    return error
