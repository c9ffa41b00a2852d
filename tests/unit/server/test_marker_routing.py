"""Markers reach the leaders of their partitions, wherever those are and wherever they go meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.transactions.machine import Markers
from moldau.metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage
from moldau.server.coordination import marker_routing
from moldau.server.coordination.marker_routing import MarkerRouter
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.codec import decode, encode
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.wire.schema import Message
from tests.support.loops import on_loop, until

Codes = Callable[[TopicPartition], ErrorCode]


def fine(_: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE


class Broker:
    """Another broker, or the local writer: what was written there, and what it answers."""

    def __init__(self) -> None:
        self.requests: list[WriteTxnMarkersRequest] = []
        self.local: list[TopicPartition] = []
        self.codes: Codes = fine
        #: Markers of earlier terms of their coordinator are refused.
        self.coordinator_epoch = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, markers: Markers, partition: TopicPartition) -> ErrorCode:
        self.local.append(partition)
        return self.codes(partition)

    async def call(self, request: Message, answer_class: type, lane: Lane = Lane.CONTROL, **_: Any) -> Message:
        assert lane is Lane.MARKERS
        asked, _rest = decode(WriteTxnMarkersRequest, 2, encode(request, 2))
        self.requests.append(asked)
        await self.gate.wait()
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self._code(marker, topic.name, index)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in asked.markers
            ]
        )

    def _code(self, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
        if marker.coordinator_epoch < self.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return self.codes(TopicPartition(topic, index))

    @property
    def written(self) -> list[list[tuple[int, str, list[int]]]]:
        return [
            [
                (marker.producer_id, topic.name, list(topic.partition_indexes))
                for marker in request.markers
                for topic in marker.topics
            ]
            for request in self.requests
        ]


class Scene:
    """Broker 1 coordinates; partition i of topic t is led by `leaders[i]`."""

    def __init__(self, *leaders: int) -> None:
        self.brokers = {number: Broker() for number in (1, 2, 3)}
        self.image = replace(EMPTY_IMAGE, version=1)
        self._waiting: list[asyncio.Future[None]] = []
        self.become(*leaders)
        self.router = MarkerRouter(1, self.brokers[1], lambda: self.image, self.next_image, cast(Any, self))

    def get(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    def become(self, *leaders: int, topic_id: int = 7) -> None:
        partitions = tuple(PartitionImage((1, 2, 3), (1, 2, 3), leader, 1, 1) for leader in leaders)
        topics = {"t": TopicImage("t", UUID(int=topic_id), partitions)} if leaders else {}
        self.image = replace(self.image, version=self.image.version + 1, topics=MappingProxyType(topics))
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_image(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def write(self, producer_id: int, *indexes: int, epoch: int = 4) -> asyncio.Task[None]:
        partitions = frozenset(TopicPartition("t", index) for index in indexes)
        return asyncio.create_task(self.router.write_all(Markers("x", producer_id, 3, epoch, True, partitions, 2)))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only images wake here: nothing may hang on the timer."""
    monkeypatch.setattr(marker_routing, "LONGEST_WAIT_SECONDS", 1000.0)


