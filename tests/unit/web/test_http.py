"""Requests whose clients offer another protocol are answered as if they had not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.web.test_service import run, running

OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
SOCKET = b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
BODY = b'{"leaves": 3}'
COUNTED = b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
POST = b"POST /things HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /things/tea/parts/9 HTTP/1.1\r\nHost: x\r\n"


@asynccontextmanager
async def connection() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with running() as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.listeners[0].port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, object]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].split("\r\n")[0])
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


@pytest.mark.parametrize("offer", [OFFER, SOCKET], ids=["h2c", "websocket"])
@pytest.mark.parametrize("body", [COUNTED, CHUNKED], ids=["counted", "chunked"])
@pytest.mark.parametrize("piece", [1, 40, 10_000])
def test_a_body_comes_with_an_offer_of_another_protocol(offer: bytes, body: bytes, piece: int) -> None:
    """In pieces of any size, again on the same connection, and with a request behind it that is not waited for."""
    sent = POST + offer + body + POST + offer + body + GET + offer + b"\r\n" + GET + b"\r\n"

    async def test() -> None:
        async with connection() as (reader, writer):
            for begin in range(0, len(sent), piece):
                writer.write(sent[begin : begin + piece])
                await writer.drain()
                await asyncio.sleep(0)
            part = {"name": "tea", "id": "9", "deep": False, "limit": 7}
            for wanted in ({"leaves": 3}, {"leaves": 3}, part, part):
                assert await asyncio.wait_for(answer(reader), 10) == (200, wanted)

    run(test)


def test_the_rest_of_the_head_stays() -> None:
    """`close`, beside the offer, is still heard."""

    async def test() -> None:
        async with connection() as (reader, writer):
            writer.write(GET + b"Connection: close, Upgrade\r\nUpgrade: h2c\r\nAccept: application/json\r\n\r\n")
            everything = await asyncio.wait_for(reader.read(), 10)
            assert everything.startswith(b"HTTP/1.1 200")
            assert b"content-type: application/json\r\n" in everything

    run(test)


def test_a_tunnel_is_refused() -> None:
    async def test() -> None:
        async with connection() as (reader, writer):
            writer.write(b"CONNECT other:80 HTTP/1.1\r\nHost: other:80\r\n\r\n")
            assert (await asyncio.wait_for(reader.readline(), 10)).split()[1][:1] == b"4"

    run(test)
