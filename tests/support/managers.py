"""A log manager in a test's folders: clocks to be set, work in the same thread, events kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult, run_job
from moldau.storage.compaction.runner import (
    CleaningDiskError,
    CleaningStoppedError,
    CorruptSourceError,
    JobRunner,
    OnGroup,
)
from moldau.storage.errors import CorruptLogError, LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LoadProgress, LogManager, ManagerEvents
from moldau.types.ids import TopicPartition
from tests.support.compacted import UnsyncedFiles
from tests.support.logs import NOW

T = TypeVar("T")
CLUSTER = "a-cluster"


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


class InlineRunner:
    """Runs jobs in this process."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._stopped = False
        self.jobs: list[CleaningJob] = []

    async def run(self, job: CleaningJob, bytes_per_second: float, on_group: OnGroup) -> CleaningResult:
        self._stopped = False
        self.jobs.append(job)
        try:
            for event in run_job(self._files, job, lambda _: None):
                if isinstance(event, CleanedGroup):
                    await on_group(event)
                    if self._stopped:
                        raise CleaningStoppedError("stopped")
                else:
                    return event
        except CorruptLogError as error:
            raise CorruptSourceError(str(error)) from error
        except OSError as error:
            raise CleaningDiskError(str(error)) from error
        raise AssertionError("a job ends with its result")

    async def stop(self) -> None:
        self._stopped = True


class Managed:
    """A manager with the cluster's view of it."""

    def __init__(
        self,
        directories: Iterable[object],
        *,
        files: FileSystem | None = None,
        topics: Mapping[str, UUID] | None = None,
        topic_config: Callable[[str], TopicConfig] | None = None,
        broker: Mapping[str, object] | None = None,
        run_blocking: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]] = at_once,
        new_runner: Callable[[], JobRunner] | None = None,
    ) -> None:
        self.files = files or UnsyncedFiles()
        self.now_ms = NOW
        self.topics = dict(topics or {})
        self.failed: list[tuple[str, list[TopicPartition]]] = []
        self.all_failed = 0
        self.replaced: dict[TopicPartition, PartitionLog] = {}
        self.progress: list[LoadProgress] = []
        self.runner = InlineRunner(self.files)
        self._ids = iter(range(1, 1_000_000))
        dirs = ",".join(map(str, directories))
        settings = {"log.dirs": dirs, "node.id": "1", **{k: str(v) for k, v in (broker or {}).items()}}
        self.config = BrokerConfig.load(settings)
        self._topic_config = topic_config or (lambda _: TopicConfig.resolve({}, self.config))
        self.logs = LogManager(
            self.files,
            self.config,
            events=ManagerEvents(self._directory_failed, self._all_failed, self.replaced.__setitem__),
            run_blocking=run_blocking,
            wall_ms=lambda: self.now_ms,
            new_uuid=lambda: UUID(int=next(self._ids)),
            new_runner=new_runner or (lambda: self.runner),
        )
        self.logs.table.high_watermark = self._high_watermark

    def _high_watermark(self, partition: TopicPartition) -> int | None:
        found = self.logs.table.get(partition)
        return None if found is None else found.log_end_offset

    def _directory_failed(self, path: str, lost: Collection[TopicPartition], error: Exception) -> None:
        self.failed.append((path, sorted(lost)))

    def _all_failed(self) -> None:
        self.all_failed += 1

    async def start(self, cluster_id: str = CLUSTER) -> LogManager:
        await self.logs.open(cluster_id)
        await self.logs.load(
            topic_config=self._topic_config,
            is_known=lambda partition, topic_id: (
                partition.topic in self.topics and topic_id in (self.topics[partition.topic], None)
            ),
            on_progress=self.progress.append,
        )
        return self.logs

    def log(self, topic: str, partition: int = 0, *, is_new: bool = False) -> PartitionLog:
        """The log of a topic, which is created if need be."""
        topic_id = self.topics.setdefault(topic, UUID(int=hash(topic) % 2**64 + 1))
        return self.logs.maker.get_or_create(
            TopicPartition(topic, partition), topic_id, self._topic_config(topic), is_new=is_new
        )

    def restarted(self, **options: Any) -> Managed:
        """The next broker on the same directories."""
        options.setdefault("files", self.files)
        options.setdefault("topics", self.topics)
        options.setdefault("topic_config", self._topic_config)
        next_one = Managed([directory.path for directory in self.logs.table.directories], **options)
        next_one.now_ms = self.now_ms
        return next_one

    def abandon(self) -> None:
        """What SIGKILL leaves: locks and handles gone, everything else as it is."""
        for directory in self.logs.table.directories:
            directory.unlock()
        for log in [*self.logs.table.in_service()]:
            try:
                log.close(clean=False)
            except LogIOError:
                continue
