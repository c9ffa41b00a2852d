"""Peers follow the image: who has gone or come back anew is not called at the old address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import pytest

from moldau.client.errors import SettingError
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.server.peers.network import NetworkPeers
from moldau.server.peers.opening import Opener, PeerSecurity
from moldau.server.peers.peer import Lane, NotLetInError, PeerLostError
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.schema import Message
from tests.fakes.peer_broker import OPENER, FakeBroker
from tests.support.images import with_brokers
from tests.support.loops import on_loop, until


class Images:
    def __init__(self, *brokers: FakeBroker, opener: Opener = OPENER) -> None:
        self.image: ClusterImage = EMPTY_IMAGE
        self.peers = NetworkPeers(lambda: self.image, "INTERNAL", opener)
        self.become(brokers)

    def become(self, brokers: Iterable[FakeBroker], epoch: int = 7) -> None:
        new = with_brokers(
            self.image, {each.broker_id: ("INTERNAL", each.port, epoch, each.incarnation) for each in brokers}
        )
        self.peers.apply(self.image, new, ImageDelta())
        self.image = new


async def answer(request: Message) -> HeartbeatResponse:
    return HeartbeatResponse()


async def never(request: Message) -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def beat(images: Images, broker_id: int = 2, lane: Lane = Lane.CONTROL) -> None:
    await images.peers.get(broker_id).call(HeartbeatRequest(), HeartbeatResponse, lane)


@on_loop
async def test_each_lane_has_a_connection_of_its_own() -> None:
    async with FakeBroker(answer) as broker:
        images = Images(broker)
        lanes = (Lane.CONTROL, Lane.FORWARD, Lane.MARKERS, Lane.fetch(), Lane.fetch(1))
        for lane in (*lanes, *lanes):
            await beat(images, lane=lane)
        assert broker.accepted == len(lanes)
        images.peers.close()


@on_loop
async def test_a_broker_that_is_not_in_the_image_cannot_be_called() -> None:
    images = Images()
    with pytest.raises(PeerLostError, match="broker 2 is not registered"):
        await beat(images)
    images.image = with_brokers(images.image, {2: ("CLIENTS", 1, 1, UUID(int=2))})
    with pytest.raises(PeerLostError, match="not registered with a listener"):
        await beat(images)


@on_loop
async def test_a_login_that_cannot_be_used_is_a_broker_that_cannot_be_called() -> None:
    def unusable() -> PeerSecurity:
        raise SettingError("sasl.oauthbearer.token.endpoint.url", "'x' is no https, http or file URL")

    async with FakeBroker(answer) as broker:
        images = Images(broker, opener=replace(OPENER, security=unusable))
        with pytest.raises(NotLetInError, match="'x' is no https, http or file URL"):
            await beat(images)
        images.peers.close()


@on_loop
async def test_what_is_under_way_to_a_broker_that_leaves_fails() -> None:
    async with FakeBroker(never) as broker:
        images = Images(broker)
        under_way = asyncio.create_task(beat(images))
        await until(lambda: broker.requests)
        images.become([])
        with pytest.raises(PeerLostError, match="has gone"):
            await under_way


@on_loop
async def test_a_broker_with_another_epoch_is_connected_to_anew() -> None:
    async with FakeBroker(answer) as broker:
        images = Images(broker)
        await beat(images)
        images.become([broker], epoch=8)
        await beat(images)
        assert broker.accepted == 2
        images.become([broker], epoch=8)
        await beat(images)
        assert broker.accepted == 2
        images.peers.close()


@on_loop
async def test_a_broker_that_moves_is_called_where_it_is_now() -> None:
    async with FakeBroker(answer) as old, FakeBroker(answer, incarnation=3) as new:
        images = Images(old)
        await beat(images)
        images.become([new], epoch=9)
        await beat(images)
        assert (len(old.requests), len(new.requests)) == (1, 1)
        images.peers.close()


@on_loop
async def test_nobody_is_called_once_this_broker_stops() -> None:
    async with FakeBroker(never) as broker:
        images = Images(broker)
        under_way = asyncio.create_task(beat(images))
        await until(lambda: broker.requests)
        images.peers.close()
        for call in (under_way, beat(images)):
            with pytest.raises(PeerLostError):
                await call
