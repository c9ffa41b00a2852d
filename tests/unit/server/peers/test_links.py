"""Evidence of a death: only where a link ended and what was found behind it proves that the one we knew is gone."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from uuid import UUID

import pytest

from moldau.client.core import ClientCore, Introduction
from moldau.client.settings import Address
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metrics import Metrics
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.links import LinkJudge, Links
from moldau.server.peers.opening import Opener, dial_tcp
from moldau.wire.schema import Message
from tests.fakes.peer_broker import OPENER, FakeBroker
from tests.support.images import with_brokers
from tests.support.loops import on_loop, until

A, B = UUID(int=10), UUID(int=11)


@pytest.mark.parametrize(
    ("told", "dead"),
    [
        (("answered A", "refused"), [None, A]),
        (("answered A", "answered B"), [None, A]),
        (("answered A", "answered A"), [None, None]),
        (("answered A", "silent", "answered A"), [None, None, None]),
        (("answered A", "silent", "refused"), [None, None, A]),
        (("answered A", "silent", "answered B"), [None, None, A]),
        (("answered A", "refused", "refused"), [None, A, None]),
        (("answered A", "refused", "answered B"), [None, A, None]),
        (("refused", "refused", "answered A"), [None, None, None]),
        (("silent", "refused"), [None, None]),
    ],
)
def test_what_attempts_prove(told: tuple[str, ...], dead: list[UUID | None]) -> None:
    judge = LinkJudge()
    events = {
        "answered A": lambda: judge.answered(A),
        "answered B": lambda: judge.answered(B),
        "refused": judge.refused,
        "silent": judge.silent,
    }
    assert [events[each]() for each in told] == dead


async def no_answer(request: Message) -> Message:
    raise AssertionError("a link says nothing")


class Scene:
    def __init__(self, broker: FakeBroker, opener: Opener = OPENER) -> None:
        self.dead: list[tuple[int, UUID]] = []
        self.metrics = Metrics()
        self.alive: list[tuple[int, UUID]] = []
        self.links = Links(
            1,
            "INTERNAL",
            opener,
            lambda *who: self.dead.append(who),
            self.metrics,
            lambda *who: self.alive.append(who),
        )
        self.image: ClusterImage = EMPTY_IMAGE
        self.become(broker)

    def become(self, *brokers: FakeBroker, epoch: int = 7) -> None:
        registered = {each.broker_id: ("INTERNAL", each.port, epoch, each.incarnation) for each in brokers}
        new = with_brokers(self.image, {1: ("INTERNAL", 1, 1, UUID(int=1)), **registered})
        self.links.apply(self.image, new, ImageDelta())
        self.image = new

    @property
    def open(self) -> int:
        return sum(link.is_open for link in self.links._links.values())


@on_loop
async def test_the_death_of_a_process_is_seen_at_once() -> None:
    broker = FakeBroker(no_answer)
    await broker.listen()
    scene = Scene(broker)
    await scene.links.tried(10)
    assert (scene.open, scene.dead) == (1, [])
    await broker.stop()
    await until(lambda: scene.dead)
    assert scene.dead == [(2, broker.incarnation)]
    assert scene.metrics.counter("moldau.server", "PeerLinks", "DeathsPerSec").value == 1
    await scene.links.close()


@on_loop
async def test_a_process_that_was_restarted_at_the_same_address_is_another_one() -> None:
    async with FakeBroker(no_answer) as broker:
        scene = Scene(broker)
        await scene.links.tried(10)
        before, broker.incarnation = broker.incarnation, B
        broker.cut()
        await until(lambda: scene.dead)
        assert scene.dead == [(2, before)]
        await until(lambda: scene.open)
        assert scene.alive == [(2, before), (2, B)]
        await scene.links.close()


@on_loop
async def test_a_broker_is_suspected_from_the_end_of_its_link_until_more_is_known() -> None:
    blocked, free = asyncio.Event(), asyncio.Event()

    async def dial(address: Address, protocol: PeerConnection, tls: object) -> None:
        if blocked.is_set():
            await free.wait()
        await dial_tcp(address, protocol, None)

    async with FakeBroker(no_answer) as broker:
        scene = Scene(broker, replace(OPENER, dial=dial))
        await scene.links.tried(10)
        assert scene.links.suspects == set()
        blocked.set()
        broker.cut()
        await until(lambda: scene.links.suspects == {2})
        free.set()
        await until(lambda: scene.links.suspects == set())
        assert scene.dead == []
        free.clear()
        broker.cut()
        await until(lambda: scene.links.suspects == {2})
        scene.become()
        assert scene.links.suspects == set()
        await scene.links.close()


@on_loop
async def test_a_link_that_was_cut_and_comes_back_says_nothing() -> None:
    async with FakeBroker(no_answer) as broker:
        scene = Scene(broker)
        await scene.links.tried(10)
        for times in range(2, 5):
            broker.cut()
            await until(lambda times=times: broker.accepted == times and scene.open)
        assert scene.dead == []
        await scene.links.close()


@on_loop
async def test_silence_says_nothing_and_what_comes_after_it_does() -> None:
    silent = asyncio.Event()

    async def dial(address: Address, protocol: PeerConnection, tls: object) -> None:
        if silent.is_set():
            attempts.append(address)
            raise TimeoutError("no route")
        await dial_tcp(address, protocol, None)

    attempts: list[Address] = []
    async with FakeBroker(no_answer) as broker:
        scene = Scene(broker, replace(OPENER, dial=dial))
        await scene.links.tried(10)
        silent.set()
        broker.cut()
        await until(lambda: len(attempts) >= 3)
        assert scene.dead == []
        await broker.stop()
        silent.clear()
        await until(lambda: scene.dead)
        assert scene.dead == [(2, broker.incarnation)]
        await scene.links.close()


@on_loop
async def test_a_broker_that_never_answered_is_not_told_dead() -> None:
    broker = FakeBroker(no_answer)
    await broker.listen()
    await broker.stop()
    scene = Scene(broker)
    await scene.links.tried(10)
    assert (scene.open, scene.dead) == (0, [])
    await broker.listen()
    await until(lambda: scene.open)
    assert scene.dead == []
    await scene.links.close()
    await broker.stop()


@on_loop
async def test_links_follow_the_image_and_leave_oneself_out() -> None:
    async with FakeBroker(no_answer) as second, FakeBroker(no_answer, 3, 3) as third:
        scene = Scene(second)
        scene.become(second, third)
        await scene.links.tried(10)
        assert (scene.open, second.accepted, third.accepted) == (2, 1, 1)
        scene.become(third)
        await until(lambda: scene.open == 1)
        scene.become(third, epoch=8)
        await until(lambda: third.accepted == 2 and scene.open == 1)
        assert scene.dead == []
        await scene.links.close()


@on_loop
async def test_a_name_with_several_addresses_is_refused_when_all_refuse() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    protocol = PeerConnection(ClientCore("broker", Introduction("test")), lambda _: None)
    with pytest.raises(ConnectionRefusedError):
        await dial_tcp(Address("localhost", port), protocol, None)
