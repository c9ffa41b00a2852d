"""The store over ZooKeeper when things go wrong: away while the log is cut, damaged data, lost sessions, hung ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import wraps
from random import Random
from typing import Any

import pytest

from moldau.metadata.store import (
    ABSENT,
    Change,
    Changes,
    CorruptStoreError,
    Delete,
    DuplicateBrokerError,
    LaterReleaseError,
    OutcomeUnknownError,
    Put,
    SessionState,
    StoreError,
    VersionConflictError,
)
from moldau.metadata.zookeeper import history
from moldau.metadata.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.contract.metadata_store import Heard, Watched, outcome_of, registration
from tests.contract.shared_store import check_equal, commit_much
from tests.fakes.zookeeper import Ensemble, FakePort, Faults, Step

OPTIONS = StoreOptions(session_seconds=0.3, entries_between_snapshots=5, close_seconds=0.1)
PATIENCE_SECONDS = 30


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), PATIENCE_SECONDS))

    return run


@asynccontextmanager
async def opened(ensemble: Ensemble, options: StoreOptions = OPTIONS) -> AsyncIterator[tuple[ZooKeeperStore, FakePort]]:
    port = ensemble.connect()
    store = await ZooKeeperStore.open(port, "", options)
    try:
        yield store, port
    finally:
        await store.close()


async def cut_log(store: ZooKeeperStore, commits: int = 12) -> None:
    """So that entries that were there before are gone."""
    for number in range(commits):
        await store.commit([Put(f"/filling/{number}", b"")])
        await store.snapshot_if_due()


@pytest.mark.parametrize("seed", range(12))
@scenario
async def test_stores_agree_whatever_is_lost(seed: int) -> None:
    rng = Random(seed)
    ensemble = Ensemble(seed, Faults(drop=rng.choice([0.02, 0.1, 0.2]), expire=rng.choice([0, 0.3, 0.9])))
    options = replace(
        OPTIONS, entries_between_snapshots=rng.choice([3, 20]), generation_entries=rng.choice([10, 40, 10**9])
    )
    async with AsyncExitStack() as stack:
        stores = [(await stack.enter_async_context(opened(ensemble, options)))[0] for _ in range(3)]
        cutting: set[asyncio.Task[None]] = set()

        def cut(changes: Changes) -> None:
            cutting.update(asyncio.create_task(store.snapshot_if_due()) for store in stores)

        stores[0].watch("/", cut)
        found = await asyncio.gather(*(commit_much(each, f"s{n}", Random(n)) for n, each in enumerate(stores)))
        outcomes = {token: outcome for each in found for token, outcome in each.items()}
        late, _ = await stack.enter_async_context(opened(ensemble, options))
        await check_equal([*stores, late], outcomes)
        await asyncio.gather(*cutting)


@scenario
async def test_who_was_away_while_the_log_was_cut_hears_the_difference() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, _), opened(ensemble) as (away, port):
        await store.commit([Put("/kept", b"1"), Put("/gone", b"1"), Put("/changed", b"1"), Put("/anew", b"1")])
        await away.sync()
        watched = Watched()
        away.watch("/", watched)
        port.drop(comes_back=False)
        await store.commit([Put("/changed", b"2", 0)])
        await store.commit([Put("/new", b"2", ABSENT)])
        await store.commit([Delete("/gone"), Delete("/anew")])
        await store.commit([Put("/anew", b"2", ABSENT)])
        await cut_log(store)
        port.come_back(expired=True)
        await away.sync()
        assert dict((await away.list("/")).entries) == dict((await store.list("/")).entries)
        told = {change.path: change for change in watched.changes if not change.path.startswith("/filling")}
        assert told["/gone"] == Change("/gone", None)
        assert sorted(told) == ["/anew", "/changed", "/gone", "/new"]
        revisions = [event.revision for event in watched.events]
        assert revisions == sorted(set(revisions))


@scenario
async def test_an_outcome_is_found_in_a_snapshot() -> None:
    """Commits that were done, but neither answered nor read before the log was cut."""
    ensemble = Ensemble()
    async with opened(ensemble) as (store, _), opened(ensemble) as (away, port):
        await store.commit([Put("/a", b"")])
        await away.sync()
        for lost in range(20):
            commits = [
                asyncio.create_task(away.commit([Put(f"/own/{lost}", b"", ABSENT)])),
                asyncio.create_task(away.commit([Put("/a", b"", 77)])),
            ]
            await asyncio.sleep(0)
            port.drop(comes_back=False)
            await cut_log(store)
            port.come_back()
            accepted, refused = await asyncio.gather(*map(outcome_of, commits))
            entry = await away.read(f"/own/{lost}")
            assert entry is not None and (entry.version, entry.revision) == (0, accepted)
            assert isinstance(refused, VersionConflictError) and (refused.path, refused.actual) == ("/a", 0)
        await check_same(store, away)


async def check_same(*stores: ZooKeeperStore) -> None:
    for store in stores:
        await store.sync()
    first, *others = [await store.list("/") for store in stores]
    assert all(other == first for other in others)


@scenario
async def test_bytes_of_others_in_the_log_are_passed_by() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port), opened(ensemble) as (other, _):
        await store.commit([Put("/a", b"")])
        await port.create("/moldau/log/0/c", b"hello", sequence=True)
        await other.commit([Put("/a", b"", 0)])
        await check_same(store, other)


@pytest.mark.parametrize(("damage", "told"), [("later form", LaterReleaseError), ("hole", CorruptStoreError)])
@scenario
async def test_a_log_that_cannot_be_read_ends_the_store(damage: str, told: type[StoreError]) -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port):
        ended = Heard[StoreError]()
        store.on_session_lost(ended)
        await store.commit([Put("/a", b"")])
        if damage == "later form":
            await port.create("/moldau/log/0/c", b"Mc\x02 what comes later", sequence=True)
        else:
            parent = "/moldau/log/0"
            path = f"{parent}/c{ensemble.leader.nodes[parent].creates:010d}"
            ensemble.write(Step("create", path, b"x"), Step("delete", path))
            commit = asyncio.create_task(outcome_of(store.commit([Put("/b", b"")])))
        await ended.some()
        assert isinstance(ended.news[0], told)
        with pytest.raises(told):
            await store.read("/a")
        if damage == "hole":
            assert isinstance(await commit, OutcomeUnknownError)


@scenario
async def test_data_of_another_form_is_not_touched() -> None:
    ensemble = Ensemble()
    port = ensemble.connect()
    await port.create("/moldau", b'{"form": 2, "generation_entries": 5}')
    with pytest.raises(LaterReleaseError, match="form 2"):
        await ZooKeeperStore.open(port, "", OPTIONS)
    assert set(ensemble.leader.nodes) == {"/", "/brokers", "/brokers/ids", "/moldau"}


@scenario
async def test_a_lost_session_is_told_and_the_broker_announced_again() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port), opened(ensemble) as (other, _):
        states, alive = Heard[SessionState](), Heard[Mapping[int, bytes]]()
        store.on_session(states)
        other.watch_alive(alive)
        await store.announce(1, registration("a"))
        await alive.until({1: registration("a")})
        port.drop(expire=True)
        assert store.session_state is SessionState.SUSPENDED
        await states.until(SessionState.CONNECTED)
        assert states.news == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
        assert ensemble.leader.nodes["/brokers/ids/1"].owner == port.session_id
        await other.sync()
        if dict(other.alive()) != {1: registration("a")}:
            await alive.until({1: registration("a")})


@pytest.mark.parametrize("expired", [False, True])
@scenario
async def test_who_only_listens_hears_of_others_also_on_another_connection(expired: bool) -> None:
    """Every lost connection drops all watches."""
    ensemble = Ensemble()
    async with opened(ensemble) as (store, _), opened(ensemble) as (listener, port):
        watched, alive = Watched(), Heard[Mapping[int, bytes]]()
        listener.watch("/", watched)
        listener.watch_alive(alive)
        await store.commit([Put("/before", b"")])
        await watched.until_seen("/before")
        for _ in range(20):  # it has nothing to read any more, and waits
            await asyncio.sleep(0)
        port.drop(comes_back=False)
        port.come_back(expired=expired)
        await store.commit([Put("/after", b"")])
        await watched.until_seen("/after")
        await store.announce(1, registration("a"))
        await alive.until({1: registration("a")})


@scenario
async def test_a_commit_that_came_before_one_that_was_lost_is_appended_again() -> None:
    """What has a place in the log before its predecessor means nothing there."""
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port):
        create, lost = port.create, []

        def lose_one(path: str, value: bytes, **named: Any) -> asyncio.Future[str]:
            port.create = create  # type: ignore[method-assign]
            lost.append(value)
            return asyncio.get_running_loop().create_future()

        port.create = lose_one  # type: ignore[method-assign]
        commits = [asyncio.create_task(store.commit([Put("/a", b"", n - 1)])) for n in range(3)]
        while store._history.revision < 3:  # noqa: ASYNC110 - the barrier at the start, and both that are too early
            await asyncio.sleep(0)
        assert len(lost) == 1 and await store.read("/a") is None
        port.drop()
        await asyncio.gather(*commits)
        entry = await store.read("/a")
        assert entry is not None and entry.version == 2


@scenario
async def test_what_is_answered_counts_only_when_what_came_before_was_read() -> None:
    """An answer of the ensemble alone would let a deposed leader go on for as long as it reads late."""
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port), opened(ensemble) as (other, _):
        before = await store.sync()
        get, withheld = port.get, []

        def get_late(path: str) -> asyncio.Future[Any]:
            answer, late = get(path), asyncio.get_running_loop().create_future()
            answer.add_done_callback(lambda answer: withheld.append((late, answer)))
            return late

        port.get = get_late  # type: ignore[method-assign]
        revision = await other.commit([Put("/a", b"")])
        decided = store._clock()
        touched = store._heard
        while store._heard <= max(touched, decided):
            store._touch()
            await asyncio.sleep(0)
        assert store.current_as_of(before) < decided and await store.read("/a") is None
        port.get = get  # type: ignore[method-assign]
        for late, answer in withheld:
            late.set_result(answer.result())
        while store.current_as_of(revision) < decided:  # noqa: ASYNC110 - the beat asks from time to time
            await asyncio.sleep(0)
        assert await store.read("/a") is not None


@scenario
async def test_who_is_cut_off_takes_its_session_for_lost_by_itself() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port):
        states = Heard[SessionState]()
        store.on_session(states)
        revision = await store.sync()
        known = store.current_as_of(revision)
        port.drop(comes_back=False)
        commit = asyncio.create_task(store.commit([Put("/a", b"")]))
        await states.until(SessionState.LOST)
        assert store.current_as_of(revision) == known
        port.come_back()
        assert store.current_as_of(await commit) > known
        await states.until(SessionState.CONNECTED)


@scenario
async def test_an_id_that_was_taken_meanwhile_ends_the_store() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port), opened(ensemble) as (other, _):
        ended = Heard[StoreError]()
        store.on_session_lost(ended)
        await store.announce(1, registration("a"))
        port.drop(comes_back=False)
        ensemble.end_session(port.session_id)
        await other.announce(1, registration("b"))
        port.come_back(expired=True)
        await ended.some()
        assert isinstance(ended.news[0], DuplicateBrokerError)
        assert dict(other.alive()) == {1: registration("b")}


@scenario
async def test_a_writer_that_was_silent_goes_on_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "WRITER_MEMORY", 10)
    ensemble = Ensemble()
    async with opened(ensemble) as (store, _), opened(ensemble) as (silent, _):
        before = silent._appender.writer
        watched = Watched()
        silent.watch("/", watched)
        for number in range(15):
            await store.commit([Put(f"/{number}", b"")])
        await watched.until_seen("/14")
        await silent.commit([Put("/after", b"", ABSENT)])
        assert silent._appender.writer != before
        await check_same(store, silent)


@scenario
async def test_closing_without_a_connection_leaves_the_outcome_open() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port):
        port.drop(comes_back=False)
        commit = asyncio.create_task(outcome_of(store.commit([Put("/a", b"")])))
        await asyncio.sleep(0)
        await store.close()
        assert isinstance(await commit, OutcomeUnknownError)


@scenario
async def test_who_goes_while_it_is_cut_off_waits_no_longer_than_its_session_lives() -> None:
    ensemble = Ensemble()
    async with opened(ensemble) as (store, port):
        await store.announce(1, registration("a"))
        port.drop(comes_back=False)
        await store.withdraw()
        assert "/brokers/ids/1" in ensemble.leader.nodes, "nobody could take it away"


@scenario
async def test_who_goes_while_it_is_cut_off_for_a_moment_withdraws_when_it_is_back() -> None:
    ensemble = Ensemble()
    async with opened(ensemble, replace(OPTIONS, session_seconds=PATIENCE_SECONDS)) as (store, port):
        await store.announce(1, registration("a"))
        port.drop(comes_back=False)
        going = asyncio.create_task(store.withdraw())
        await asyncio.sleep(0)
        port.come_back()
        await going
        assert "/brokers/ids/1" not in ensemble.leader.nodes


@scenario
async def test_commits_of_one_store_keep_their_order_over_lost_connections() -> None:
    for seed in range(20):
        ensemble = Ensemble(seed, Faults(drop=0.15))
        async with opened(ensemble, replace(OPTIONS, generation_entries=15)) as (store, _):
            commits = [store.commit([Put("/a", str(n).encode(), n - 1)]) for n in range(30)]
            await asyncio.gather(*commits)
            entry = await store.read("/a")
            assert entry is not None and (entry.value, entry.version) == (b"29", 29)


@scenario
async def test_after_a_lost_connection_the_first_goes_alone() -> None:
    """A line that breaks again and again must not fill the log with repetitions."""
    ensemble = Ensemble(5, Faults(drop=0.2, expire=0))
    async with opened(ensemble, replace(OPTIONS, entries_between_snapshots=10**6)) as (store, _):
        await asyncio.gather(*(store.commit([Put(f"/n/{n}", b"")]) for n in range(history.OUTCOMES_KEPT)))
        assert store._history.revision < 3 * history.OUTCOMES_KEPT
