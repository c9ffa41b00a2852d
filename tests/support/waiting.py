"""Waiting for something another process does: by looking again, never by hoping that a pause was long enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Timeout(AssertionError):
    """What was waited for did not happen."""


def wait_until(look: Callable[[], T], what: str, seconds: float = 30.0, pause: float = 0.02) -> T:
    """Calls `look` until it returns something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Timeout(f"not within {seconds:g} s: {what} (last seen: {found!r})")
        time.sleep(pause)
