"""Calls to another broker over real sockets: answered in order, cut, late, cancelled, huge, refused."""

from __future__ import annotations

import asyncio
from struct import pack
from uuid import UUID

import pytest

from moldau.server.peers.buffers import RecycledBuffers
from moldau.server.peers.channel import Channel
from moldau.server.peers.opening import Endpoint
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest
from moldau.wire.schema import Message
from tests.fakes.peer_broker import OPENER, CutError, FakeBroker
from tests.support.loops import on_loop, until


def number(request: Message) -> int:
    assert isinstance(request, HeartbeatRequest)
    return request.generation_id


async def echo(request: Message) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=number(request))


async def cut(request: Message) -> Message:
    raise CutError


async def never(request: Message) -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def channel_to(broker: FakeBroker, lane: Lane = Lane.CONTROL) -> Channel:
    return Channel(broker.endpoint, lane, OPENER)


async def beat(channel: Channel, value: int = 0, timeout_seconds: float | None = None) -> int:
    request = HeartbeatRequest(generation_id=value)
    answer = await channel.call(request, HeartbeatResponse, timeout_seconds, None)
    return answer.throttle_time_ms


@on_loop
async def test_many_calls_share_one_connection_and_get_their_own_answers() -> None:
    async with FakeBroker(echo) as broker:
        channel = channel_to(broker, Lane.fetch(3))
        assert await asyncio.gather(*(beat(channel, value) for value in range(50))) == list(range(50))
        assert broker.accepted == 1
        assert broker.client_ids[0] == "broker-1-fetch-3"
        channel.close("done")


@on_loop
async def test_calls_under_way_fail_when_the_connection_is_cut_and_the_next_one_opens_another() -> None:
    async with FakeBroker(never) as broker:
        channel = channel_to(broker)
        calls = [asyncio.create_task(beat(channel, value)) for value in range(3)]
        await until(lambda: len(broker.requests) == 1)
        broker.cut()
        for call in calls:
            with pytest.raises(PeerLostError):
                await call
        broker.answer = echo
        assert await beat(channel, 4) == 4
        assert broker.accepted == 2
        channel.close("done")


@on_loop
async def test_a_late_answer_ends_the_connection() -> None:
    """What waits behind it would get it too late as well, and nobody may take the answer for another one's."""
    async with FakeBroker(never) as broker:
        channel = channel_to(broker)
        behind = asyncio.create_task(beat(channel, 2))
        with pytest.raises(PeerLostError, match=r"did not answer within 0.05 s"):
            await beat(channel, 1, 0.05)
        with pytest.raises(PeerLostError):
            await behind
        broker.answer = echo
        assert await beat(channel, 3) == 3
        channel.close("done")


@on_loop
async def test_the_answer_of_a_cancelled_call_is_nobody_elses() -> None:
    released = asyncio.Event()

    async def later(request: Message) -> HeartbeatResponse:
        await released.wait()
        return await echo(request)

    async with FakeBroker(later) as broker:
        channel = channel_to(broker)
        given_up = asyncio.create_task(beat(channel, 1))
        kept = asyncio.create_task(beat(channel, 2))
        await until(lambda: len(broker.requests) == 1)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        released.set()
        assert await kept == 2
        assert broker.accepted == 1
        channel.close("done")


@on_loop
async def test_a_call_cancelled_while_the_connection_opens_leaves_it_to_the_others() -> None:
    async with FakeBroker(echo) as broker:
        channel = channel_to(broker)
        given_up, kept = asyncio.create_task(beat(channel, 1)), asyncio.create_task(beat(channel, 2))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await kept == 2
        assert given_up.cancelled()
        assert broker.accepted == 1
        channel.close("done")


@on_loop
async def test_closing_ends_what_is_under_way_and_what_comes() -> None:
    async with FakeBroker(never) as broker:
        channel = channel_to(broker)
        under_way = asyncio.create_task(beat(channel))
        await until(lambda: len(broker.requests) == 1)
        channel.close("it has gone")
        for call in (under_way, beat(channel)):
            with pytest.raises(PeerLostError, match="it has gone"):
                await call


@on_loop
async def test_closing_while_it_opens_is_no_cancellation_for_who_waits() -> None:
    async with FakeBroker(echo) as broker:
        channel = channel_to(broker)
        waiting = asyncio.create_task(beat(channel))
        await asyncio.sleep(0)
        channel.close("it has gone")
        with pytest.raises(PeerLostError, match="it has gone"):
            await waiting


@on_loop
async def test_nobody_there_is_told_and_tried_again() -> None:
    broker = FakeBroker(echo)
    await broker.listen()
    await broker.stop()
    channel = channel_to(broker)
    for _ in range(3):
        with pytest.raises(PeerLostError):
            await beat(channel)
    await broker.listen()
    assert await beat(channel, 5) == 5
    channel.close("done")
    await broker.stop()


@on_loop
async def test_one_that_accepts_and_closes_is_dialled_with_pauses() -> None:
    async with FakeBroker(cut) as broker:
        channel = channel_to(broker)
        for attempt in range(4):
            with pytest.raises(PeerLostError):
                await beat(channel)
            assert channel._pause == 0.01 * 2**attempt
        broker.answer = echo
        await beat(channel)
        assert channel._pause == 0.0
        channel.close("done")


