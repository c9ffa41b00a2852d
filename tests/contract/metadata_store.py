"""What every metadata store promises. A store's own test module derives from this class and opens stores.

The promises are those of moldau/metadata/store.py; they hold for a store of one process and for one shared by many.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar

import pytest

from moldau.metadata.store import (
    ABSENT,
    MAX_VALUE_BYTES,
    Change,
    Changes,
    Check,
    ClusterStore,
    Delete,
    InvalidOperationError,
    Put,
    SessionState,
    StoreClosedError,
    StoreError,
    VersionConflictError,
)

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[ClusterStore]]
T = TypeVar("T")
PATIENCE_SECONDS = 30


def registration(*directories: str) -> bytes:
    return json.dumps({"version": 5, "host": "h", "port": 9092, "directories": list(directories)}).encode()


def scenario(test: Callable[[Any, Opener], Coroutine[Any, Any, None]]) -> Callable[[Any, Opener], None]:
    @functools.wraps(test)
    def run(self: Any, opened: Opener) -> None:
        asyncio.run(asyncio.wait_for(test(self, opened), PATIENCE_SECONDS))

    return run


class Watched:
    """Remembers what a watcher was told; `until` waits for it."""

    def __init__(self) -> None:
        self.events: list[Changes] = []
        self._more = asyncio.Event()

    def __call__(self, changes: Changes) -> None:
        self.events.append(changes)
        self._more.set()

    @property
    def changes(self) -> list[Change]:
        return [change for event in self.events for change in event.changes]

    async def until(self, wanted: Callable[[], bool]) -> None:
        while not wanted():
            self._more.clear()
            await self._more.wait()

    async def until_seen(self, *paths: str) -> None:
        await self.until(lambda: set(paths) <= {change.path for change in self.changes})


class Heard(Generic[T]):
    """Remembers all that a listener was told; `until` waits for one thing."""

    def __init__(self) -> None:
        self.news: list[T] = []
        self._more = asyncio.Event()

    def __call__(self, news: T) -> None:
        self.news.append(news)
        self._more.set()

    async def some(self) -> None:
        while not self.news:
            self._more.clear()
            await self._more.wait()

    async def until(self, wanted: T) -> None:
        while not self.news or self.news[-1] != wanted:
            self._more.clear()
            await self._more.wait()


async def outcome_of(commit: Awaitable[object]) -> object:
    try:
        return await commit
    except StoreError as error:
        return error


class MetadataStoreContract:
    @pytest.fixture
    def opened(self) -> Opener:
        """Opens a session on the same data each time, and closes it at the end."""
        raise NotImplementedError

    @scenario
    async def test_an_entry_that_was_never_put_is_none(self, opened: Opener) -> None:
        async with opened() as store:
            assert await store.read("/a") is None
            assert dict((await store.list("/")).entries) == {}

    @scenario
    async def test_a_put_creates_version_0_and_later_puts_raise_it_by_one(self, opened: Opener) -> None:
        async with opened() as store:
            first = await store.commit([Put("/a", b"one")])
            entry = await store.read("/a")
            assert entry is not None
            assert (entry.value, entry.version, entry.created, entry.revision) == (b"one", 0, first, first)
            second = await store.commit([Put("/a", b"two")])
            entry = await store.read("/a")
            assert entry is not None
            assert (entry.value, entry.version, entry.created, entry.revision) == (b"two", 1, first, second)
            assert second > first

    @scenario
    async def test_a_put_with_the_right_version_is_done_and_with_another_refused(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/a", b"0", ABSENT)])
            await store.commit([Put("/a", b"1", 0)])
            for version in (0, 2, ABSENT):
                with pytest.raises(VersionConflictError) as refused:
                    await store.commit([Put("/a", b"x", version)])
                assert (refused.value.path, refused.value.expected, refused.value.actual) == ("/a", version, 1)
            entry = await store.read("/a")
            assert entry is not None and (entry.value, entry.version) == (b"1", 1)

    @scenario
    async def test_a_put_that_expects_a_version_needs_the_entry(self, opened: Opener) -> None:
        async with opened() as store:
            with pytest.raises(VersionConflictError) as refused:
                await store.commit([Put("/a", b"x", 0)])
            assert refused.value.actual == ABSENT
            assert await store.read("/a") is None

    @scenario
    async def test_delete_removes_an_entry_which_may_be_created_anew(self, opened: Opener) -> None:
        async with opened() as store:
            first = await store.commit([Put("/a", b"1")])
            await store.commit([Put("/a", b"2")])
            with pytest.raises(VersionConflictError):
                await store.commit([Delete("/a", 0)])
            await store.commit([Delete("/a", 1)])
            assert await store.read("/a") is None
            again = await store.commit([Put("/a", b"3", ABSENT)])
            entry = await store.read("/a")
            assert entry is not None and (entry.version, entry.created) == (0, again)
            assert again > first
            await store.commit([Delete("/a")])
            assert await store.read("/a") is None

    @scenario
    async def test_what_is_not_there_cannot_be_deleted(self, opened: Opener) -> None:
        async with opened() as store:
            for version in (None, 0):
                with pytest.raises(VersionConflictError) as refused:
                    await store.commit([Delete("/a", version)])
                assert refused.value.actual == ABSENT

    @scenario
    async def test_a_check_guards_a_commit_without_changing_the_entry(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/guard", b"")])
            await store.commit([Check("/guard", 0), Check("/none", ABSENT), Put("/a", b"1")])
            for wrong in (Check("/guard", 1), Check("/guard", ABSENT), Check("/none", 0)):
                with pytest.raises(VersionConflictError):
                    await store.commit([Put("/b", b"1"), wrong])
            entry = await store.read("/guard")
            assert entry is not None and entry.version == 0
            assert sorted((await store.list("/")).entries) == ["/a", "/guard"]

    @scenario
    async def test_a_commit_does_all_or_nothing(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/kept", b"old"), Put("/gone", b"old")])
            watched = Watched()
            store.watch("/", watched)
            with pytest.raises(VersionConflictError):
                await store.commit([Put("/kept", b"new"), Delete("/gone"), Put("/fresh", b""), Put("/kept/x", b"", 7)])
            entries = (await store.list("/")).entries
            assert {path: entry.value for path, entry in entries.items()} == {"/kept": b"old", "/gone": b"old"}
            assert all(entry.version == 0 for entry in entries.values())
            await store.commit([Put("/end", b"")])
            await watched.until_seen("/end")
            assert [change.path for change in watched.changes] == ["/end"]

    @scenario
    async def test_a_commit_of_one_revision_changes_many_entries(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/a", b"1"), Put("/b", b"1")])
            revision = await store.commit([Put("/a", b"2"), Delete("/b"), Put("/c", b"2")])
            listing = await store.list("/")
            assert {path: entry.revision for path, entry in listing.entries.items()} == {"/a": revision, "/c": revision}
            assert listing.revision >= revision

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "a",
            "/",
            "//a",
            "/a/",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/é",
            "/a\n",
            "/a\0",
            "/" + "x" * 60_000,
        ],
    )
    def test_a_malformed_path_is_refused(self, opened: Opener, path: str) -> None:
        async def run() -> None:
            async with opened() as store:
                for operation in (Put(path, b""), Delete(path), Check(path, 0)):
                    with pytest.raises(InvalidOperationError):
                        await store.commit([Put("/fine", b""), operation])
                assert await store.read("/fine") is None

        asyncio.run(run())

    @scenario
    async def test_one_path_twice_in_a_commit_is_refused(self, opened: Opener) -> None:
        async with opened() as store:
            with pytest.raises(InvalidOperationError):
                await store.commit([Put("/a", b"1"), Put("/a", b"2")])
            with pytest.raises(InvalidOperationError):
                await store.commit([Check("/a", ABSENT), Put("/a", b"2")])
            assert await store.read("/a") is None

    @scenario
    async def test_values_have_a_limit(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/empty", b""), Put("/bytes", bytes(range(256)))])
            await store.commit([Put("/most", b"x" * MAX_VALUE_BYTES)])
            with pytest.raises(InvalidOperationError):
                await store.commit([Put("/more", b"x" * (MAX_VALUE_BYTES + 1))])
            entries = (await store.list("/")).entries
            assert {path: len(entry.value) for path, entry in entries.items()} == {
                "/empty": 0,
                "/bytes": 256,
                "/most": MAX_VALUE_BYTES,
            }
            assert entries["/bytes"].value == bytes(range(256))

    @scenario
    async def test_a_commit_has_a_limit_as_it_is_compressed(self, opened: Opener) -> None:
        async with opened() as store:
            noise = [Random(number).randbytes(400_000) for number in range(3)]
            await store.commit([Put(f"/{number}", value) for number, value in enumerate(noise[:2])])
            with pytest.raises(InvalidOperationError, match="make several of it"):
                await store.commit([Put(f"/{number}", value) for number, value in enumerate(noise)])
            await store.commit([Put("/after", b"")])
            assert sorted((await store.list("/")).entries) == ["/0", "/1", "/after"]

    @scenario
    async def test_a_prefix_ends_at_a_slash(self, opened: Opener) -> None:
        async with opened() as store:
            paths = ["/topics", "/topics/a", "/topics/a/partitions/0", "/topics/ab", "/topics.x", "/other"]
            await store.commit([Put(path, b"") for path in paths])
            assert sorted((await store.list("/topics/a")).entries) == ["/topics/a", "/topics/a/partitions/0"]
            assert sorted((await store.list("/topics")).entries) == sorted(paths[:4])
            assert sorted((await store.list("/")).entries) == sorted(paths)
            assert dict((await store.list("/none")).entries) == {}

    @scenario
    async def test_watchers_are_told_of_later_changes_below_their_prefix(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/a/before", b"")])
            watched, everything = Watched(), Watched()
            store.watch("/a", watched)
            store.watch("/", everything)
            first = await store.commit([Put("/a", b"1"), Put("/ab", b""), Put("/a/x", b"2")])
            second = await store.commit([Delete("/a/x"), Put("/b", b"")])
            await watched.until_seen("/a", "/a/x")
            await watched.until(lambda: watched.changes[-1].entry is None)
            await everything.until_seen("/a", "/ab", "/a/x", "/b")
            assert {change.path for change in watched.changes} == {"/a", "/a/x"}
            put = next(change.entry for change in watched.changes if change.path == "/a")
            assert put is not None and (put.value, put.version, put.revision) == (b"1", 0, first)
            assert watched.events[-1].revision == second

    @scenario
    async def test_watchers_see_revisions_in_order_and_end_at_the_present(self, opened: Opener) -> None:
        async with opened() as store:
            watched = Watched()
            store.watch("/n", watched)
            for number in range(20):
                await store.commit([Put("/n", str(number).encode())])
            last = await store.read("/n")
            await watched.until(lambda: bool(watched.changes) and watched.changes[-1].entry == last)
            revisions = [event.revision for event in watched.events]
            assert revisions == sorted(set(revisions))

    @scenario
    async def test_an_unwatched_watcher_is_left_alone(self, opened: Opener) -> None:
        async with opened() as store:
            gone, staying = Watched(), Watched()
            unwatch = store.watch("/", gone)
            store.watch("/", staying)
            unwatch()
            unwatch()
            await store.commit([Put("/a", b"")])
            await staying.until_seen("/a")
            assert gone.events == []

    @scenario
    async def test_a_failing_watcher_harms_nobody(self, opened: Opener) -> None:
        async with opened() as store:

            def fail(_changes: Changes) -> None:
                raise RuntimeError("watcher")

            watched = Watched()
            store.watch("/", fail)
            store.watch("/", watched)
            await store.commit([Put("/a", b"")])
            await watched.until_seen("/a")
            await store.commit([Put("/b", b"")])
            await watched.until_seen("/b")

    @scenario
    async def test_of_many_who_expect_the_same_version_one_wins(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/a", b"")])
            attempts = [store.commit([Put("/a", str(n).encode(), 0), Put(f"/won/{n}", b"")]) for n in range(20)]
            outcomes = await asyncio.gather(*map(outcome_of, attempts))
            winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, int)]
            assert len(winners) == 1
            assert all(isinstance(outcomes[n], VersionConflictError) for n in range(20) if n not in winners)
            entry = await store.read("/a")
            assert entry is not None and (entry.value, entry.version) == (str(winners[0]).encode(), 1)
            assert list((await store.list("/won")).entries) == [f"/won/{winners[0]}"]

    @scenario
    async def test_commits_at_the_same_time_have_revisions_of_their_own(self, opened: Opener) -> None:
        async with opened() as store:
            revisions = await asyncio.gather(*(store.commit([Put(f"/n/{n}", b"")]) for n in range(50)))
            assert len(set(revisions)) == 50
            listing = await store.list("/n")
            assert {path: entry.revision for path, entry in listing.entries.items()} == {
                f"/n/{n}": revision for n, revision in enumerate(revisions)
            }

    @scenario
    async def test_commits_of_one_caller_build_on_each_other(self, opened: Opener) -> None:
        async with opened() as store:
            commits = [store.commit([Put("/a", str(n).encode(), n - 1)]) for n in range(10)]
            await asyncio.gather(*commits)
            entry = await store.read("/a")
            assert entry is not None and (entry.value, entry.version) == (b"9", 9)

    @scenario
    async def test_a_caller_that_gives_up_does_not_undo_its_commit(self, opened: Opener) -> None:
        async with opened() as store:
            task = asyncio.create_task(store.commit([Put("/a", b"")]))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await store.sync()
            assert task.cancelled() or await store.read("/a") is not None
            await store.commit([Put("/b", b"")])
            assert await store.read("/a") is not None

    @scenario
    async def test_sync_waits_for_commits_that_began_before(self, opened: Opener) -> None:
        async with opened() as store:
            task = asyncio.create_task(store.commit([Put("/a", b"")]))
            await asyncio.sleep(0)
            revision = await store.sync()
            assert await store.read("/a") is not None
            assert await task <= revision

    @scenario
    async def test_a_commit_of_ten_thousand_operations(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put(f"/n/{n}", b"x" * 60, ABSENT) for n in range(10_000)])
            await store.commit([Put(f"/n/{n}", b"y" * 60, 0) for n in range(10_000)])
        async with opened() as store:
            entries = (await store.list("/n")).entries
            assert len(entries) == 10_000
            assert {(entry.value, entry.version) for entry in entries.values()} == {(b"y" * 60, 1)}

    @scenario
    async def test_entries_survive_the_session(self, opened: Opener) -> None:
        async with opened() as store:
            first = await store.commit([Put("/a", b"1"), Put("/b", b"1"), Put("/c", b"1")])
            await store.commit([Put("/a", b"2"), Delete("/b")])
            before = await store.list("/")
        async with opened() as store:
            after = await store.list("/")
            assert dict(after.entries) == dict(before.entries)
            assert after.entries["/a"].created == first
            assert await store.commit([Put("/d", b"")]) > before.revision

    @scenario
    async def test_revisions_grow_from_session_to_session(self, opened: Opener) -> None:
        last = -1
        for session in range(5):
            async with opened() as store:
                for operation in (Put(f"/{session}", b""), Put("/same", b"")):
                    revision = await store.commit([operation])
                    assert revision > last
                    last = revision

    @scenario
    async def test_whoever_watches_everything_is_told_of_commits_that_change_nothing(self, opened: Opener) -> None:
        async with opened() as store:
            await store.commit([Put("/a", b"")])
            watched, below = Watched(), Watched()
            store.watch("/", watched)
            store.watch("/a", below)
            checked = await store.commit([Check("/a", 0)])
            await watched.until(lambda: bool(watched.events))
            assert (watched.events[-1].revision, watched.changes) == (checked, [])
            await store.commit([Put("/end", b"")])
            revision = await store.sync()
            await watched.until(lambda: watched.events[-1].revision >= revision)
            assert below.events == []

    @scenario
    async def test_a_broker_is_alive_from_its_announcement_to_the_end_of_its_session(self, opened: Opener) -> None:
        async with opened() as store:
            told = Heard[Mapping[int, bytes]]()
            store.watch_alive(told)
            await store.announce(1, registration("first"))
            await told.until({1: registration("first")})
            assert dict(store.alive()) == {1: registration("first")}
            await store.commit([Put("/a", b"")])
            assert list((await store.list("/")).entries) == ["/a"]
        async with opened() as store:
            told = Heard[Mapping[int, bytes]]()
            unwatch = store.watch_alive(told)
            await store.announce(1, registration("first", "second"))
            await told.until({1: registration("first", "second")})
            await store.withdraw()
            await told.until({})
            unwatch()
            await store.announce(1, registration("first"))
            assert dict(told.news[-1]) == {}

    @scenario
    async def test_a_store_that_serves_is_connected_and_known_to_be_read(self, opened: Opener) -> None:
        async with opened() as store:
            before = store.current_as_of(await store.sync())
            revision = await store.commit([Put("/a", b"")])
            assert store.session_state is SessionState.CONNECTED
            assert store.current_as_of(revision) > before
            await store.snapshot_if_due()
            assert list((await store.list("/")).entries) == ["/a"]

    @scenario
    async def test_a_closed_store_refuses_everything(self, opened: Opener) -> None:
        async with opened() as store:
            lost: list[StoreError] = []
            store.on_session_lost(lost.append)
            await store.commit([Put("/a", b"")])
            await store.close()
            await store.close()
            for call in (store.read("/a"), store.list("/"), store.commit([Put("/b", b"")]), store.sync()):
                with pytest.raises(StoreClosedError):
                    await call
            assert lost == []

    @scenario
    async def test_closing_finishes_the_commits_under_way(self, opened: Opener) -> None:
        async with opened() as store:
            tasks = [asyncio.create_task(store.commit([Put(f"/n/{n}", b"")])) for n in range(10)]
            await asyncio.sleep(0)
            await store.close()
            outcomes = await asyncio.gather(*map(outcome_of, tasks))
            done = {f"/n/{n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, int)}
        async with opened() as store:
            assert done <= set((await store.list("/n")).entries)
