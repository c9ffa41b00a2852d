"""What a crash in the middle of deleting or cleaning left in a partition's folder.

*.deleted   go.
*.cleaned   a cleaner had not finished writing: they go, and with them every .swap at or above the lowest of them, since
            those belong to the same unfinished replacement.
*.swap      all new segments were complete: the replacement is carried through, old segments in their range go.
"""

from __future__ import annotations

from moldau.storage.files import FileSystem, remove_if_exists
from moldau.storage.layout import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, offset_of
from moldau.storage.segment import Segment


def clear_interrupted_work(files: FileSystem, folder: str) -> list[str]:
    """Returns the names that are left."""
    names = files.list(folder)
    if not any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        return names
    for name in names:
        if name.endswith(DELETED_SUFFIX):
            remove_if_exists(files, f"{folder}/{name}")
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if not cleaned and not swaps:
        return files.list(folder)
    lowest_cleaned = min((offset for name in cleaned if (offset := offset_of(name)) is not None), default=None)
    valid = []
    for name in swaps:
        offset = offset_of(name)
        if offset is None or (lowest_cleaned is not None and offset >= lowest_cleaned):
            remove_if_exists(files, f"{folder}/{name}")
        else:
            valid.append(name)
    for name in cleaned:
        remove_if_exists(files, f"{folder}/{name}")
    if valid:
        _finish_replacement(files, folder, valid)
    files.sync_directory(folder)
    return files.list(folder)


def _finish_replacement(files: FileSystem, folder: str, swaps: list[str]) -> None:
    start, end = None, -1
    for name in swaps:
        offset = offset_of(name)
        if offset is not None and name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            start = offset if start is None else min(start, offset)
            end = max(end, _next_offset(files, folder, offset, files.status(f"{folder}/{name}").size))
    if start is not None:
        for name in files.list(folder):
            offset = offset_of(name)
            # A new segment that compaction left empty still replaces the old one of its name.
            if offset is not None and not name.endswith(SWAP_SUFFIX) and (start <= offset < end or offset == start):
                remove_if_exists(files, f"{folder}/{name}")
        files.sync_directory(folder)  # an old segment that came back would overlap the new one
    for name in swaps:
        files.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")


def _next_offset(files: FileSystem, folder: str, base_offset: int, size: int) -> int:
    segment = Segment(files, folder, base_offset, size=size, created_ms=0, suffix=SWAP_SUFFIX)
    try:
        found = base_offset
        for _, last_offset, _, _, _, _ in segment.headers():
            found = last_offset + 1
        return found
    finally:
        segment.close()
