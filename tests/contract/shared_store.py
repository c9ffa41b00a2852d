"""What a store promises beyond the contract where several brokers have it open at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from random import Random

import pytest

from moldau.metadata.store import (
    ABSENT,
    ClusterStore,
    DuplicateBrokerError,
    Put,
    VersionConflictError,
)
from tests.contract.metadata_store import (
    Heard,
    MetadataStoreContract,
    Opener,
    Watched,
    outcome_of,
    registration,
    scenario,
)

COMMITS = 40


async def commit_much(store: ClusterStore, name: str, rng: Random) -> dict[str, object]:
    """Outcome by token: each commit leaves its token, and most fight for one of a few counters."""
    outcomes: dict[str, object] = {}

    async def one(token: str) -> None:
        counter = f"/counters/{rng.randrange(3)}"
        seen = await store.read(counter)
        operations = [
            Put(f"/tokens/{token}", name.encode(), ABSENT),
            Put(counter, token.encode(), ABSENT if seen is None else seen.version),
        ]
        outcomes[token] = await outcome_of(store.commit(operations))

    for number in range(COMMITS // 4):
        await asyncio.gather(*(one(f"{name}-{number}-{part}") for part in range(4)))
    return outcomes


async def check_equal(stores: list[ClusterStore], outcomes: Mapping[str, object]) -> None:
    """All have the same entries, and these are those of the commits that were accepted, each once."""
    for store in stores:
        await store.sync()
    listings = [await store.list("/") for store in stores]
    assert all(dict(each.entries) == dict(listings[0].entries) for each in listings)
    assert len({each.revision for each in listings}) == 1
    entries = listings[0].entries
    accepted = {token: outcome for token, outcome in outcomes.items() if isinstance(outcome, int)}
    assert all(isinstance(each, int | VersionConflictError) for each in outcomes.values()), outcomes
    tokens = {path.removeprefix("/tokens/"): entry for path, entry in entries.items() if path.startswith("/tokens/")}
    assert {token: entry.revision for token, entry in tokens.items()} == accepted
    assert {entry.version for entry in tokens.values()} <= {0}
    counted = [entry.version + 1 for path, entry in entries.items() if path.startswith("/counters/")]
    assert sum(counted) == len(accepted)


class SharedStoreContract(MetadataStoreContract):
    @scenario
    async def test_what_one_commits_the_others_read_after_sync(self, opened: Opener) -> None:
        async with opened() as one, opened() as other:
            revision = await one.commit([Put("/a", b"1")])
            assert await other.sync() >= revision
            entry = await other.read("/a")
            assert entry == await one.read("/a") and entry is not None and entry.revision == revision

    @scenario
    async def test_watchers_hear_of_the_commits_of_others(self, opened: Opener) -> None:
        async with opened() as one, opened() as other:
            watched = Watched()
            other.watch("/a", watched)
            for number in range(30):
                await one.commit([Put(f"/a/{number}", b"")])
            await watched.until_seen(*(f"/a/{number}" for number in range(30)))
            revisions = [event.revision for event in watched.events]
            assert revisions == sorted(set(revisions))

    @scenario
    async def test_of_two_stores_that_expect_the_same_version_one_wins(self, opened: Opener) -> None:
        async with opened() as one, opened() as other:
            await one.commit([Put("/a", b"")])
            await other.sync()
            for version in range(10):
                outcomes = await asyncio.gather(
                    *(outcome_of(store.commit([Put("/a", b"x", version)])) for store in (one, other))
                )
                assert sorted(isinstance(outcome, int) for outcome in outcomes) == [False, True]
                await asyncio.gather(one.sync(), other.sync())

    @scenario
    async def test_stores_that_commit_at_the_same_time_agree_on_every_commit(self, opened: Opener) -> None:
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(opened()) for _ in range(3)]
            found = await asyncio.gather(
                *(commit_much(store, f"s{number}", Random(number)) for number, store in enumerate(stores))
            )
            outcomes = {token: outcome for each in found for token, outcome in each.items()}
            assert len(outcomes) == 3 * COMMITS
            await check_equal(stores, outcomes)
            late = await stack.enter_async_context(opened())
            await check_equal([*stores, late], outcomes)

    @scenario
    async def test_each_hears_who_else_is_alive(self, opened: Opener) -> None:
        async with opened() as one:
            told = Heard[Mapping[int, bytes]]()
            one.watch_alive(told)
            await one.announce(1, registration("one"))
            async with opened() as other:
                await other.announce(2, registration("other"))
                await told.until({1: registration("one"), 2: registration("other")})
            await told.until({1: registration("one")})


class LastingSessionContract(SharedStoreContract):
    """Where nobody loses a session by chance, and with it the right to an id."""

    @scenario
    async def test_a_living_broker_keeps_its_id(self, opened: Opener) -> None:
        async with opened() as one, opened() as other:
            await one.announce(1, registration("one"))
            with pytest.raises(DuplicateBrokerError, match="another broker is alive under this id"):
                await other.announce(1, registration("other"))
            told = Heard[Mapping[int, bytes]]()
            other.watch_alive(told)
            await other.announce(2, registration("other"))
            await told.until({1: registration("one"), 2: registration("other")})

    @scenario
    async def test_a_broker_that_comes_back_replaces_what_is_left_of_it(self, opened: Opener) -> None:
        async with opened() as old:
            await old.announce(1, registration("a", "b"))
            async with opened() as new:
                told = Heard[Mapping[int, bytes]]()
                new.watch_alive(told)
                await new.announce(1, registration("b", "c"))
                await told.until({1: registration("b", "c")})
                await old.close()
                assert dict(new.alive()) == {1: registration("b", "c")}

    @scenario
    async def test_a_broker_waits_for_the_end_of_the_session_that_holds_its_id(self, opened: Opener) -> None:
        async with opened() as one, opened() as other:
            await one.announce(1, registration("one"))
            waiting = asyncio.create_task(other.announce(1, registration("other")))
            await other.sync()
            await one.withdraw()
            await waiting
            told = Heard[Mapping[int, bytes]]()
            one.watch_alive(told)
            if dict(one.alive()) != {1: registration("other")}:
                await told.until({1: registration("other")})
