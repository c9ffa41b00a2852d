"""One instance: reads from its own state, writes where it leads, hands writes on where it does not."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from starlette.responses import Response

from moldau.registry.canonical import Canonical
from moldau.registry.election import Identity
from moldau.registry.errors import NotLeader, RegistryError, Unread, timed_out
from moldau.registry.forwarding import FORWARDED, OFFSET, forward
from moldau.registry.log import SchemaLog
from moldau.registry.rules import Decision, Rules
from moldau.registry.shapes import for_client
from moldau.registry.state import State
from moldau.web import Call
from moldau.web.application import to_json

THREADS: Final = 16
LOOK_SECONDS: Final = 2.0
"""How long brokers that are away may hold up an answer for which nothing has to be written."""
T = TypeVar("T")


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
        self._readers = ThreadPoolExecutor(THREADS, "registry-schemas")
        self._free_readers = asyncio.Semaphore(THREADS)
        self._threads = ThreadPoolExecutor(THREADS, "registry")
        """For what waits for the log, or for the leader: those that wait for schemas to be read do not hold it up."""
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
        await self._waiting(self._log.until_read)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def in_thread(self, action: Callable[[], T]) -> T:
        """For what blocks: schemas are read in other processes. Waits for a thread no longer than for anything else."""
        try:
            await asyncio.wait_for(self._free_readers.acquire(), self._seconds)
        except TimeoutError:
            raise timed_out("the schemas before this one have not been read") from None
        try:
            return await self._loop.run_in_executor(self._readers, action)
        finally:
            self._free_readers.release()

    async def _waiting(self, action: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, action)

    async def write(
        self,
        call: Call,
        decide: Callable[[], Decision],
        known: Callable[[], object | None] | None = None,
        *,
        reads_schemas: bool = False,
    ) -> object:
        """`decide` makes of the state, in a thread and alone, what is written; what `reads_schemas` for it is rehearsed
        before, while others write. `known` is the answer where the state has it all already: that needs no leader and
        no broker, so that clients start while these are away."""
        if self._log.problem is not None:
            raise RegistryError(50001, f"Error in the backend data store: {self._log.problem}")
        body = await call.body()
        # What was handed on is answered with an offset, which the other instance has to read up to.
        if known is not None and FORWARDED not in call.request.headers:
            answer = await self.in_thread(lambda: self._still_known(known))
            if answer is not None:
                return answer
        for _ in range(3):
            leader = await self._known_leader()
            if self._leads:
                if reads_schemas:
                    await self.in_thread(lambda: rehearsed(decide))
                try:
                    answer, offset = await self._in_turn(decide)
                except NotLeader:
                    # Another one writes. Only the election tells who leads; to forget its last word would be to wait
                    # for ever, and to believe it to take the log back from the leader.
                    await self._waiting(lambda: self.doubt(self._seconds))
                    continue
                kind = call.request.headers.get("accept", "")
                return Response(
                    to_json(for_client(call, answer)), headers={OFFSET: str(offset)}, media_type=media_type(kind, call)
                )
            if FORWARDED in call.request.headers:
                raise RegistryError(50004, "The request was forwarded to this instance, which does not lead any more")
            return await self._forwarded(call, leader, body)
        raise RegistryError(50004, "The leader changed while the request was under way")

    def _still_known(self, known: Callable[[], object | None]) -> object | None:
        """Also after all that others have written until now, such as that it is deleted. Without brokers nobody writes,
        and it is what this instance has read."""
        answer = known()
        if answer is None or self._leader is None:
            return answer
        try:
            end = self._log.end(LOOK_SECONDS)
        except (RegistryError, NotLeader):
            return answer
        try:
            self._log.read_up_to(end)
        except RegistryError:
            return None
        return known()

    async def _in_turn(self, decide: Callable[[], Decision]) -> tuple[Any, int]:
        """One write at a time; those behind one that hangs hold no threads, and give up in time."""
        try:
            await asyncio.wait_for(self._turn.acquire(), self._seconds)
        except TimeoutError:
            raise timed_out("the writes before this one have not ended") from None
        try:
            decided: tuple[Any, int] = await self._waiting(lambda: self._decided(decide))
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
        answer = await self._waiting(
            lambda: forward(leader.url, request.method, target, headers, body, 2 * self._seconds, self._tls)
        )
        if (offset := answer.offset) is not None:
            await self._waiting(lambda: self._log.wait_for(offset))
        return Response(answer.body, answer.status, media_type=answer.media_type)


def rehearsed(decide: Callable[[], Decision]) -> None:
    """So that the schemas are read when it is decided. What is refused now may be because something that it builds upon
    has not been read from the topic yet."""
    try:
        decide()
    except Unread:
        raise
    except RegistryError:
        return


def media_type(accept: str, call: Call) -> str:
    from moldau.web.application import accepted

    return accepted(accept, call.endpoint.produces or call.media_types) or call.media_types[0]
