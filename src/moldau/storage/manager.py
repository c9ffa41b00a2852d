"""All logs of a broker, over all its log directories. Owned by the event loop; what blocks goes through `run_blocking`.

An I/O error takes its directory offline with every log in it; the others go on. The periodic duties stand in
`moldau.storage.duties`, the moves between directories in `moldau.storage.future`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.storage.checkpoints import UNKNOWN_BROKER_EPOCH
from moldau.storage.compaction.runner import JobRunner, ProcessRunner
from moldau.storage.duties import RunBlocking
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.folders import Mark
from moldau.storage.future import FutureLogs
from moldau.storage.loading import DirectoryLoader, LoadedDirectory, LoadProgress, LoadRules, in_lanes
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory
from moldau.storage.log_registry import LOGS_PER_LOT, LogRegistry, NewLog
from moldau.types.ids import TopicPartition

__all__ = ("LoadProgress", "LogDirectory", "LogManager", "ManagerEvents", "NewLog")

log = logging.getLogger("moldau.storage.manager")


@dataclass(frozen=True, slots=True)
class ManagerEvents:
    """What the owner is told. Called on the event loop."""

    directory_failed: Callable[[str, Collection[TopicPartition], Exception], None]
    """A log directory went offline and took these partitions with it."""
    all_directories_failed: Callable[[], None]
    log_replaced: Callable[[TopicPartition, PartitionLog], None]
    """The partition's log lies in another directory now and is this one."""


