"""Another broker on a loopback socket: introduces itself, answers what the test says, cuts, delays, lies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from moldau.client.settings import Address
from moldau.server.peers.opening import Endpoint, Opener, Self
from moldau.wire.codec import decode, encode
from moldau.wire.framing import frame_response, read_request_header, response_has_tags, skip_header_tags
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest, IntroduceBrokerResponse
from moldau.wire.schema import Message

CLUSTER = "the-cluster"
Answer = Callable[[Message], Awaitable[Message | bytes]]
"""A message, or bytes that are sent as they are. Raising ends the connection."""

CALLER = Self(1, CLUSTER, UUID(int=1))
OPENER = Opener(lambda: CALLER, lambda count: b"r" * count)


class CutError(Exception):
    """Raised by a script: the connection is to be cut here."""


class FakeBroker:
    def __init__(self, answer: Answer, broker_id: int = 2, incarnation: int = 2) -> None:
        self.answer = answer
        self.broker_id, self.cluster_id, self.incarnation = broker_id, CLUSTER, UUID(int=incarnation)
        self.requests: list[Message] = []
        self.client_ids: list[str | None] = []
        self.accepted = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.classes: dict[int, type[Message]] = {}
        self.serve_class(ApiVersionsRequest, IntroduceBrokerRequest, HeartbeatRequest)

    def serve_class(self, *requests: type[Message]) -> None:
        self.classes.update({each.API_KEY: each for each in requests})

    async def __aenter__(self) -> FakeBroker:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As a process that dies: the listening socket goes first, then every connection."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.sleep(0)

    def cut(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.broker_id, Address("127.0.0.1", self.port), 7, self.incarnation)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                writer.write(await self._respond(frame))
        except (asyncio.IncompleteReadError, ConnectionError, CutError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _respond(self, frame: bytes) -> bytes:
        header = read_request_header(frame)
        cls = self.classes[header.api_key]
        flexible = header.api_version >= cls.FLEXIBLE_FROM
        position = skip_header_tags(frame, header.body) if flexible else header.body
        request, _ = decode(cls, header.api_version, frame, position)
        answer = self._introduction(request)
        if answer is None:
            self.requests.append(request)
            self.client_ids.append(header.client_id)
            answer = await self.answer(request)
        if not isinstance(answer, Message):
            return answer
        tags = response_has_tags(header.api_key, flexible)
        return frame_response(header.correlation_id, tags, encode(answer, header.api_version))

    def _introduction(self, request: Message) -> Message | None:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=each.FIRST_VERSION, max_version=each.LAST_VERSION)
                    for key, each in self.classes.items()
                ]
            )
        if isinstance(request, IntroduceBrokerRequest):
            return IntroduceBrokerResponse(
                cluster_id=self.cluster_id, broker_id=self.broker_id, incarnation=self.incarnation
            )
        return None
