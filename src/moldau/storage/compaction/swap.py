"""File steps around the swap of a cleaned segment. They block and touch only files that no reader uses yet.

    .cleaned    the worker's result, complete and synced; a start removes it
    .swap       all files of the segment are there; a start carries the replacement through
    (no mark)   in service; by then the segments it replaces are `.deleted`

The folder is synced after each step, so that not even a power cut leaves a new segment beside those it replaced.
What a start does with what a crash has left is in `moldau.storage.interrupted`.
"""

from __future__ import annotations

from moldau.storage.files import FileSystem, remove_if_exists
from moldau.storage.layout import CLEANED_SUFFIX
from moldau.storage.log_upkeep import announce_segments
from moldau.storage.segment import Segment


def announce(files: FileSystem, directory: str, segment: Segment) -> None:
    announce_segments([segment])
    files.sync_directory(directory)


def retreat(files: FileSystem, directory: str, segment: Segment) -> None:
    """Takes an announced segment back: first under the name that says it does not count, then away."""
    segment.change_suffix(CLEANED_SUFFIX)
    files.sync_directory(directory)
    segment.close()
    segment.unlink()


def remove_cleaned_files(files: FileSystem, directory: str) -> None:
    """What a job left that was stopped. A leftover would make a start after a later crash take back a good swap."""
    names = [name for name in files.list(directory) if name.endswith(CLEANED_SUFFIX)]
    for name in names:
        remove_if_exists(files, f"{directory}/{name}")
    if names:
        files.sync_directory(directory)