class LogManager(LogRegistry):
    def __init__(
        self,
        files: FileSystem,
        config: BrokerConfig,
        *,
        events: ManagerEvents,
        run_blocking: RunBlocking,
        wall_ms: Callable[[], int],
        new_uuid: Callable[[], UUID],
        jitter: Callable[[int], int] = lambda _: 0,
        new_runner: Callable[[], JobRunner] = ProcessRunner,
    ) -> None:
        super().__init__(
            files,
            config,
            run_blocking=run_blocking,
            wall_ms=wall_ms,
            new_uuid=new_uuid,
            jitter=jitter,
            new_runner=new_runner,
        )
        self._events = events
        self.futures = FutureLogs(self)

    # -- start and end ------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str) -> None:
        """Takes all directories for this broker. Raises DirectoryInUseError, InconsistentDirectoryError or
        CorruptFileError; one that cannot be read or written is offline from the start."""
        self.directories = [LogDirectory(self.files, path) for path in _distinct(self.config.log_dirs)]
        try:
            for directory in self.directories:
                try:
                    await self.run_blocking(
                        lambda each=directory: each.open(cluster_id, self.config.node_id, self.new_uuid)  # type: ignore[misc]
                    )
                except OSError as error:
                    self.fail_directory(directory, error)
        except BaseException:
            for directory in self.directories:
                directory.unlock()
            raise

    async def load(
        self,
        *,
        topic_config: Callable[[str], TopicConfig],
        is_known: Callable[[TopicPartition, UUID | None], bool],
        on_progress: Callable[[LoadProgress], None] = lambda _: None,
    ) -> None:
        """Opens every log on disk, after a crash with recovery. Partitions the cluster does not know are set aside."""
        rules = LoadRules(topic_config, is_known, on_progress)
        await asyncio.gather(*(self._load_directory(each, rules) for each in self.directories if not each.offline))
        await self.futures.take_up()

    async def _load_directory(self, directory: LogDirectory, rules: LoadRules) -> None:
        threads = max(1, self.config.num_recovery_threads_per_data_dir)
        loader = DirectoryLoader(directory, self.opener(), rules, self.run_blocking, threads)
        try:
            folders = await self.run_blocking(directory.folders)
            found = await loader.load(folders)
        except (OSError, LogIOError) as error:
            self.fail_directory(directory, error)
            return
        self._adopt(directory, found)
        directory.loaded = True

    def _adopt(self, directory: LogDirectory, found: LoadedDirectory) -> None:
        for partition, loaded in found.logs.items():
            other = self._logs.get(partition)
            if other is not None:
                self._set_shorter_aside(partition, other, loaded)
                if other.log_end_offset >= loaded.log_end_offset:
                    continue
            self.register(directory, loaded, found.topic_ids[partition])
        directory.futures.update(found.futures)
        directory.damaged.update(found.damaged)
        for path in found.doomed:
            self.schedule_folder_deletion(path)

    def _set_shorter_aside(self, partition: TopicPartition, first: PartitionLog, second: PartitionLog) -> None:
        """A move between directories was cut off after the copy got its name: the longer log has all of the other."""
        shorter = second if first.log_end_offset >= second.log_end_offset else first
        log.warning("%s lies in two directories; %s is the shorter one and set aside", partition, shorter.directory)
        self.retire(shorter, Mark.STRAY)

    async def close(self, *, clean: bool = True, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Ends all service. A clean close leaves everything on disk, so that the next start need not look."""
        await self.futures.close()
        await self.cleaner.close()
        await asyncio.gather(*(self._close_directory(each, clean, broker_epoch) for each in self.directories))

    async def _close_directory(self, directory: LogDirectory, clean: bool, broker_epoch: int) -> None:
        async def close_lot(lot: Sequence[PartitionLog]) -> None:
            await self.run_blocking(lambda: _close_all(lot, clean))

        try:
            served = [*directory.logs.values(), *directory.futures.values()]
            lots = [served[start : start + LOGS_PER_LOT] for start in range(0, len(served), LOGS_PER_LOT)]
            await in_lanes(lots, close_lot, max(1, self.config.num_recovery_threads_per_data_dir))
            if not clean or directory.offline or not directory.loaded:
                return
            for write in await self.checkpoint_writers(directory):
                await self.run_blocking(write)
            if not directory.damaged:  # the next start must look again at what is damaged
                await self.run_blocking(lambda: directory.mark_clean(broker_epoch))
        except (OSError, LogIOError) as error:
            log.error("%s is not left in good order: %s", directory.path, error)
        finally:
            directory.unlock()

    def delete(self, partition: TopicPartition, mark: Mark = Mark.DELETE) -> None:
        self.futures.cancel(partition)
        super().delete(partition, mark)

    # -- faults -------------------------------------------------------------------------------------------------------

    def io_failed(self, partition_log: PartitionLog, error: Exception) -> None:
        """The disk failed under this log: its directory goes offline. A log that was deleted has no disk any more."""
        directory = self.directory_of(partition_log)
        if directory.serves(partition_log):
            self.fail_directory(directory, error)

    def fail_directory(self, directory: LogDirectory, error: Exception) -> None:
        if directory.offline:
            return
        directory.failure = str(error)
        log.error("log directory %s goes offline: %s", directory.path, error)
        lost = list(directory.logs)
        for partition in lost:
            self.cleaner.cancel(partition)
            self.futures.cancel(partition)
            self._logs.pop(partition, None)
        for each in [*directory.logs.values(), *directory.futures.values()]:
            self._close_quietly(each)
        directory.logs.clear()
        directory.futures.clear()
        directory.unlock()
        self._events.directory_failed(directory.path, lost, error)
        if all(each.offline for each in self.directories):
            log.critical("all log directories have failed")
            self._events.all_directories_failed()

    def _close_quietly(self, failed: PartitionLog) -> None:
        try:
            failed.close(clean=False)
        except (OSError, LogIOError) as error:
            log.warning("%s: %s", failed.directory, error)

    def log_replaced(self, partition: TopicPartition, replacement: PartitionLog) -> None:
        self._events.log_replaced(partition, replacement)


def _close_all(logs: Sequence[PartitionLog], clean: bool) -> None:
    """Every one of them; the first error is raised in the end."""
    failure: LogIOError | None = None
    for each in logs:
        try:
            each.close(clean)
        except LogIOError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _distinct(paths: Sequence[str]) -> list[str]:
    absolute = [os.path.abspath(path) for path in paths]
    if len({os.path.realpath(path) for path in absolute}) < len(absolute):
        raise ValueError(f"Duplicate log directory found: {', '.join(paths)}")
    return absolute