@on_loop
async def test_each_leader_gets_its_own_in_one_request() -> None:
    scene = Scene(1, 2, 3, 2, 1)
    await scene.write(5, 0, 1, 2, 3, 4)
    assert sorted(scene.brokers[1].local) == [("t", 0), ("t", 4)]
    assert scene.brokers[2].written == [[(5, "t", [1, 3])]]
    assert scene.brokers[3].written == [[(5, "t", [2])]]
    (marker,) = scene.brokers[3].requests[0].markers
    assert (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (3, 4, True)
    assert marker.transaction_version == 2


@on_loop
async def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    scene = Scene(2, 2)
    scene.brokers[2].gate.clear()
    first = scene.write(5, 0)
    await until(lambda: scene.brokers[2].requests)
    later = [scene.write(producer_id, 0, 1) for producer_id in (6, 7, 8)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(scene.brokers[2].requests) == 1
    scene.brokers[2].gate.set()
    await asyncio.gather(first, *later)
    assert scene.brokers[2].written == [[(5, "t", [0])], [(6, "t", [0, 1]), (7, "t", [0, 1]), (8, "t", [0, 1])]]


@on_loop
async def test_markers_follow_a_leader_that_moves() -> None:
    scene = Scene(2, 2)
    scene.brokers[2].codes = lambda partition: (
        ErrorCode.NOT_LEADER_OR_FOLLOWER if partition.partition == 1 else ErrorCode.NONE
    )
    writing = scene.write(5, 0, 1)
    await until(lambda: len(scene.brokers[2].requests) == 1 and scene._waiting)
    scene.become(2, 3)
    await writing
    assert scene.brokers[2].written == [[(5, "t", [0, 1])]]
    assert scene.brokers[3].written == [[(5, "t", [1])]]


@on_loop
async def test_an_image_that_comes_while_a_request_is_under_way_is_not_missed() -> None:
    scene = Scene(2)

    def moved_meanwhile(partition: TopicPartition) -> ErrorCode:
        scene.become(3)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    scene.brokers[2].codes = moved_meanwhile
    await scene.write(5, 0)
    assert scene.brokers[3].written == [[(5, "t", [0])]]


@on_loop
async def test_an_unknown_leader_is_waited_for() -> None:
    scene = Scene(-1)
    writing = scene.write(5, 0)
    await until(lambda: scene._waiting)
    scene.become(-1)
    await until(lambda: scene._waiting)
    assert not writing.done()
    scene.become(1)
    await writing
    assert scene.brokers[1].local == [("t", 0)]


@on_loop
async def test_a_lost_broker_is_asked_again() -> None:
    scene = Scene(2)

    def lost(partition: TopicPartition) -> ErrorCode:
        scene.brokers[2].codes = fine
        scene.become(2)
        raise PeerLostError("gone")

    scene.brokers[2].codes = lost
    await scene.write(5, 0)
    assert len(scene.brokers[2].requests) == 2


@pytest.mark.parametrize("again", [(), (2,)])
@on_loop
async def test_a_deleted_topic_needs_no_marker_even_if_its_name_is_there_again(again: tuple[int, ...]) -> None:
    scene = Scene(-1)
    writing = scene.write(5, 0)
    await until(lambda: scene._waiting)
    scene.become(*again, topic_id=8)
    await writing
    assert scene.brokers[2].requests == []


@on_loop
async def test_a_topic_that_is_not_there_needs_none() -> None:
    scene = Scene()
    await scene.write(5, 0)
    assert scene.brokers[1].local == []


@on_loop
async def test_what_is_meant_for_an_earlier_term_of_the_coordinator_does_not_stop_the_present_one() -> None:
    scene = Scene(2, 2)
    scene.brokers[2].coordinator_epoch = 5
    scene.brokers[2].gate.clear()
    first = scene.write(6, 0, epoch=5)
    await until(lambda: scene.brokers[2].requests)
    present, earlier = scene.write(5, 0, 1, epoch=5), scene.write(5, 0, epoch=4)
    for _ in range(5):
        await asyncio.sleep(0)
    scene.brokers[2].gate.set()
    await asyncio.gather(first, present)
    await until(lambda: len(scene.brokers[2].requests) == 3)
    epochs = [[marker.coordinator_epoch for marker in request.markers] for request in scene.brokers[2].requests]
    assert epochs == [[5], [5], [4]]
    assert not earlier.done(), "it ends with the life of the shard that asked"
    earlier.cancel()
    await asyncio.gather(earlier, return_exceptions=True)


@on_loop
async def test_a_coordinator_that_is_told_that_it_was_replaced_and_was_not_insists(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(marker_routing, "asyncio", Impatient(pauses))
    scene = Scene(2, 1)
    scene.brokers[2].codes = lambda _: ErrorCode.NONE if len(pauses) >= 3 else ErrorCode.TRANSACTION_COORDINATOR_FENCED
    await scene.write(5, 0, 1)
    assert len(scene.brokers[2].requests) == 4
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


@on_loop
async def test_an_answer_that_no_time_mends_ends_it() -> None:
    scene = Scene(2, 1)
    scene.brokers[2].codes = scene.brokers[1].codes = lambda _: ErrorCode.INVALID_PRODUCER_EPOCH
    await scene.write(5, 0, 1)
    assert len(scene.brokers[2].requests) == 1
    assert len(scene.brokers[1].local) == 1


@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR])
@on_loop
async def test_whatever_else_is_answered_the_transaction_does_not_end_without_its_marker(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(marker_routing, "FIRST_PAUSE_SECONDS", 1.0)
    monkeypatch.setattr(marker_routing, "asyncio", Impatient(pauses))
    scene = Scene(2, 1)
    scene.brokers[2].codes = scene.brokers[1].codes = lambda _: ErrorCode.NONE if len(pauses) >= 12 else code
    await scene.write(5, 0, 1)
    assert len(pauses) >= 12
    assert sorted(set(pauses)) == [1.0, 2.0, 4.0, 8.0, 15.0]
    assert f"t-0: no marker for x, whose transaction stays open there: {code.name}" in caplog.text


@pytest.mark.parametrize("leader", [1, 2])
@on_loop
async def test_a_mistake_of_ours_does_not_end_it_either(leader: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(leader)

    def mistaken(partition: TopicPartition) -> ErrorCode:
        scene.brokers[leader].codes = fine
        scene.become(leader)
        raise RuntimeError("a mistake")

    monkeypatch.setattr(marker_routing, "asyncio", Impatient([]))
    scene.brokers[leader].codes = mistaken
    await scene.write(5, 0)
    assert scene.brokers[leader].codes is fine


class Impatient:
    """The module's asyncio, where no pause takes any time."""

    def __init__(self, pauses: list[float]) -> None:
        self._pauses = pauses

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self._pauses.append(seconds)
        await asyncio.sleep(0)


@on_loop
async def test_one_that_gives_up_leaves_the_others_request_alone() -> None:
    scene = Scene(2, 2)
    scene.brokers[2].gate.clear()
    given_up, kept = scene.write(5, 0), scene.write(6, 1)
    await until(lambda: scene.brokers[2].requests)
    given_up.cancel()
    scene.brokers[2].gate.set()
    await kept
    assert given_up.cancelled()
