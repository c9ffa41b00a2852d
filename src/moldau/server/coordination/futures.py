"""A coordinator's deferred answer as something to await."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.types.errors import KafkaError

T = TypeVar("T")


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
