"""One instance: reads from its own state, writes where it leads, hands writes on where it does not."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from starlette.responses import Response

from moldau.registry.canonical import Canonical
from moldau.registry.election import Identity
from moldau.registry.errors import NotLeader, RegistryError, timed_out
from moldau.registry.forwarding import FORWARDED, OFFSET, forward
from moldau.registry.log import SchemaLog
from moldau.registry.rules import Decision, Rules
from moldau.registry.shapes import for_client
from moldau.registry.state import State
from moldau.web import Call
from moldau.web.application import to_json

THREADS: Final = 16


class Registry:
    def __init__(
        self,
        state: State,
        rules: Rules,
        canonical: Canonical,
        log: SchemaLog,
        seconds: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.state = state
        self.rules = rules
        self.canonical = canonical
        self._log = log
        self._seconds = seconds
        self._tls = tls
        self._leader: Identity | None = None
        self._leads = False
        self._elected = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._writing = threading.Lock()
        self._turn = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "registry")
        self.doubt: Callable[[float], None] = lambda seconds: None
        """Asks the group whether this instance leads; blocks until it has answered."""

    # -- who leads ---------------------------------------------------------------------------------------------------

    def leader_changed(self, leader: Identity | None, leads: bool) -> None:
        """From the thread of the election."""
        self._leader, self._leads = leader, leads
        if not leads:
            self._log.resign()
        self._loop.call_soon_threadsafe(self._elected.set if leader is not None else self._elected.clear)

    @property
    def clusters(self) -> dict[str, str]:
        """The names of what it belongs to, as Confluent's registry gives them."""
        return {"kafka-cluster": self._log.cluster_id, "schema-registry-cluster": self._log.owner}

    @property
    def leads(self) -> bool:
        return self._leads

    @property
    def not_ready(self) -> str | None:
        return self._log.problem or (None if self._leader is not None else "no leader is elected")

    async def until_ready(self) -> None:
        await self._elected.wait()
        await self.in_thread(self._log.until_read)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def in_thread(self, action: Callable[[], Any]) -> Any:
        """For what blocks: schemas are read in other processes."""
        return await self._loop.run_in_executor(self._threads, action)

    async def write(
        self, call: Call, decide: Callable[[], Decision], known: Callable[[], object | None] | None = None
    ) -> object:
        """`decide` makes of the state, in a thread and alone, what is written. `known` is the answer where the state
        has it all already: that needs no leader and no broker, so that clients start while these are away."""
        if self._log.problem is not None:
            raise RegistryError(50001, f"Error in the backend data store: {self._log.problem}")
        body = await call.body()
        # What was handed on is answered with an offset, which the other instance has to read up to.
        if known is not None and FORWARDED not in call.request.headers:
            answer = await self.in_thread(known)
            if answer is not None:
                return answer
        for _ in range(3):
            leader = await self._known_leader()
            if self._leads:
                try:
                    answer, offset = await self._in_turn(decide)
                except NotLeader:
                    # Another one writes. Only the election tells who leads; to forget its last word would be to wait
                    # for ever, and to believe it to take the log back from the leader.
                    await self.in_thread(lambda: self.doubt(self._seconds))
                    continue
                kind = call.request.headers.get("accept", "")
                return Response(
                    to_json(for_client(call, answer)), headers={OFFSET: str(offset)}, media_type=media_type(kind, call)
                )
            if FORWARDED in call.request.headers:
                raise RegistryError(50004, "The request was forwarded to this instance, which does not lead any more")
            return await self._forwarded(call, leader, body)
        raise RegistryError(50004, "The leader changed while the request was under way")

    async def _in_turn(self, decide: Callable[[], Decision]) -> tuple[Any, int]:
        """One write at a time; those behind one that hangs hold no threads, and give up in time."""
        try:
            await asyncio.wait_for(self._turn.acquire(), self._seconds)
        except TimeoutError:
            raise timed_out("the writes before this one have not ended") from None
        try:
            decided: tuple[Any, int] = await self.in_thread(lambda: self._decided(decide))
            return decided
        finally:
            self._turn.release()

    def _decided(self, decide: Callable[[], Decision]) -> tuple[Any, int]:
        with self._writing:
            self._log.lead()
            decision = decide()
            if not decision.records:
                return decision.answer, self._log.position
            return decision.answer, self._log.write(decision.records)

    async def _known_leader(self) -> Identity:
        try:
            await asyncio.wait_for(self._elected.wait(), self._seconds)
        except TimeoutError:
            raise RegistryError(50004, "The leader is not known") from None
        if self._leader is None:
            raise RegistryError(50004, "The leader is not known")
        return self._leader

    async def _forwarded(self, call: Call, leader: Identity, body: bytes) -> Response:
        request = call.request
        target = request.scope["raw_path"].decode("latin-1")
        if request.url.query:
            target = f"{target}?{request.scope['query_string'].decode('latin-1')}"
        headers = dict(request.headers)
        answer = await self.in_thread(
            lambda: forward(leader.url, request.method, target, headers, body, 2 * self._seconds, self._tls)
        )
        if answer.offset is not None:
            await self.in_thread(lambda: self._log.wait_for(answer.offset))
        return Response(answer.body, answer.status, media_type=answer.media_type)


def media_type(accept: str, call: Call) -> str:
    from moldau.web.application import accepted

    return accepted(accept, call.endpoint.produces or call.media_types) or call.media_types[0]
