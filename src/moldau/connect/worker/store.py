"""Where configurations and states are kept, as the herder sees it; in memory, for a standalone worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.connect.worker.records import Record
from moldau.connect.worker.state import Configs, Statuses


class Store(Protocol):
    configs: Configs
    statuses: Statuses
    changed: threading.Condition

    def write_configs(self, records: Sequence[Record]) -> None:
        """All or none; only the leader's are taken."""

    def write_statuses(self, records: Sequence[Record]) -> None: ...


class MemoryStore:
    def __init__(self, told: Callable[[Record], None] = lambda _: None) -> None:
        self.configs = Configs()
        self.statuses = Statuses()
        self.changed = threading.Condition(threading.RLock())
        self.told = told

    def write_configs(self, records: Sequence[Record]) -> None:
        with self.changed:
            for record in records:
                self.configs.apply(record)
            self.changed.notify_all()
        for record in records:
            self.told(record)

    def write_statuses(self, records: Sequence[Record]) -> None:
        with self.changed:
            for record in records:
                self.statuses.apply(record)
            self.changed.notify_all()
