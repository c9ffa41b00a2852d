"""The store on real ZooKeeper servers: the contract on one, and three of which one after the other is killed while
several brokers commit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random

import pytest

from moldau.cli.zookeeper.process import SETTINGS, ZooKeeperEnsemble
from moldau.metadata.store import SessionState, StoreUnreachableError
from moldau.metadata.zookeeper.kazoo_port import KazooPort
from moldau.metadata.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.contract.metadata_store import Heard, Opener, registration
from tests.contract.shared_store import LastingSessionContract, check_equal, commit_much
from tests.support.process import free_port
from tests.support.zookeeper import connected, ensemble, zookeeper

pytestmark = pytest.mark.xdist_group("zookeeper")

SESSION_SECONDS = 3.0
GRANTED_SECONDS = int(SETTINGS["maxSessionTimeout"]) / 1000
LONGER_THAN_GRANTED_SECONDS = 1.5 * GRANTED_SECONDS
CONNECT_SECONDS = 60.0
PATIENCE_SECONDS = 110
KILLS = 2
CHAOS_KILLS = 40

_chroots = count()


def opener(address: str, chroot: str, entries_between_snapshots: int = 20) -> Opener:
    options = StoreOptions(session_seconds=SESSION_SECONDS, entries_between_snapshots=entries_between_snapshots)

    @asynccontextmanager
    async def opened() -> AsyncIterator[ZooKeeperStore]:
        port = await KazooPort.connect(address, SESSION_SECONDS, CONNECT_SECONDS)
        store = await ZooKeeperStore.open(port, chroot, options)
        try:
            yield store
        finally:
            await store.close()

    return opened


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


class TestZooKeeperStoreOnAServer(LastingSessionContract):
    @pytest.fixture
    def opened(self, server: str) -> Opener:
        return opener(server, f"/contract/{next(_chroots)}")


def test_the_log_is_cut_and_goes_on_at_the_same_numbers(server: str) -> None:
    async def scenario() -> None:
        chroot = f"/cut/{next(_chroots)}"
        opened = opener(server, chroot, entries_between_snapshots=20)
        async with opened() as store:
            outcomes: dict[str, object] = {}
            for turn in range(4):
                outcomes |= await commit_much(store, f"s{turn}", Random(turn))
                await store.snapshot_if_due()
            async with opened() as late:
                await check_equal([store, late], outcomes)
            port = await KazooPort.connect(server, SESSION_SECONDS, CONNECT_SECONDS)
            left = await port.children(f"{chroot}/moldau/log/0")
            snapshots = await port.children(f"{chroot}/moldau/snapshots")
            await port.close()
            assert len(left) < 2 * 40 + 20
            assert len(snapshots) == 2

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def test_a_loop_that_hangs_ends_its_session_and_comes_back(server: str) -> None:
    """Others see the broker go, although its process lives; when the loop goes on the broker is there again."""
    chroot = f"/hang/{next(_chroots)}"

    def stand_still_until_others_see_it() -> None:
        with connected(server) as client:
            while client.exists(f"{chroot}/brokers/ids/1") is not None:
                pass

    async def scenario() -> None:
        async with opener(server, chroot)() as store:
            states = Heard[SessionState]()
            store.on_session(states)
            await store.announce(1, registration("a"))
            stand_still_until_others_see_it()  # on the loop, which does nothing else
            await states.until(SessionState.CONNECTED)
            assert SessionState.LOST in states.news
            await store.sync()
        async with opener(server, chroot)() as other:
            assert dict(other.alive()) == {}

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def test_a_lease_is_no_longer_than_the_sessions_that_the_ensemble_grants(server: str) -> None:
    """Servers have limits of their own: a broker that counted on what it asked for would serve beside its successor."""

    async def scenario() -> None:
        port = await KazooPort.connect(server, LONGER_THAN_GRANTED_SECONDS, CONNECT_SECONDS)
        options = StoreOptions(session_seconds=LONGER_THAN_GRANTED_SECONDS)
        store = await ZooKeeperStore.open(port, f"/granted/{next(_chroots)}", options)
        try:
            assert port.granted_seconds == GRANTED_SECONDS
            assert store.lease_seconds < GRANTED_SECONDS
        finally:
            await store.close()
        async with opener(server, f"/granted/{next(_chroots)}")() as short:
            assert short.lease_seconds == pytest.approx(SESSION_SECONDS * 2 / 3)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def test_no_server_there_is_told_with_its_address() -> None:
    address = f"127.0.0.1:{free_port()}"

    async def scenario() -> None:
        with pytest.raises(StoreUnreachableError, match=f"at {address}"):
            await KazooPort.connect(address, SESSION_SECONDS, 1.0)

    asyncio.run(scenario())


async def kill_in_turn(
    servers: ZooKeeperEnsemble, kills: int, rng: Random, go_on: Callable[[], Awaitable[None]]
) -> None:
    """The leader first; each is back before the next one goes, so that there is always a majority."""
    for number in range(kills):
        victim = servers.leader() if number % 2 == 0 else rng.choice(servers.nodes)
        assert victim is not None
        await asyncio.to_thread(victim.kill)
        await go_on()
        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(servers.wait_until_serving)


def survive_kills(folder: Path, kills: int, seed: int) -> None:
    async def scenario(servers: ZooKeeperEnsemble) -> None:
        opened = opener(servers.connect, "/kafka", entries_between_snapshots=100)
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(opened()) for _ in range(3)]
            for number, store in enumerate(stores):
                await store.announce(number, registration(str(number)))
            outcomes: dict[str, object] = {}
            rounds = count()

            async def commit_round() -> None:
                turn = next(rounds)
                found = await asyncio.gather(
                    *(commit_much(store, f"{turn}-{n}", Random(seed + n)) for n, store in enumerate(stores)),
                    stores[turn % 3].snapshot_if_due(),
                )
                for each in found[:-1]:
                    outcomes.update(each or {})

            committing = asyncio.create_task(commit_round())
            await kill_in_turn(servers, kills, Random(seed), commit_round)
            await committing
            await check_equal([*stores, await stack.enter_async_context(opened())], outcomes)
            assert len(outcomes) == 3 * 40 * (kills + 1)
            told = Heard[object]()
            stores[0].watch_alive(told)
            everyone = {number: registration(str(number)) for number in range(3)}
            if dict(stores[0].alive()) != everyone:
                await told.until(everyone)

    with ensemble(folder, 3) as servers:
        asyncio.run(asyncio.wait_for(scenario(servers), PATIENCE_SECONDS * max(1, kills // 2)))


def test_no_commit_is_lost_or_done_twice_when_servers_are_killed(tmp_path: Path) -> None:
    survive_kills(tmp_path, KILLS, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_no_commit_is_lost_or_done_twice_in_a_long_run_of_kills(tmp_path: Path) -> None:
    survive_kills(tmp_path, CHAOS_KILLS, seed=int.from_bytes(os.urandom(4), "big"))
