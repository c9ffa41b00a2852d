"""Commits about thousands of entries: planned, written and applied in turns, yet whole, in order, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import pytest

from moldau.metadata import codec, paths
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metadata.local import LocalStore
from moldau.metadata.publisher import ImageHolder, ImageNotFollowedError
from moldau.metadata.store import ABSENT, CommitFailedError, Delete, Operation, Put, VersionConflictError
from moldau.work import turns
from moldau.work.slices import Work
from tests.fakes.faulty_files import FaultyFiles
from tests.fakes.lossy_files import LossyFiles

T = TypeVar("T")
MANY = 2000
PARTITION = codec.encode_partition([1], [1], 1, 0)


@pytest.fixture(autouse=True)
def a_slice_ends_at_every_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100_000_000))
    monkeypatch.setattr(turns, "clock", lambda: float(next(seconds)))


async def at_once(work: Callable[[], T]) -> T:
    return work()


async def opened() -> LocalStore:
    return await LocalStore.open("/metadata", at_once, files=LossyFiles())


def topic(name: str, partitions: int = MANY) -> list[Operation]:
    value = codec.encode_topic(UUID(int=len(name) * 1000 + 200), partitions)
    return [Put(paths.topic(name), value), *(Put(paths.partition(name, i), PARTITION) for i in range(partitions))]


def entries(name: str, value: bytes, expected: int | None = None) -> list[Operation]:
    return [Put(f"/{name}/{number}", value, expected) for number in range(MANY)]


def test_a_small_commit_behind_a_large_one_sees_what_that_one_will_leave() -> None:
    async def scenario() -> None:
        store = await opened()
        large = asyncio.create_task(store.commit(entries("a", b"1", ABSENT)))
        await asyncio.sleep(0)
        small = asyncio.create_task(store.commit([Put("/a/7", b"2", 0)]))
        assert await small == await large + 1
        found = (await store.list("/a")).entries
        assert len(found) == MANY
        assert (found["/a/7"].value, found["/a/7"].version) == (b"2", 1)
        await store.close()

    asyncio.run(scenario())


def test_readers_see_all_of_a_large_commit_or_nothing() -> None:
    async def scenario() -> None:
        store = await opened()
        await store.commit(entries("a", b"1"))
        change = [*(Delete(f"/a/{number}") for number in range(MANY)), *entries("b", b"2")]
        commit = asyncio.create_task(store.commit(change))
        seen = set()
        while not commit.done():
            listing = await store.list("/")
            kinds = {path.split("/")[1] for path in listing.entries}
            seen.add((listing.revision, len(listing.entries), frozenset(kinds)))
            await asyncio.sleep(0)
        seen.add((2, len((await store.list("/")).entries), frozenset("b")))
        assert seen == {(1, MANY, frozenset("a")), (2, MANY, frozenset("b"))}
        await store.close()

    asyncio.run(scenario())


def test_a_plan_that_rests_on_a_failed_commit_is_made_anew() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        store = await LocalStore.open("/metadata", at_once, files=disk)
        await store.commit([Put("/a/5", b"0")])
        disk.fail_writes = 0
        failing = asyncio.create_task(store.commit([Put("/a/5", b"1", 0)]))
        await asyncio.sleep(0)
        resting = asyncio.create_task(store.commit([*entries("b", b"1"), Put("/a/5", b"2", 1)]))
        with pytest.raises(CommitFailedError):
            await failing
        disk.fail_writes = None
        with pytest.raises((VersionConflictError, CommitFailedError)):
            await resting
        assert {path: each.value for path, each in (await store.list("/")).entries.items()} == {"/a/5": b"0"}
        await store.commit([Put("/a/5", b"3", 0)])
        await store.close()

    asyncio.run(scenario())


def test_an_image_becomes_current_when_every_subscriber_has_done_its_work() -> None:
    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await holder.start()
        told: list[tuple[str, int, int]] = []

        def works(_old: ClusterImage, new: ClusterImage, _delta: ImageDelta) -> Work[None]:
            for _ in range(5):
                told.append(("works", new.version, holder.image.version))
                yield

        def is_told(_old: ClusterImage, new: ClusterImage, _delta: ImageDelta) -> None:
            told.append(("is told", new.version, holder.image.version))

        holder.subscribe(works)
        holder.subscribe(is_told)
        large = await store.commit(topic("t"))
        small = await store.commit([Put(paths.topic_config("t"), codec.encode_settings({"a": "b"}))])
        assert holder.image.version < small
        image = await holder.reached(small)
        assert len(image.topics["t"].partitions) == MANY
        assert image.topics["t"].configs == {"a": "b"}
        expected = [("works", large, 0)] * 5 + [("is told", large, 0)]
        assert told == expected + [("works", small, large)] * 5 + [("is told", small, large)]
        await store.close()

    asyncio.run(scenario())


def test_a_subscriber_whose_work_fails_leaves_the_image_as_it_was() -> None:
    async def scenario() -> None:
        store = await opened()
        failures: list[Exception] = []
        holder = ImageHolder(store, failures.append)
        await holder.start()

        def fails(_old: ClusterImage, _new: ClusterImage, _delta: ImageDelta) -> Work[None]:
            yield
            raise RuntimeError("in the middle")

        holder.subscribe(fails)
        revision = await store.commit(topic("t"))
        with pytest.raises(ImageNotFollowedError, match="version 1 is applied by half: in the middle"):
            await holder.reached(revision)
        assert holder.image.version == 0
        assert len(failures) == 1
        await store.close()

    asyncio.run(scenario())


def test_a_holder_that_is_stopped_in_the_middle_ends_the_waits() -> None:
    async def scenario() -> None:
        store = await opened()
        holder = ImageHolder(store)
        await holder.start()
        revision = await store.commit(topic("t"))
        wait = asyncio.create_task(holder.reached(revision))
        await asyncio.sleep(0)
        holder.stop()
        await asyncio.wait([wait])
        assert wait.cancelled()
        assert holder.image.version == 0
        await store.close()

    asyncio.run(scenario())
