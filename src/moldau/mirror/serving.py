"""What a worker tells of itself over HTTP: flows as JSON, metrics under MirrorMaker 2's names, and whether it lives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.metrics.registry import Histogram, MetricName, Metrics
from moldau.mirror.running import Mirror
from moldau.version import VERSION
from moldau.web import Api, ApiError, Call, Service, WebSettings

if TYPE_CHECKING:
    from moldau.mirror.progress import Progress, Shared

GROUP: Final = "kafka.connect.mirror"
START_SECONDS: Final = 30.0
NOT_FOUND: Final = 404


class MirrorMetrics(Metrics):
    """Read off the flows when somebody asks: partitions come and go."""

    def __init__(self, mirror: Mirror, wall: Callable[[], float]) -> None:
        super().__init__()
        self._mirror = mirror
        self._wall = wall

    def snapshot(self) -> Iterator[tuple[MetricName, float | Histogram]]:
        yield from super().snapshot()
        for running in self._mirror.flows:
            if running.flow.enabled:
                tags = (("source", running.flow.source), ("target", running.flow.target))
                yield from flow_metrics(running.shared, tags)
                for progress in list(running.shared.partitions.values()):
                    yield from partition_metrics(progress, tags, self._wall())


Tags = tuple[tuple[str, str], ...]


def flow_metrics(shared: Shared, tags: Tags) -> Iterator[tuple[MetricName, float]]:
    kind = "MirrorFlow"
    yield MetricName(GROUP, kind, "TransactionsPerSec", tags), shared.transactions
    yield MetricName(GROUP, kind, "LanesTakenAgainPerSec", tags), shared.resets
    yield MetricName(GROUP, kind, "CheckpointsPerSec", tags), shared.checkpoints
    yield MetricName(GROUP, kind, "HeartbeatsPerSec", tags), shared.heartbeats
    yield MetricName(GROUP, kind, "Lanes", tags), len(shared.lanes)
    yield MetricName(GROUP, kind, "Groups", tags), shared.groups
    yield MetricName(GROUP, kind, "TopicsNotCopied", tags), len(shared.problems)


def partition_metrics(progress: Progress, tags: Tags, now: float) -> Iterator[tuple[MetricName, float]]:
    kind = "MirrorSourceConnector"
    more = (*tags, ("topic", progress.remote), ("partition", str(progress.place.partition)))
    yield MetricName(GROUP, kind, "record-count", more), progress.records
    yield MetricName(GROUP, kind, "byte-count", more), progress.size
    yield MetricName(GROUP, kind, "lag", more), -1 if progress.lag is None else progress.lag
    yield MetricName(GROUP, kind, "lost-offsets", more), progress.lost
    yield MetricName(GROUP, kind, "failed", more), int(progress.state == "FAILED")
    if progress.copied_at is not None:
        yield MetricName(GROUP, kind, "seconds-since-last-record", more), max(0.0, now - progress.copied_at)


def make_api(mirror: Mirror) -> Api:
    api = Api("Moldau mirror", VERSION, ("application/json",))

    @api.get("/flows", answer={"type": "array"}, tag="mirror")
    async def flows(call: Call) -> object:
        """Every flow with its partitions, as this worker knows them"""
        return mirror.as_json()

    @api.get("/flows/{source}/{target}", answer={"type": "object"}, errors=(NOT_FOUND,), tag="mirror")
    async def one(call: Call) -> object:
        """One flow"""
        name = f"{call.path['source']}->{call.path['target']}"
        for each in mirror.as_json():
            if each["flow"] == name:
                return each
        raise ApiError(NOT_FOUND, f"there is no flow {name}")

    return api


def not_ready(mirror: Mirror) -> str | None:
    troubles = [f"{each['flow']}: {each['error']}" for each in mirror.as_json() if each["error"]]
    return "; ".join(troubles) or None


class Window(threading.Thread):
    """The HTTP service on a loop of its own, beside the threads that copy."""

    def __init__(self, mirror: Mirror, properties: Mapping[str, str], listen: str, wall: Callable[[], float]) -> None:
        super().__init__(name="mirror-http", daemon=True)
        self._mirror = mirror
        self._settings = WebSettings.of({**properties, "listeners": listen}, listen)
        self._wall = wall
        self._opened = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._service: Service | None = None
        self._problem: BaseException | None = None
        self._ended: asyncio.Event | None = None

    def open(self) -> str:
        """Starts, and says where it listens."""
        self.start()
        self._opened.wait(START_SECONDS)
        if self._problem is not None or self._service is None:
            raise OSError(f"the mirror cannot be listened to: {self._problem or 'no time'}")
        return ",".join(map(str, self._service.listeners))

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._problem = error
        finally:
            self._opened.set()

    async def _serve(self) -> None:
        metrics = MirrorMetrics(self._mirror, self._wall)
        ended = asyncio.Event()
        self._loop, self._ended = asyncio.get_running_loop(), ended
        ready = partial(not_ready, self._mirror)
        async with Service(make_api(self._mirror), self._settings, metrics, self._wall, ready) as service:
            self._service = service
            self._opened.set()
            await ended.wait()

    def close(self) -> None:
        if self._loop is not None and self._ended is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._ended.set)
            self.join(START_SECONDS)
