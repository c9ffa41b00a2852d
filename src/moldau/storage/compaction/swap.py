"""File steps around the swap of a cleaned segment. They block and touch only files that no reader uses yet.

    .cleaned    the worker's result, complete and synced; a start removes it
    .swap       all files of the segment are there; a start carries the replacement through
    (no mark)   in service; by then the segments it replaces are `.deleted`

The folder is synced after each step, so that not even a power cut leaves a new segment beside those it replaced.
What a start does with what a crash has left is in `moldau.storage.interrupted`.
"""

from __future__ import annotations

from moldau.storage.files import FileSystem, remove_if_exists
from moldau.storage.layout import CLEANED_SUFFIX, SWAP_SUFFIX
from moldau.storage.segment import Segment


def announce(files: FileSystem, folder: str, segment: Segment) -> None:
    """First step of a replacement: the name .swap says that the new segment is complete."""
    segment.change_suffix(SWAP_SUFFIX)
    files.sync_directory(folder)


def retreat(files: FileSystem, folder: str, segment: Segment) -> None:
    """Takes an announced segment back: first under the name that says it does not count, then away."""
    segment.change_suffix(CLEANED_SUFFIX)
    files.sync_directory(folder)
    segment.close()
    segment.unlink()


def remove_cleaned_files(files: FileSystem, folder: str) -> None:
    """What a job left that was stopped. A leftover would make a start after a later crash take back a good swap."""
    names = [name for name in files.list(folder) if name.endswith(CLEANED_SUFFIX)]
    for name in names:
        remove_if_exists(files, f"{folder}/{name}")
    if names:
        files.sync_directory(folder)
