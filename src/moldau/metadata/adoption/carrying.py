"""Carrying a plan out: on the log directories themselves, or on a copy.

In place, in this order, each step on disk before the next:

    1. the whole metadata is written into one file beside the partitions, which Kafka does not look at
    2. the folder `__moldau_metadata` is made: from here on Kafka refuses the log directory
    3. the file is moved into it as its journal: from here on the data is Moldau's
    4. every `meta.properties` is written anew, that of the first log directory last

A kill before 2 leaves log directories that Kafka opens; after it, some that Moldau refuses to start on until this is
repeated, which goes on where it ended. No file of a partition is touched.

A copy is marked, in its first log directory, until it is whole, and made anew if it is repeated. The source is only
read.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from moldau.metadata import codec, journal, paths
from moldau.metadata.adoption.plan import Plan, entries
from moldau.metadata.adoption.survey import CannotAdoptError
from moldau.metadata.entries import planning
from moldau.storage import checkpoints
from moldau.storage.checkpoints import DirectoryProperties
from moldau.storage.files import FileSystem, read_file, replace_file
from moldau.storage.layout import DELETED_SUFFIX
from moldau.storage.ownership import METADATA_FOLDER, UNFINISHED_COPY, KafkaDirectory, described_directory
from moldau.types.ids import TopicPartition
from moldau.types.uuid_text import decode_uuid
from moldau.work.slices import at_once

FIRST_REVISION = 1
JOURNAL = f"journal-{0:020d}"
WAITING_JOURNAL = "moldau-metadata.adopting"
OFFSET_FILES = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.CLEANED_OFFSETS,
)
OnCopied = Callable[[int], None]


def journal_of(made: Plan) -> bytes:
    planned = at_once(planning(entries(made), FIRST_REVISION, lambda _: None))
    return at_once(journal.encode_group(FIRST_REVISION, [planned.changes]))


# -- in place ---------------------------------------------------------------------------------------------------------


def adopt_in_place(
    files: FileSystem, directories: Sequence[str], make_plan: Callable[[], Plan], new_uuid: Callable[[], UUID]
) -> None:
    """`make_plan` is asked only if no interrupted run has left the metadata. Raises CannotAdoptError or OSError."""
    first = next((each for each in directories if _is_begun(files, each)), directories[0])
    if not _has_journal(files, first):
        made = make_plan()
        waiting = os.path.join(first, WAITING_JOURNAL)
        replace_file(files, waiting, journal_of(made))
        metadata = os.path.join(first, METADATA_FOLDER)
        if not files.is_directory(metadata):
            files.make_directory(metadata)
            files.sync_directory(first)
        files.rename(waiting, os.path.join(metadata, JOURNAL))
        files.sync_directory(metadata)
        files.sync_directory(first)
    cluster_id = _stored_cluster_id(files, first)
    for directory in sorted(directories, key=lambda each: each == first):
        found = described_directory(directory, read_file(files, os.path.join(directory, checkpoints.META_PROPERTIES)))
        if found is not None:
            _check_cluster(found, cluster_id, first)
            checkpoints.write_directory(files, directory, _identity(found, new_uuid))


def was_begun(files: FileSystem, directories: Sequence[str]) -> bool:
    """Whether a run on these log directories was interrupted after its metadata was written."""
    return any(_has_journal(files, each) for each in directories)


def _is_begun(files: FileSystem, directory: str) -> bool:
    return files.is_directory(os.path.join(directory, METADATA_FOLDER))


def _has_journal(files: FileSystem, directory: str) -> bool:
    return files.exists(os.path.join(directory, METADATA_FOLDER, JOURNAL))


def _stored_cluster_id(files: FileSystem, first: str) -> str:
    path = os.path.join(first, METADATA_FOLDER, JOURNAL)
    for _, changes in journal.replay(read_file(files, path), path, last=True).commits:
        for change in changes:
            if change.path == paths.CLUSTER and change.entry is not None:
                return codec.decode_cluster(change.path, change.entry.value)
    return ""


def _check_cluster(found: KafkaDirectory, cluster_id: str, first: str) -> None:
    """An earlier release of Moldau left metadata of a new cluster behind when it was refused."""
    if found.cluster_id != cluster_id:
        raise CannotAdoptError(
            f"{os.path.join(first, METADATA_FOLDER)} belongs to cluster {cluster_id or 'without an id'}, {found.path} "
            f"to {found.cluster_id} of Apache Kafka: remove {METADATA_FOLDER} if no broker of Moldau has used it"
        )


def _identity(found: KafkaDirectory, new_uuid: Callable[[], UUID]) -> DirectoryProperties:
    """Brokers before Kafka 3.7 gave their log directories no ids."""
    text = found.properties.get("directory.id")
    directory_id = decode_uuid(text) if text else new_uuid()
    return DirectoryProperties(found.cluster_id, int(found.node_id), directory_id)


# -- a copy -----------------------------------------------------------------------------------------------------------


def adopt_copy(
    files: FileSystem,
    made: Plan,
    sources: Sequence[Path],
    targets: Sequence[Path],
    new_uuid: Callable[[], UUID],
    on_copied: OnCopied = lambda _: None,
) -> None:
    """Every source goes to the target of its number, or all to one. Raises CannotAdoptError or OSError."""
    _make_room(files, targets)
    target_of = {source: targets[min(number, len(targets) - 1)] for number, source in enumerate(sources)}
    _check_space(files, made, target_of)
    copied = 0
    for topic in made.topics:
        for log in topic.logs:
            _copy_log(files, log.path, target_of[log.path.parent] / log.path.name)
            copied += log.size_bytes
            on_copied(copied)
    taken = {log.partition for topic in made.topics for log in topic.logs}
    for target in targets:
        _write_offsets(files, target, [source for source in sources if target_of[source] == target], taken)
        checkpoints.write_clean_shutdown(files, str(target), checkpoints.UNKNOWN_BROKER_EPOCH)
    metadata = targets[0] / METADATA_FOLDER
    files.make_directory(str(metadata))
    replace_file(files, str(metadata / JOURNAL), journal_of(made))
    for target in targets:
        checkpoints.write_directory(files, str(target), DirectoryProperties(made.cluster_id, made.node_id, new_uuid()))
        files.sync_directory(str(target))
    files.unlink(str(targets[0] / UNFINISHED_COPY))
    files.sync_directory(str(targets[0]))


def _make_room(files: FileSystem, targets: Sequence[Path]) -> None:
    """The mark in the first target names all of them: what they hold is no loss, as long as it is there."""
    mark = targets[0] / UNFINISHED_COPY
    ours = mark.read_text().splitlines() if mark.exists() else []
    for target in targets:
        if str(target) not in ours and target.exists() and not _is_empty(target):
            raise CannotAdoptError(f"{target} is not empty; name a new log directory for the copy")
    for target in targets:
        if not target.exists():
            files.make_directory(str(target))
            files.sync_directory(str(target.parent))
    replace_file(files, str(mark), "\n".join(map(str, targets)).encode())
    for target in targets:
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != mark:
                path.unlink()


def _is_empty(target: Path) -> bool:
    return all(path.name.startswith(UNFINISHED_COPY) for path in target.iterdir())


def _check_space(files: FileSystem, made: Plan, target_of: Mapping[Path, Path]) -> None:
    needed: Counter[Path] = Counter()
    for topic in made.topics:
        for log in topic.logs:
            needed[target_of[log.path.parent]] += log.size_bytes
    for target, size_bytes in needed.items():
        usable = files.disk_space(str(target)).usable
        if usable < size_bytes:
            raise CannotAdoptError(f"{target} has room for {usable} bytes, {size_bytes} are to be copied")


def _copy_log(files: FileSystem, source: Path, target: Path) -> None:
    files.make_directory(str(target))
    for path in sorted(source.iterdir()):
        if path.is_file() and path.suffix != DELETED_SUFFIX:
            copy = target / path.name
            shutil.copyfile(path, copy)
            shutil.copystat(path, copy)
            handle = files.open(str(copy))
            try:
                files.fdatasync(handle)
            finally:
                files.close(handle)
    files.sync_directory(str(target))


def _write_offsets(files: FileSystem, target: Path, sources: Sequence[Path], taken: set[TopicPartition]) -> None:
    for name in OFFSET_FILES:
        offsets: dict[TopicPartition, int] = {}
        for source in sources:
            file = source / name
            if file.exists():
                offsets |= checkpoints.parse_offsets(file.read_bytes(), str(file))
        kept = {partition: offset for partition, offset in offsets.items() if partition in taken}
        checkpoints.write_offsets(files, str(target), name, kept)
