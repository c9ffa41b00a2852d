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
#: The middle one decides how long a collection may hold the loop: it walks what the young ones have left, some 100,000
#: objects. With 10,000 partitions made after the start there are millions.
GC_THRESHOLDS = (10_000, 10, 500)
LINE = "%(asctime)s %(levelname)s %(message)s (%(name)s)"
#: What could end a line, or tell a terminal something: all controls but the tab, and Unicode's own ends of lines.
CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(9), *range(10, 32), *range(127, 160), 0x2028, 0x2029)}


class OneLine(logging.Formatter):
    """A message is one line, whatever is in it: a name that a client has made up cannot pass for a line of ours."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own spelling)
        record.message = record.message.translate(CONTROLS)
        return super().formatMessage(record)


def configure_logging(files: LogFiles | None = None) -> None:
    """To stderr, for whoever started us; or into files, where warnings still go to stderr."""
    console = logging.StreamHandler(sys.stderr)
    handlers: list[logging.Handler] = [console]
    if files is not None:
        from moldau.server.log_files import ToFiles

        console.setLevel(logging.WARNING)
        handlers.append(ToFiles(files))
    for handler in handlers:
        handler.setFormatter(OneLine(LINE))
    logging.basicConfig(level=logging.INFO, handlers=handlers)


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
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
