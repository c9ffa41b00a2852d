"""What becomes of the time of requests, beside the whole of it (TotalTimeMs), under Kafka's names.

RemoteTimeMs is what a request waited for others: replicas, the controller, disks, records that are not there yet. Only
requests that wait have one, so that those that do not pay nothing for it. What is left of the whole is LocalTimeMs, and
not told apart: one thread begins a request as soon as its connection may, and sends answers at the end of its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from moldau.metrics import Histogram, Metrics

if TYPE_CHECKING:
    from moldau.server.connection import Connection

GROUP, KIND = "kafka.network", "RequestMetrics"


class RequestTimes:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._remote: dict[str, Histogram] = {}

    def waited(self, request: str, seconds: float) -> None:
        found = self._remote.get(request)
        if found is None:
            found = self._remote[request] = self._metrics.histogram(GROUP, KIND, "RemoteTimeMs", request=request)
        found.record(seconds * 1000)

    def throttled(self, request: str, milliseconds: float) -> None:
        """Of requests that are beyond a quota: how long their client has to be silent."""
        self._metrics.histogram(GROUP, KIND, "ThrottleTimeMs", request=request).record(milliseconds)


def show_queues(metrics: Metrics, connections: Callable[[], Iterable[Connection]]) -> None:
    """Requests that were read and not begun, because those before them on their connection are not done, or their
    client has to wait; and answers that clients have not taken yet."""
    channel = "kafka.network", "RequestChannel"
    metrics.gauge(lambda: sum(each.requests_waiting for each in connections()), *channel, "RequestQueueSize")
    metrics.gauge(lambda: sum(each.answers_waiting for each in connections()), *channel, "ResponseQueueSize")
