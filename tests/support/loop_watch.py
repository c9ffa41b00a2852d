"""Counts what each callback of an event loop does, in lines of Python: a measure of how long it holds the loop that is
the same on every machine.

A line that is run again in a loop or a comprehension counts again, so that going over n things costs n at least. Work
inside of C functions is not seen; nor are other threads.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest

from moldau.work import turns


@dataclass(slots=True)
class LoopWatch:
    """`worst` is the largest number of lines that one callback has run, and `where` most of them were."""

    worst: int = 0
    where: str = ""
    _thread: int = field(default_factory=threading.get_ident)
    _lines: int = 0
    _by_code: dict[Any, int] = field(default_factory=dict)

    def reset(self) -> None:
        self.worst, self.where = 0, ""

    def run(self, handle: asyncio.Handle, original: Any) -> None:
        if threading.get_ident() != self._thread:  # a loop of somebody else, as of a client left behind in a thread
            original(handle)
            return
        self._lines = 0
        self._by_code = {}
        sys.settrace(self._trace)
        try:
            original(handle)
        finally:
            sys.settrace(None)
            if self._lines > self.worst:
                self.worst = self._lines
                busiest = sorted(self._by_code.items(), key=lambda item: -item[1])[:4]
                self.where = ", ".join(f"{code.co_qualname} {count}" for code, count in busiest)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self._lines += 1
            self._by_code[frame.f_code] = self._by_code.get(frame.f_code, 0) + 1
        return self._trace


def watch_loop(monkeypatch: pytest.MonkeyPatch) -> LoopWatch:
    """Watches the loops of asyncio itself, and lets every slice of work end at its first yield."""
    watch, original = LoopWatch(), asyncio.Handle._run
    monkeypatch.setattr(asyncio.Handle, "_run", lambda handle: watch.run(handle, original))
    seconds = iter(range(sys.maxsize))
    monkeypatch.setattr(turns, "clock", lambda: float(next(seconds)))
    return watch
