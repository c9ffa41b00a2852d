"""Levels of Python's loggers, under Java's names."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from moldau.connect.worker.errors import not_found

LEVELS: Final = {
    "OFF": logging.CRITICAL + 10, "FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING,
    "INFO": logging.INFO, "DEBUG": logging.DEBUG, "TRACE": 5, "ALL": 1,
}  # fmt: skip


class Loggers:
    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._set: dict[str, int] = {}

    def all(self) -> dict[str, Any]:
        return {name: self.one(name) for name in sorted({"root", *self._set})}

    def one(self, name: str) -> dict[str, Any]:
        if name != "root" and name not in self._set and name not in logging.root.manager.loggerDict:
            raise not_found(f"Logger {name} not found.")
        level = logging.getLogger(None if name == "root" else name).getEffectiveLevel()
        called = next((each for each, number in LEVELS.items() if number == level), str(level))
        return {"level": called, "last_modified": self._set.get(name)}

    def set(self, name: str, level: str) -> list[str]:
        below = [
            each for each in list(logging.root.manager.loggerDict) if each.startswith(f"{name}.") or name == "root"
        ]
        changed = sorted({name, *below})
        for each in changed:
            logging.getLogger(None if each == "root" else each).setLevel(LEVELS[level])
            self._set[each] = int(self._wall_clock() * 1000)
        return changed
