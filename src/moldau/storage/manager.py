"""All logs of a broker, over all its log directories. Owned by the event loop; what blocks goes through `run_blocking`.

An I/O error takes its directory offline with every log in it; the others go on. Here logs are opened, closed, deleted
and given up; the rest is done by parts. Logs are found in `table`, made by `maker`, compacted by `cleaner`, moved
between directories by `moves`, cut by `cuts`. `retaining`, `flushes`, `checkpoints` and `removal` have work on all logs
from time to time, when whoever has the timers asks them.
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
from moldau.storage.checkpointing import Checkpoints
from moldau.storage.checkpoints import UNKNOWN_BROKER_EPOCH
from moldau.storage.compaction.cleaner import LogCleaner
from moldau.storage.compaction.runner import JobRunner, ProcessRunner
from moldau.storage.cuts import Cuts
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.flushes import Flushes
from moldau.storage.folders import Mark
from moldau.storage.loading import DirectoryLoader, LoadedDirectory, LoadProgress, LoadRules, LogOpener, in_lanes
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory
from moldau.storage.log_table import LogTable
from moldau.storage.making import LOGS_PER_LOT, LogMaker, NewLog
from moldau.storage.means import LOGS_PER_BREATH, Means, RunBlocking
from moldau.storage.moving import Moves
from moldau.storage.removal import Removal, retire
from moldau.storage.retaining import Retaining
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses

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


class LogManager:
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
        self.config = config
        self._events = events
        self._jitter = jitter
        self._means = means = Means(files, run_blocking, wall_ms, new_uuid, self.fail_directory, self.io_failed)
        self.table = table = LogTable()
        self.removal = Removal(table, means, self._folder_delay_ms)
        self.cleaner = LogCleaner(table, means, self.removal, lambda: self.config, new_runner)
        self.maker = LogMaker(table, means, self._opener, lambda partition: self.delete(partition, Mark.STRAY))
        self.moves = Moves(table, means, self.removal, self.cleaner, self.maker, self._opener, self._moved)
        self.cuts = Cuts(table, means, self.cleaner)
        self.retaining = Retaining(table, means, self.removal, self.cleaner)
        self.flushes = Flushes(table, means)
        self.checkpoints = Checkpoints(table, means)

    def reconfigure(self, config: BrokerConfig) -> Work[None]:
        """Dynamic settings have changed. What a topic inherits is set at its logs by whoever knows the topic."""
        self.config = config
        paused = pauses()
        for partition_log in list(self.table.with_copies()):
            if next(paused):
                yield
            partition_log.producers.expiry_ms = config.producer_id_expiration_ms

    def _folder_delay_ms(self) -> int:
        return int(str(self.config.topic_defaults["file.delete.delay.ms"]))

    def _opener(self) -> LogOpener:
        means = self._means
        return LogOpener(
            means.files, means.wall_ms, means.new_uuid, self._jitter, self.config.producer_id_expiration_ms
        )

    def _moved(self, replacement: PartitionLog) -> None:
        self._events.log_replaced(replacement.topic_partition, replacement)

    # -- start and end ------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str) -> None:
        """Takes all directories for this broker. Raises DirectoryInUseError, InconsistentDirectoryError or
        CorruptFileError; one that cannot be read or written is offline from the start."""
        self.table.directories = [LogDirectory(self._means.files, path) for path in _distinct(self.config.log_dirs)]
        try:
            for directory in self.table.directories:
                try:
                    await self._means.run_blocking(
                        lambda each=directory: each.open(cluster_id, self.config.node_id, self._means.new_uuid)  # type: ignore[misc]
                    )
                except OSError as error:
                    self.fail_directory(directory, error)
        except BaseException:
            for directory in self.table.directories:
                directory.unlock()
            raise

    async def load(
        self,
        *,
        topic_config: Callable[[str], TopicConfig],
        is_known: Callable[[TopicPartition, UUID | None], bool],
        on_progress: Callable[[LoadProgress], None] = lambda _: None,
    ) -> None:
        """Opens every log on disk, after a crash with recovery. Partitions the cluster does not know are set aside, and
        deleted after `file.delete.delay.ms` where the cluster's metadata are not on this disk.
        """
        rules = LoadRules(topic_config, is_known, on_progress, removes_strays=self.config.zookeeper is not None)
        await asyncio.gather(
            *(self._load_directory(each, rules) for each in self.table.directories if not each.offline)
        )
        await self.moves.take_up()

    async def _load_directory(self, directory: LogDirectory, rules: LoadRules) -> None:
        threads = max(1, self.config.num_recovery_threads_per_data_dir)
        loader = DirectoryLoader(directory, self._opener(), rules, self._means.run_blocking, threads)
        try:
            folders = await self._means.run_blocking(directory.folders)
            found = await loader.load(folders)
        except (OSError, LogIOError) as error:
            self.fail_directory(directory, error)
            return
        self._adopt(directory, found)
        directory.loaded = True

    def _adopt(self, directory: LogDirectory, found: LoadedDirectory) -> None:
        for partition, loaded in found.logs.items():
            other = self.table.get(partition)
            if other is not None:
                self._set_shorter_aside(partition, other, loaded)
                if other.log_end_offset >= loaded.log_end_offset:
                    continue
            self.table.register(directory, loaded, found.topic_ids[partition])
        directory.futures.update(found.futures)
        directory.damaged.update(found.damaged)
        for path in found.doomed:
            self.removal.schedule_folder(path)

    def _set_shorter_aside(self, partition: TopicPartition, first: PartitionLog, second: PartitionLog) -> None:
        """A move between directories was cut off after the copy got its name: the longer log has all of the other."""
        shorter = second if first.log_end_offset >= second.log_end_offset else first
        log.warning("%s lies in two directories; %s is the shorter one and set aside", partition, shorter.folder)
        retire(shorter, Mark.STRAY, self.table, self.removal)

    async def close(self, *, clean: bool = True, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Ends all service. A clean close leaves everything on disk, so that the next start need not look."""
        await self.moves.close()
        await self.cleaner.close()
        await asyncio.gather(*(self._close_directory(each, clean, broker_epoch) for each in self.table.directories))

    async def _close_directory(self, directory: LogDirectory, clean: bool, broker_epoch: int) -> None:
        async def close_lot(lot: Sequence[PartitionLog]) -> None:
            await self._means.run_blocking(lambda: _close_all(lot, clean))

        try:
            served = [*directory.logs.values(), *directory.futures.values()]
            lots = [served[start : start + LOGS_PER_LOT] for start in range(0, len(served), LOGS_PER_LOT)]
            await in_lanes(lots, close_lot, max(1, self.config.num_recovery_threads_per_data_dir))
            if not clean or directory.offline or not directory.loaded:
                return
            for write in await self.checkpoints.writers(directory):
                await self._means.run_blocking(write)
            if not directory.damaged:  # the next start must look again at what is damaged
                await self._means.run_blocking(lambda: directory.mark_clean(broker_epoch))
        except (OSError, LogIOError) as error:
            log.error("%s is not left in good order: %s", directory.path, error)
        finally:
            directory.unlock()

    def delete(self, partition: TopicPartition, mark: Mark = Mark.DELETE) -> None:
        """Takes a log out of service at once; its files leave the disk after `file.delete.delay.ms`."""
        self.moves.cancel(partition)
        self.cleaner.cancel(partition)
        self.maker.forget_preference(partition)
        gone = self.table.forget(partition)
        if gone is not None:
            retire(gone, mark, self.table, self.removal)
        for directory in self.table.directories:
            damaged = directory.damaged.pop(partition, None)
            if damaged is not None:
                self.removal.rename_folder(damaged.path, partition, mark)

    async def expire_producers(self, now_ms: int) -> None:
        for count, partition_log in enumerate(list(self.table.with_copies())):
            if count % LOGS_PER_BREATH == LOGS_PER_BREATH - 1:
                await asyncio.sleep(0)
            partition_log.producers.remove_expired(now_ms)

    # -- faults -------------------------------------------------------------------------------------------------------

    def io_failed(self, partition_log: PartitionLog, error: Exception) -> None:
        """The disk failed under this log: its directory goes offline. A log that was deleted has no disk any more."""
        directory = self.table.directory_of(partition_log)
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
            self.moves.cancel(partition)
            self.table.lose(partition)
        for each in [*directory.logs.values(), *directory.futures.values()]:
            self._close_quietly(each)
        directory.logs.clear()
        directory.futures.clear()
        directory.unlock()
        self._events.directory_failed(directory.path, lost, error)
        if all(each.offline for each in self.table.directories):
            log.critical("all log directories have failed")
            self._events.all_directories_failed()

    def _close_quietly(self, failed: PartitionLog) -> None:
        try:
            failed.close(clean=False)
        except (OSError, LogIOError) as error:
            log.warning("%s: %s", failed.folder, error)


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
