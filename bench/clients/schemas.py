"""A schema registry under load: reads by id over many connections, registrations, a start on a full topic, memory."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

CLIENTS: Final = 50


@dataclass(frozen=True, slots=True)
class Load:
    """Requests per second, and the time that all but one in a hundred took at most, in ms."""

    rate: float
    p99: float


def schema(number: int) -> str:
    fields = [{"name": f"f{each}", "type": "string", "doc": f"field {each} of {number}"} for each in range(10)]
    return json.dumps({"type": "record", "name": f"R{number}", "fields": fields})


class Refused(RuntimeError):
    """Another answer than 200."""


class Connection:
    """One that is kept, with answers that say their length or come in chunks."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._host, self._port, self._path = where.hostname or "localhost", where.port or 80, where.path.rstrip("/")

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def ask(self, method: str, path: str, body: object = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {self._path}{path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAccept: */*\r\n"
            f"Content-Type: application/vnd.schemaregistry.v1+json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if "transfer-encoding: chunked" in answer:
            content = await self._chunks()
        else:
            content = await self._reader.readexactly(int(answer.partition("content-length:")[2].split("\r\n")[0]))
        if not answer.startswith("http/1.1 200"):
            raise Refused(f"{method} {path}: {content[:300]!r}")
        return content

    async def _chunks(self) -> bytes:
        found = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            found += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
        return found

    def close(self) -> None:
        self._writer.close()


async def register(url: str, first: int, count: int, connections: int = 4) -> float:
    """Schemas of their own subjects; per second."""
    numbers = iter(range(first, first + count))

    async def run() -> None:
        connection = Connection(url)
        await connection.open()
        for number in numbers:
            await connection.ask("POST", f"/subjects/s{number}-value/versions", {"schema": schema(number)})
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(connections)))
    return count / (time.perf_counter() - started)


async def read(url: str, ids: int, seconds: float, connections: int = CLIENTS) -> Load:
    """Ids in turn, as fast as they are answered."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def run(place: int) -> None:
        connection = Connection(url)
        await connection.open()
        while (begun := time.perf_counter()) < end:
            await connection.ask("GET", f"/schemas/ids/{place % ids + 1}")
            times.append(time.perf_counter() - begun)
            place += connections
        connection.close()

    await asyncio.gather(*(run(place) for place in range(connections)))
    return Load(len(times) / seconds, sorted(times)[len(times) * 99 // 100] * 1000)


async def await_id(url: str, schema_id: int, pause: float = 0.01) -> None:
    """Returns when the schema is there."""
    connection = Connection(url)
    await connection.open()
    while True:
        try:
            await connection.ask("GET", f"/schemas/ids/{schema_id}")
            break
        except Refused:
            await asyncio.sleep(pause)
    connection.close()
