"""What a broker asks of its process: log lines, open files, memory allocation, garbage collection."""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.server.log_files import LogFiles

#: glibc hands blocks above this size back to the system at once; a fresh megabyte then costs a page fault per 4 KB.
LARGE_BLOCK_BYTES = 8 * 1024 * 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
GC_THRESHOLD = 50_000
LINE = "%(asctime)s %(levelname)s %(message)s (%(name)s)"


def configure_logging(files: LogFiles | None = None) -> None:
    """To stderr, for whoever started us; or into files, where warnings still go to stderr."""
    console = logging.StreamHandler(sys.stderr)
    handlers: list[logging.Handler] = [console]
    if files is not None:
        from moldau.server.log_files import ToFiles

        console.setLevel(logging.WARNING)
        handlers.append(ToFiles(files))
    logging.basicConfig(level=logging.INFO, format=LINE, handlers=handlers)


def raise_open_file_limit() -> None:
    """A connection and a segment each hold a file: ask for all that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_large_blocks() -> None:
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)
    except (OSError, AttributeError):
        # Another C library: it works, at the price described above.
        return


def rest_garbage_collector() -> None:
    """While a broker starts it makes ten thousands of objects that stay: looking for garbage among them is in vain."""
    gc.collect()
    gc.disable()


def settle_garbage_collector() -> None:
    """What was built at start lives as long as the broker: no collection need walk it."""
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    gc.enable()
