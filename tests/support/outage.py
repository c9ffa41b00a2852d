"""A broker that is away for a while, at any request of a client of ours, without anybody waiting for it.

While it is away, time passes only where somebody sleeps; connections from before are lost, as after a real restart.
"""

from __future__ import annotations

import time
from threading import Event
from typing import Any

from moldau.client import cluster as cluster_module
from moldau.client.connection import Connection
from moldau.client.errors import ConnectionLost
from moldau.spark.writing import links as links_module


class Outage:
    """Begins at the n-th request, or attempt to connect, since it was armed: before it is sent, or when its answer is
    on its way."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.requests = 0
        self.outages = 0
        self._skipped = 0.0
        self._begins_at: int | None = None
        self._loses_answer = False
        self._ends_at = float("-inf")

    def arm(self, begins_at: int | None, *, loses_answer: bool = False) -> None:
        self.requests = self.outages = 0
        self._begins_at, self._loses_answer = begins_at, loses_answer

    def install(self, monkeypatch: Any) -> None:
        connection = self._connection_class()
        monkeypatch.setattr(cluster_module, "Connection", connection)
        monkeypatch.setattr(links_module, "Connection", connection)

    # -- the clock that its clients get --------------------------------------------------------------------------

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        if self.is_away:
            self._skipped += seconds
        else:
            Event().wait(seconds)

    # -- requests --------------------------------------------------------------------------------------------------

    @property
    def is_away(self) -> bool:
        return self.monotonic() < self._ends_at

    def _begin(self) -> None:
        self.outages += 1
        self._begins_at = None
        self._ends_at = self.monotonic() + self.seconds

    def _meets(self, *, answer: bool) -> bool:
        """Whether the request, or its answer, is lost."""
        if self._begins_at == self.requests and self._loses_answer == answer:
            self._begin()
        return self.is_away

    def _connection_class(self) -> type[Connection]:
        outage = self

        class LosableConnection(Connection):
            def __init__(self, *given: Any, **more: Any) -> None:
                outage.requests += 1
                if outage._meets(answer=False):
                    raise ConnectionLost("cannot reach a broker: away")
                super().__init__(*given, **more)
                self.outages_before = outage.outages
                self._answer()

            def send(self, *given: Any, **more: Any) -> Any:
                outage.requests += 1
                if outage._meets(answer=False) or self.outages_before < outage.outages:
                    self._lose()
                return super().send(*given, **more)

            def receive(self, pending: Any) -> Any:
                if self.outages_before < outage.outages:
                    self._lose()
                answer = super().receive(pending)
                self._answer()
                return answer

            def _answer(self) -> None:
                if outage._meets(answer=True):
                    self._lose()

            def _lose(self) -> None:
                self.close()
                raise ConnectionLost("the broker closed the connection")

        return LosableConnection
