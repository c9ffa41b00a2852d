"""Following a store: every change becomes an image, in order, and nobody is told of half of one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest

from moldau.metadata import codec, paths, publisher
from moldau.metadata.codec import BadEntryError
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metadata.local import LocalStore
from moldau.metadata.publisher import ImageHolder, ImageNotFollowedError
from moldau.metadata.store import Changes, Listing, Operation, Put, Revision, Unwatch, Watcher
from moldau.work import turns
from moldau.work.slices import Work
from tests.fakes.lossy_files import LossyFiles

T = TypeVar("T")

PARTITION = codec.encode_partition([1], [1], 1, 0)


def topic(name: str, number: int, partitions: int = 1) -> list[Operation]:
    value = codec.encode_topic(UUID(int=number), partitions)
    return [Put(paths.topic(name), value), *(Put(paths.partition(name, i), PARTITION) for i in range(partitions))]


async def at_once(work: Callable[[], T]) -> T:
    return work()


async def opened() -> LocalStore:
    return await LocalStore.open("/metadata", at_once, files=LossyFiles())


class DelayedStore:
    """A store whose watchers hear of commits only when told to, as one across a network would."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.kept: list[Changes] = []
        self.watcher: Watcher | None = None

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        self.watcher = watcher
        return self.store.watch(prefix, self.kept.append)

    async def list(self, prefix: str) -> Listing:
        return await self.store.list(prefix)

    async def commit(self, operations: Sequence[Operation]) -> Revision:
        return await self.store.commit(operations)

    def deliver(self) -> None:
        assert self.watcher is not None
        while self.kept:
            self.watcher(self.kept.pop(0))


def test_the_image_holds_a_commit_when_it_returns() -> None:
    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await store.commit(topic("before", 200))
        assert list((await holder.start()).topics) == ["before"]
        revision = await store.commit(topic("t", 201, 3))
        assert await holder.reached(revision) is holder.image
        assert len(holder.image.topics["t"].partitions) == 3
        assert holder.image.version == revision
        await store.close()

    asyncio.run(scenario())


def test_subscribers_are_told_in_order_of_old_new_and_delta() -> None:
    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await holder.start()
        told: list[tuple[str, ClusterImage, ClusterImage, ImageDelta]] = []
        holder.subscribe(lambda old, new, delta: told.append(("first", old, new, delta)))
        unsubscribe = holder.subscribe(lambda old, new, delta: told.append(("second", old, new, delta)))
        before = holder.image
        await store.commit(topic("t", 201))
        middle = holder.image
        unsubscribe()
        await store.commit([Put(paths.topic_config("t"), codec.encode_settings({"a": "b"}))])
        assert [(name, old, new) for name, old, new, _ in told] == [
            ("first", before, middle),
            ("second", before, middle),
            ("first", middle, holder.image),
        ]
        assert [created.name for created in told[0][3].created] == ["t"]
        assert told[2][3].changed[0].settings_changed
        await store.close()

    asyncio.run(scenario())


def test_a_failing_subscriber_stops_the_image_before_anybody_serves_half_of_it() -> None:
    async def scenario() -> None:
        store = await opened()
        failures: list[Exception] = []
        holder = ImageHolder(store, failures.append)
        await holder.start()
        told: list[int] = []

        def fail(_old: ClusterImage, _new: ClusterImage, _delta: ImageDelta) -> None:
            raise RuntimeError("subscriber")

        holder.subscribe(fail)
        holder.subscribe(lambda _old, new, _delta: told.append(new.version))
        await store.commit(topic("t", 201))
        await store.commit(topic("u", 202))
        assert told == []
        assert holder.image.version == 0
        assert [str(each) for each in failures] == ["metadata version 1 is applied by half: subscriber"]
        await store.close()

    asyncio.run(scenario())


def test_everybody_has_prepared_before_anybody_applies_and_the_next_image_waits() -> None:
    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await holder.start()
        told: list[tuple[str, int]] = []
        go = asyncio.Event()

        async def prepared_later(version: int) -> None:
            told.append(("prepares", version))
            await go.wait()
            told.append(("has prepared", version))

        holder.subscribe(lambda _old, new, _delta: told.append(("first", new.version)))
        holder.subscribe(
            lambda _old, new, _delta: told.append(("second", new.version)),
            prepare=lambda _old, new, _delta: prepared_later(new.version) if new.version == 1 else None,
        )
        await store.commit(topic("t", 201))
        second = await store.commit(topic("u", 202))
        await asyncio.sleep(0)
        assert (told, holder.image.version) == ([("prepares", 1)], 0)
        go.set()
        await holder.reached(second)
        assert told[1:] == [("has prepared", 1), ("first", 1), ("second", 1), ("first", 2), ("second", 2)]
        await store.close()

    asyncio.run(scenario())


async def fails_later() -> None:
    await asyncio.sleep(0)
    raise OSError("no space")


def fails_at_once() -> None:
    raise OSError("no space")


