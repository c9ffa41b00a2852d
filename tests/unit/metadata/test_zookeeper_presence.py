"""Waiting for an id that an earlier session still holds, over connections that are lost meanwhile."""

import asyncio

from moldau.metadata.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.contract.metadata_store import registration
from tests.fakes.zookeeper import Ensemble, FakePort
from tests.support.loops import on_loop, until

SESSION_SECONDS = 3600.0
PATIENCE_SECONDS = 20.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def opened(port: FakePort, session_seconds: float = SESSION_SECONDS) -> ZooKeeperStore:
    return await ZooKeeperStore.open(port, "", StoreOptions(session_seconds, boot_clock=Clock()))


async def waits_for_the_id(port: FakePort) -> None:
    await until(lambda: ("node", "/brokers/ids/1") in port._watches)


@on_loop
async def test_a_connection_that_is_lost_meanwhile_does_not_hide_the_end_of_the_other() -> None:
    ensemble = Ensemble()
    holder = await opened(ensemble.connect())
    await holder.announce(1, registration("old"))
    port = ensemble.connect()
    newcomer = await opened(port)
    announcing = asyncio.ensure_future(newcomer.announce(1, registration("new")))
    await waits_for_the_id(port)
    port.drop()
    await waits_for_the_id(port)
    await holder.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await announcing
    await newcomer.close()


@on_loop
async def test_who_is_cut_off_does_not_take_the_id_for_held() -> None:
    ensemble = Ensemble()
    holder = await opened(ensemble.connect())
    await holder.announce(1, registration("old"))
    port = ensemble.connect()
    newcomer = await opened(port, session_seconds=0.02)
    announcing = asyncio.ensure_future(newcomer.announce(1, registration("new")))
    await waits_for_the_id(port)
    port.drop(comes_back=False)
    await until(lambda: not newcomer._presence._announcing.locked())  # its patience is over
    assert not announcing.done()
    await holder.close()
    port.come_back()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await announcing
    await newcomer.close()
