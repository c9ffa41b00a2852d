"""Moving a replica to another log directory of the same broker, as AlterReplicaLogDirs asks.

A copy grows in `<topic>-<partition>.<id>-future` beside the log in service until it has all of it and is synced. Then,
between two turns of the event loop, it gets the log's name and the old log becomes `-delete`. A crash in between leaves
the partition in both directories with the same records; the next start keeps the longer one. A start also takes up
copies that were not finished.

The log may be cut meanwhile, since its leader has another history, and grow again beyond the copy's end: lengths prove
nothing. The copy is cut where the two histories part, by leader epochs, as a follower is at its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from moldau.storage.checkpoints import read_topic_id, write_topic_id
from moldau.storage.compaction.cleaner import LogCleaner
from moldau.storage.errors import LogIOError
from moldau.storage.files import read_fully
from moldau.storage.folders import Mark, folder_name, marked_name
from moldau.storage.loading import LogOpener
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory
from moldau.storage.log_table import LogTable
from moldau.storage.making import LogMaker
from moldau.storage.means import Means
from moldau.storage.removal import Removal, retire
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, TopicPartition
from moldau.wire.batch import parse_header

log = logging.getLogger("moldau.storage.moving")

# Small, since a chunk of tiny batches is taken apart on the event loop.
CHUNK_BYTES = 128 * 1024
PAUSE_SECONDS = 0.05


class Moves:
    def __init__(
        self,
        table: LogTable,
        means: Means,
        removal: Removal,
        cleaner: LogCleaner,
        maker: LogMaker,
        opener: Callable[[], LogOpener],
        replaced: Callable[[PartitionLog], None],
    ) -> None:
        """`replaced` is told of the log that lies in another directory now."""
        self._table = table
        self._means = means
        self._removal = removal
        self._cleaner = cleaner
        self._maker = maker
        self._opener = opener
        self._replaced = replaced
        self._moves: dict[TopicPartition, asyncio.Task[None]] = {}

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        return next((d.futures[partition] for d in self._table.directories if partition in d.futures), None)

    # -- asking -------------------------------------------------------------------------------------------------------

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Begins to move a partition and returns. Raises KafkaError with the code of the answer."""
        target = next((directory for directory in self._table.directories if directory.path == path), None)
        if target is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        if target.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        current = self._table.get(partition)
        if current is None:
            if self._table.damage_of(partition) is None:
                self._maker.prefer_directory(partition, path)
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"Local replica is not available for {partition}")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} is offline")
        if partition in target.futures:
            return
        await self.stop(partition)
        if partition in target.logs or self._table.get(partition) is not current:
            return
        try:
            copy = await self._means.run_blocking(lambda: self._create(target, current))
        except (OSError, LogIOError) as error:
            self._means.directory_failed(target, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        target.futures[partition] = copy
        self._begin(partition)

    def _create(self, target: LogDirectory, current: PartitionLog) -> PartitionLog:
        partition = current.topic_partition
        path = target.join(marked_name(partition, self._means.new_uuid(), Mark.FUTURE))
        self._means.files.make_directory(path)
        topic_id = self._table.topic_id(partition)
        if topic_id is not None:
            write_topic_id(self._means.files, path, topic_id)
        self._means.files.sync_directory(target.path)
        return self._opener().open(target, path, partition, current.config, is_new=True)

    def _begin(self, partition: TopicPartition) -> None:
        self._moves[partition] = asyncio.get_running_loop().create_task(self._move(partition))

    # -- copying ------------------------------------------------------------------------------------------------------

    async def _move(self, partition: TopicPartition) -> None:
        try:
            while True:
                if await self._copy_and_replace(partition):
                    return
                await asyncio.sleep(PAUSE_SECONDS)
        except (OSError, LogIOError) as error:
            found = self.get(partition)
            if found is not None:
                self._means.log_failed(found, error)
        except KafkaError:
            log.exception("moving %s failed", partition)
        finally:
            self._moves.pop(partition, None)

    async def _copy_and_replace(self, partition: TopicPartition) -> bool:
        """True when there is nothing left to do."""
        while True:
            current, copy = self._table.get(partition), self.get(partition)
            if current is None or copy is None:
                return True
            if not await self._copy_some(current, copy):
                break
        await self._means.run_blocking(work := copy.flush_work())
        copy.flushed(work.up_to)
        await self._cleaner.pause(partition)
        try:
            if self._table.get(partition) is not current or self.get(partition) is not copy:
                return True
            if current.staged or cut_to_common_history(copy, current) or copy.log_end_offset != current.log_end_offset:
                return False
            self._replace(current, copy)
            return True
        finally:
            self._cleaner.resume(partition)

    async def _copy_some(self, current: PartitionLog, copy: PartitionLog) -> bool:
        """False if there is nothing to copy."""
        cut_to_common_history(copy, current)
        is_behind = copy.log_end_offset < current.log_start_offset
        offset = max(copy.log_end_offset, current.log_start_offset)
        data = await self._read(current, offset)
        if self.get(copy.topic_partition) is not copy or copy.log_end_offset > current.log_end_offset:
            return False
        if is_behind:  # the log may start within a batch
            copy.truncate_fully_and_start_at(parse_header(data).base_offset if data else offset)
        if data:
            copy.append_as_follower(data)
        return is_behind or bool(data)

    async def _read(self, current: PartitionLog, offset: int) -> bytes:
        found = current.read(offset, CHUNK_BYTES, current.log_end_offset)
        if not found.length:
            return b""
        found.file.acquire()
        try:
            descriptor, files = found.file.fileno, self._means.files
            data: bytes = await self._means.run_blocking(
                lambda: read_fully(files, descriptor, found.length, found.position)
            )
            return data
        finally:
            found.file.release()

    def _replace(self, current: PartitionLog, copy: PartitionLog) -> None:
        partition = current.topic_partition
        target, source = self._table.directory_of(copy), self._table.directory_of(current)
        copy.advance_log_start(current.log_start_offset)
        copy.take_epochs(current)
        path = target.join(folder_name(partition))
        self._means.files.rename(copy.folder, path)
        copy.moved_to(path)
        del target.futures[partition]
        topic_id = self._table.topic_id(partition)
        cleaned = source.cleaned_offsets.on_disk.get(partition)
        retire(current, Mark.DELETE, self._table, self._removal)
        self._table.register(target, copy, topic_id)
        self._removal.add_chore(target, lambda: self._means.files.sync_directory(target.path))
        if cleaned is not None:
            self._removal.add_chore(target, target.cleaned_offsets.setter(partition, cleaned))
        log.info("%s moved from %s to %s", partition, source.path, target.path)
        self._replaced(copy)

    # -- start and end ------------------------------------------------------------------------------------------------

    async def take_up(self) -> None:
        """After loading: goes on with copies that were begun. A copy without a log was finished but for its name."""
        complete = not any(directory.offline for directory in self._table.directories)
        for directory in self._table.directories:
            for partition, copy in list(directory.futures.items()):
                if self._table.get(partition) is not None:
                    self._begin(partition)
                elif complete and self._table.damage_of(partition) is None:
                    path = directory.join(folder_name(partition))
                    self._means.files.rename(copy.folder, path)
                    copy.moved_to(path)
                    del directory.futures[partition]
                    self._table.register(directory, copy, read_topic_id(self._means.files, copy.folder))
                    log.warning("%s was being moved; %s is all that is left of it", partition, path)

    def cancel(self, partition: TopicPartition) -> None:
        """The partition is gone: so is its copy."""
        task = self._moves.pop(partition, None)
        if task is not None:
            task.cancel()
        for directory in self._table.directories:
            copy = directory.futures.pop(partition, None)
            if copy is not None and not directory.offline:
                copy.close(clean=False)
                self._removal.rename_folder(copy.folder, partition, Mark.DELETE)

    async def stop(self, partition: TopicPartition) -> None:
        """Ends a move that was begun to another directory."""
        task = self._moves.get(partition)
        self.cancel(partition)
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        tasks = list(self._moves.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def cut_to_common_history(copy: PartitionLog, current: PartitionLog) -> bool:
    """Whether the copy had something that the log has not, or has no longer."""
    was_cut = False
    while (end := common_end(copy, current)) < copy.log_end_offset:
        copy.truncate_to(end)
        was_cut = True
    return was_cut


def common_end(copy: PartitionLog, current: PartitionLog) -> int:
    """Up to where the copy may be what the log is; where that is below the copy's end, the next look tells more."""
    shared = min(copy.leader_epochs.latest, current.leader_epochs.latest)
    if shared == NO_EPOCH:
        return min(copy.log_end_offset, current.log_end_offset)
    epoch, end = current.epoch_end_offset(shared)
    own_epoch, own_end = copy.epoch_end_offset(epoch)
    return min(own_end, end) if own_epoch == epoch else own_end
