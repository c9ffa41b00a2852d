"""The store over ZooKeeper keeps the contract: over a fake that behaves, and over one that loses connections, sessions
and answers, with a log that is cut every few entries and folders of it that are soon full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from moldau.metadata.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.contract.metadata_store import Opener
from tests.contract.shared_store import LastingSessionContract, SharedStoreContract
from tests.fakes.zookeeper import Ensemble, Faults


def opener(ensemble: Ensemble, options: StoreOptions) -> Opener:
    @asynccontextmanager
    async def opened() -> AsyncIterator[ZooKeeperStore]:
        store = await ZooKeeperStore.open(ensemble.connect(), "/kafka", options)
        cutting: set[asyncio.Task[None]] = set()
        store.watch("/", lambda changes: cutting.add(asyncio.create_task(store.snapshot_if_due())))
        try:
            yield store
        finally:
            await asyncio.gather(*cutting)
            await store.close()

    return opened


class TestZooKeeperStore(LastingSessionContract):
    @pytest.fixture
    def opened(self) -> Opener:
        return opener(Ensemble(), StoreOptions(session_seconds=0.5))


@pytest.mark.parametrize("seed", range(2))
class TestZooKeeperStoreThatLosesConnections(SharedStoreContract):
    @pytest.fixture
    def opened(self, seed: int) -> Opener:
        options = StoreOptions(session_seconds=0.5, entries_between_snapshots=7, generation_entries=25)
        return opener(Ensemble(seed, Faults(drop=0.05)), options)
