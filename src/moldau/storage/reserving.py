"""Blocks for a file before it is written: on ext4, a quarter less CPU per byte that is appended.

Otherwise each page of an appended file gets its own reservation, entered into the file's map one by one. Python's
posix_fallocate would also move the end of the file, which is where a log ends after a crash.

Only where it was measured: tmpfs would fill memory with it, other file systems reserve ahead by themselves.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache

KEEP_SIZE = 1
PROFITS = ("ext4",)
MOUNTS = "/proc/self/mountinfo"


def reserve(fd: int, position: int, length: int) -> bool:
    allocate = _allocate()
    if allocate is None or not _profits(os.fstat(fd).st_dev):
        return False
    return allocate(fd, KEEP_SIZE, position, length) == 0


@cache
def _allocate() -> Callable[[int, int, int, int], int] | None:
    try:
        found = ctypes.CDLL(None).fallocate
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    found.restype = ctypes.c_int
    return found


@cache
def _profits(device: int) -> bool:
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as mounts:
            return kind_of_device(mounts.read(), f"{os.major(device)}:{os.minor(device)}") in PROFITS
    except OSError:
        return False


def kind_of_device(mounts: str, device: str) -> str | None:
    """A line: id, parent, device, root, mount point, options, some more fields, "-", kind, source, options."""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] == device and "-" in fields:
            return fields[fields.index("-") + 1]
    return None
