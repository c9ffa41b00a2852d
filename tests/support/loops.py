"""Tests that are coroutines: each runs on an event loop of its own, and leaves no task behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")

PATIENCE_SECONDS = 30.0


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(look: Callable[[], object]) -> None:
    """Lets the loop turn until something is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not look():  # noqa: ASYNC110  # what is looked at happens on this loop
            await asyncio.sleep(0)