@pytest.mark.parametrize("what", ["broker_id", "cluster_id"])
@on_loop
async def test_another_broker_at_the_address_is_not_called(what: str) -> None:
    async with FakeBroker(echo) as broker:
        endpoint = broker.endpoint
        setattr(broker, what, 9 if what == "broker_id" else "another-cluster")
        channel = Channel(endpoint, Lane.CONTROL, OPENER)
        with pytest.raises(PeerLostError, match="answers there"):
            await beat(channel)
        assert broker.requests == []


@on_loop
async def test_a_broker_that_is_none_of_ours_is_not_called() -> None:
    async with FakeBroker(echo) as broker:
        del broker.classes[IntroduceBrokerRequest.API_KEY]
        with pytest.raises(PeerLostError, match="IntroduceBroker"):
            await beat(channel_to(broker))


@on_loop
async def test_an_api_that_the_other_lacks_is_told_and_the_connection_stays() -> None:
    async with FakeBroker(echo) as broker:
        channel = channel_to(broker)
        with pytest.raises(PeerLostError, match="serves Fetch"):
            await channel.call(FetchRequest(), FetchResponse, None, None)
        assert await beat(channel, 1) == 1
        assert broker.accepted == 1
        channel.close("done")


@pytest.mark.parametrize("nonsense", [pack(">i", -5), pack(">i", 1 << 30) + b"x", pack(">ii", 8, 77) + b"abcd"])
@on_loop
async def test_bytes_that_are_no_answer_end_the_connection(nonsense: bytes) -> None:
    async def babble(request: Message) -> bytes:
        return nonsense

    async with FakeBroker(babble) as broker:
        channel = channel_to(broker)
        with pytest.raises(PeerLostError):
            await beat(channel)
        broker.answer = echo
        assert await beat(channel, 1) == 1
        channel.close("done")


@on_loop
async def test_a_silent_address_is_given_up_in_time() -> None:
    """Accepts and says nothing: a stopped process, or no broker at all."""

    ended = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    endpoint = FakeBroker(echo).endpoint
    address = endpoint.address._replace(port=server.sockets[0].getsockname()[1])
    channel = Channel(Endpoint(2, address, 1, UUID(int=2)), Lane.CONTROL, OPENER)
    with pytest.raises(PeerLostError, match="did not answer within"):
        await beat(channel, timeout_seconds=0.05)
    channel.close("done")
    await ended.wait()
    server.close()


@on_loop
async def test_record_batches_of_a_huge_answer_are_views_of_the_frame() -> None:
    records = bytes(range(256)) * 40_000

    async def fetched(request: Message) -> FetchResponse:
        partition = PartitionData(partition_index=0, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

    async with FakeBroker(fetched) as broker:
        broker.serve_class(FetchRequest)
        channel = channel_to(broker, Lane.fetch())
        seen = []
        for _ in range(3):
            answer = await channel.call(FetchRequest(), FetchResponse, None, 12)
            found = answer.responses[0].partitions[0].records
            assert isinstance(found, memoryview)
            assert bytes(found) == records
            seen.append(found)
        assert all(bytes(found) == records for found in seen), "an answer that is still looked at was written over"
        channel.close("done")


def test_memory_is_used_again_once_nobody_looks_into_it() -> None:
    buffers = RecycledBuffers()
    first = buffers(100_000)
    first[:3] = b"abc"
    kept = first[1:3]
    second = buffers(100_000)
    second[:3] = b"xyz"
    assert bytes(kept) == b"bc"
    underneath = second.obj
    second.release()
    third = buffers(90_000)
    assert third.obj is underneath
    assert len(third) == 90_000
    assert first.obj is not underneath


@on_loop
async def test_software_that_calls_itself_a_broker_says_so() -> None:
    async with FakeBroker(echo) as broker:
        asked: list[Message] = []
        introduction = broker._introduction

        def remembered(request: Message) -> Message | None:
            asked.append(request)
            return introduction(request)

        broker._introduction = remembered  # type: ignore[method-assign]
        channel = channel_to(broker)
        await beat(channel)
        versions, introduced, *_ = asked
        assert isinstance(versions, ApiVersionsRequest) and versions.client_software_name == "moldau-broker"
        assert isinstance(introduced, IntroduceBrokerRequest)
        assert (introduced.broker_id, introduced.incarnation) == (1, UUID(int=1))
        channel.close("done")


@on_loop
async def test_before_a_login_ends_another_connection_is_opened_and_nothing_under_way_is_lost() -> None:
    let_go = asyncio.Event()

    async def slow(request: Message) -> Message:
        if number(request) == 1:
            await let_go.wait()
        return await echo(request)

    async with FakeBroker(slow) as broker:
        channel = channel_to(broker)
        assert await beat(channel, 0) == 0
        assert channel._connection is not None
        first = channel._connection
        under_way = asyncio.create_task(beat(channel, 1))
        await until(lambda: len(broker.requests) == 2)
        first.core.session_seconds = 1e-6  # it has ended a long time ago
        assert await beat(channel, 2) == 2
        assert broker.accepted == 2
        assert first.lost is None
        let_go.set()
        assert await under_way == 1
        assert first.lost is not None
        assert await beat(channel, 3) == 3
        assert broker.accepted == 2
        channel.close("done")
