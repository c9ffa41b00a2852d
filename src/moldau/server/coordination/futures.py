"""A coordinator's deferred answer: at once if it is known, else as something to await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.types.errors import KafkaError
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")

PARTS_PER_TURN = 4


async def answer_of(deferred: Deferred[T]) -> T:
    """Raises the KafkaError that the request failed with."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(value: T | None, error: KafkaError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]  # no error: there is a value

    deferred.when_done(done)
    return await future


class Later(Awaitable[R]):
    """What the coordinator will say, packed as a handler wants it. To be awaited, or without a task: to be told when
    it is there."""

    __slots__ = ("_deferred", "_pack", "_refuse")

    def __init__(self, deferred: Deferred[Any], pack: Callable[[Any], R], refuse: Callable[[KafkaError], R]) -> None:
        self._deferred, self._pack, self._refuse = deferred, pack, refuse

    def __await__(self) -> Generator[Any, Any, R]:
        try:
            value = yield from answer_of(self._deferred).__await__()
        except KafkaError as error:
            return self._refuse(error)
        return self._pack(value)

    def when_done(self, listener: Callable[[], object]) -> None:
        """Called from within the coordinator: not the moment for anything but to remember it."""

        def told(value: object, error: KafkaError | None) -> None:
            listener()

        self._deferred.when_done(told)

    def result(self) -> R:
        """Once it is there."""
        value, error = self._deferred.outcome
        return self._pack(value) if error is None else self._refuse(error)


def respond(
    request: Callable[[], Deferred[T]], pack: Callable[[T], R], refuse: Callable[[KafkaError], R]
) -> R | Later[R]:
    """A handler's answer. What the coordinator knows at once needs no waiting: heartbeats come by the thousand."""
    try:
        deferred = request()
    except KafkaError as error:
        return refuse(error)
    answer = Later(deferred, pack, refuse)
    return answer.result() if deferred.is_done else answer


def gather(parts: Sequence[R | Awaitable[R]], pack: Callable[[list[R]], S]) -> S | Awaitable[S]:
    """One answer of several parts, each as `respond` gives it."""
    known = [part for part in parts if not isinstance(part, Awaitable)]
    return pack(known) if len(known) == len(parts) else _gather_later(parts, pack)


async def gather_in_turns(parts: Iterable[R | Awaitable[R]], pack: Callable[[list[R]], S]) -> S:
    """`gather` of many parts, each of which is only made when its turn comes."""
    begun = await run(_collected(parts))
    return pack([await part if isinstance(part, Awaitable) else part for part in begun])


def _collected(parts: Iterable[T]) -> Work[list[T]]:
    paused = pauses(PARTS_PER_TURN)
    found = []
    for part in parts:
        found.append(part)
        if next(paused):
            yield
    return found


async def _gather_later(parts: Sequence[R | Awaitable[R]], pack: Callable[[list[R]], S]) -> S:
    return pack([await part if isinstance(part, Awaitable) else part for part in parts])
