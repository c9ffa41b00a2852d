"""Timers of coordinators in tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from moldau.coordinators.machine import Write


@dataclass(slots=True)
class RecordingTimers:
    """Deadlines are kept, and fired by whoever drives the machine."""

    armed: dict[object, tuple[float, Callable[[float], Write[None]]]] = field(default_factory=dict)

    def set(self, name: object, deadline: float, operation: Callable[[float], Write[None]]) -> None:
        self.armed[name] = (deadline, operation)

    def cancel(self, name: object) -> None:
        self.armed.pop(name, None)

    def due(self, now: float) -> list[Callable[[float], Write[None]]]:
        """Takes out what is due, in the order of the deadlines."""
        ready = sorted((deadline, str(name), name) for name, (deadline, _) in self.armed.items() if deadline <= now)
        return [self.armed.pop(name)[1] for _, _, name in ready]
