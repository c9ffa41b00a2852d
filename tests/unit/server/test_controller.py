"""How a change of metadata is decided when another one comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar, cast
from uuid import uuid4

import pytest

from moldau.metadata import codec, paths
from moldau.metadata.codec import BrokerEntry, ControllerEntry, Listener
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.local import LocalStore
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import ABSENT, Changes, Listing, Operation, Put, Revision, Unwatch, Watcher
from moldau.server.controller import MAX_CONFLICTS, Controller
from moldau.server.services import Clocks, Services
from moldau.types.errors import ErrorCode, KafkaError
from tests.fakes.lossy_files import LossyFiles

T = TypeVar("T")
NAME = "t"


async def at_once(work: Callable[[], T]) -> T:
    return work()


class SlowStore:
    """A store across a network: what others commit is told to watchers only when the test says so."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.kept: list[Changes] = []
        self.asked_to_sync = asyncio.Event()
        self.commits = 0

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        self.watcher = watcher
        return self.store.watch(prefix, self.kept.append)

    async def list(self, prefix: str) -> Listing:
        return await self.store.list(prefix)

    async def commit(self, operations: Sequence[Operation]) -> Revision:
        self.commits += 1
        revision = await self.store.commit(operations)
        self.deliver()
        return revision

    async def sync(self) -> Revision:
        self.asked_to_sync.set()
        return await self.store.sync()

    def deliver(self) -> None:
        while self.kept:
            self.watcher(self.kept.pop(0))


async def opened() -> tuple[SlowStore, Controller]:
    store = SlowStore(await LocalStore.open("/metadata", at_once, files=LossyFiles()))
    images = ImageHolder(cast(Any, store))
    await images.start()
    nothing = cast(Any, None)
    clocks = Clocks(lambda: 0.0, lambda: 0, lambda: 0.0)
    services = Services(
        cast(Any, store), nothing, nothing, nothing, clocks, Random(1), nothing, uuid4, nothing, nothing, nothing
    )
    return store, Controller(1, services, images, nothing)


def create_if_missing(image: ClusterImage) -> Decision[str]:
    if NAME in image.topics:
        return Decision((), "was there")
    return Decision((Put(paths.topic(NAME), codec.encode_topic(uuid4(), 0), ABSENT),), "created")


def test_after_a_conflict_the_rule_is_asked_again_with_the_other_change_in_the_image() -> None:
    async def scenario() -> None:
        store, controller = await opened()
        await store.store.commit(create_if_missing(ClusterImage()).operations)
        deciding = asyncio.create_task(controller.decide_own(create_if_missing))
        await store.asked_to_sync.wait()
        assert not deciding.done()
        store.deliver()
        assert await deciding == "was there"
        assert store.commits == 1

    asyncio.run(scenario())


def test_a_change_that_never_fits_is_given_up() -> None:
    async def scenario() -> None:
        store, controller = await opened()
        await store.commit(create_if_missing(ClusterImage()).operations)
        with pytest.raises(KafkaError) as refused:
            await controller.decide_own(lambda _: create_if_missing(ClusterImage()))
        assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
        assert store.commits == 1 + MAX_CONFLICTS

    asyncio.run(scenario())


def claimed_by(broker_id: int, version: int) -> list[Operation]:
    listener = Listener("PLAINTEXT", "here", 9092, "PLAINTEXT")
    registration = codec.encode_broker(BrokerEntry(uuid4(), (listener,)))
    claim = codec.encode_controller(ControllerEntry(broker_id, 1))
    return [Put(paths.broker(broker_id), registration), Put(paths.CONTROLLER, claim, version)]


def test_only_the_active_controller_decides() -> None:
    async def scenario() -> None:
        store, controller = await opened()
        with pytest.raises(KafkaError) as refused:
            await controller.decide(create_if_missing)
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await store.commit(claimed_by(1, ABSENT))
        assert controller.is_active
        assert await controller.decide(create_if_missing) == "created"

    asyncio.run(scenario())


def test_a_controller_that_was_replaced_while_it_slept_changes_nothing() -> None:
    async def scenario() -> None:
        store, controller = await opened()
        await store.commit(claimed_by(1, ABSENT))
        await store.store.commit(claimed_by(2, 0))  # on its way into our image, which still says that we control
        deciding = asyncio.create_task(controller.decide(create_if_missing))
        await store.asked_to_sync.wait()
        store.deliver()
        with pytest.raises(KafkaError) as refused:
            await deciding
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert controller.active_id == 2
        assert await store.store.read(paths.topic(NAME)) is None

    asyncio.run(scenario())