@pytest.mark.parametrize("prepare", [fails_later, fails_at_once])
def test_what_cannot_be_prepared_is_not_applied(prepare: Callable[[], Awaitable[None] | None]) -> None:
    async def scenario() -> None:
        store = await opened()
        failures: list[Exception] = []
        holder = ImageHolder(store, failures.append)
        await holder.start()
        applied: list[int] = []
        holder.subscribe(lambda _old, new, _delta: applied.append(new.version))
        holder.subscribe(lambda _old, _new, _delta: None, prepare=lambda _old, _new, _delta: prepare())
        revision = await store.commit(topic("t", 201))
        with pytest.raises(ImageNotFollowedError, match="version 1 cannot be prepared for: no space"):
            await holder.reached(revision)
        assert (applied, len(failures), holder.image.version) == ([], 1, 0)
        await store.close()

    asyncio.run(scenario())


def test_waiting_for_a_revision_that_arrives_later() -> None:
    async def scenario() -> None:
        store = DelayedStore(await opened())
        holder = ImageHolder(store)  # type: ignore[arg-type]
        await holder.start()
        first = await store.commit(topic("a", 201))
        second = await store.commit(topic("b", 202))
        waits = [asyncio.create_task(holder.reached(revision)) for revision in (second, first)]
        await asyncio.sleep(0)
        assert holder.image.version == 0
        store.deliver()
        images = await asyncio.gather(*waits)
        assert images[0].version >= second and images[1].version >= first
        assert sorted(holder.image.topics) == ["a", "b"]
        await store.store.close()

    asyncio.run(scenario())


def test_changes_that_arrive_while_the_image_is_loaded_are_neither_lost_nor_done_twice() -> None:
    async def scenario() -> None:
        inner = await opened()

        class Busy(DelayedStore):
            async def list(self, prefix: str) -> Listing:
                await self.commit(topic("seen", 201))
                listing = await self.store.list(prefix)
                await self.commit(topic("missed", 202))
                self.deliver()
                return listing

        holder = ImageHolder(Busy(inner))  # type: ignore[arg-type]
        image = await holder.start()
        assert sorted(image.topics) == ["missed", "seen"]
        assert image.version == 2
        await inner.close()

    asyncio.run(scenario())


def test_a_stopped_holder_follows_no_more_and_ends_the_waits() -> None:
    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await holder.start()
        wait = asyncio.create_task(holder.reached(99))
        await asyncio.sleep(0)
        holder.stop()
        holder.stop()
        await asyncio.wait([wait])
        assert wait.cancelled()
        await store.commit(topic("t", 201))
        assert holder.image.version == 0
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (paths.topic("t"), b"{", "not JSON"),
        (paths.topic("t"), b'{"v":2}', "version 2"),
        (paths.topic("t"), b"[]", "version None"),
        (paths.partition("t", 0), b'{"v":1}', "no member 'replicas'"),
        ("/topics/t/partitions/-1", PARTITION, "not a number"),
        ("/brokers/x", b"", "not a number"),
    ],
)
def test_an_entry_that_cannot_be_read_stops_the_image(path: str, value: bytes, reason: str) -> None:
    async def scenario() -> None:
        store = await opened()
        failures: list[Exception] = []
        holder = ImageHolder(store, failures.append)
        await holder.start()
        wait = asyncio.create_task(holder.reached(2))
        await store.commit(topic("fine", 201))
        await store.commit([Put(path, value)])
        await store.commit(topic("later", 202))
        with pytest.raises(BadEntryError, match=reason):
            await wait
        with pytest.raises(BadEntryError, match=path):
            await holder.reached(3)
        assert list(holder.image.topics) == ["fine"]
        assert [cast(BadEntryError, failure).path for failure in failures] == [path]
        with pytest.raises(BadEntryError, match=path):
            await ImageHolder(store).start()
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_mistake_of_ours_stops_the_image_too(in_turns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next image would lack what was in this one."""

    def mistaken(_old: ClusterImage, _changes: Changes) -> Work[Any]:
        if in_turns:
            yield
        raise RuntimeError("a mistake of ours")
        yield

    async def scenario() -> None:
        ticks = count()
        monkeypatch.setattr(turns, "clock", lambda: float(next(ticks)))
        store = await opened()
        failures: list[Exception] = []
        holder = ImageHolder(store, failures.append)
        await holder.start()
        monkeypatch.setattr(publisher, "applying", mistaken)
        revision = await store.commit(topic("t", 201))
        with pytest.raises(ImageNotFollowedError, match="a mistake of ours"):
            await holder.reached(revision)
        monkeypatch.undo()
        await store.commit(topic("later", 202))
        assert (holder.image.topics, len(failures)) == ({}, 1)
        await store.close()

    asyncio.run(scenario())


def test_what_changes_while_the_image_is_held_waits_until_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(turns, "clock", lambda: float(next(ticks)))

    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await store.commit(topic("before", 200))
        await holder.start()
        seen: list[list[str]] = []
        told: list[list[str]] = []

        def load(image: ClusterImage) -> Work[None]:
            for _ in range(1000):
                seen.append(list(holder.image.topics))
                yield
            holder.subscribe(lambda old, new, delta: told.append([each.name for each in delta.created]))

        holding = asyncio.create_task(holder.hold(load))
        while not seen:  # noqa: ASYNC110 - it has begun
            await asyncio.sleep(0)
        revision = await store.commit(topic("later", 201))
        await holding
        assert seen == [["before"]] * 1000
        assert list((await holder.reached(revision)).topics) == ["before", "later"]
        assert told == [["later"]]
        holding = asyncio.create_task(holder.hold(load))
        await store.commit(topic("last", 202))
        await holding
        await store.close()

    asyncio.run(scenario())
