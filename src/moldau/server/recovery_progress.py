"""Tells how far the loading of logs has come, when it takes long."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from moldau.storage.manager import LoadProgress

log = logging.getLogger("moldau.server.recovery")

SECONDS_BETWEEN_LINES = 1.0


class RecoveryProgress:
    """Called from the threads that load; one line a second at most."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next_line = monotonic() + SECONDS_BETWEEN_LINES
        self._lock = threading.Lock()

    def __call__(self, progress: LoadProgress) -> None:
        with self._lock:
            now = self._monotonic()
            if now < self._next_line:
                return
            self._next_line = now + SECONDS_BETWEEN_LINES
        log.info(
            "%s: %d of %d logs loaded; %s: %d of %d MB checked",
            progress.directory,
            progress.logs_loaded,
            progress.logs,
            progress.partition,
            progress.bytes_checked >> 20,
            progress.bytes_to_check >> 20,
        )
