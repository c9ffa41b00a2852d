"""The one door to the disk: what storage asks of a file system, and the real one.

Handles are plain file descriptors, so that the server can read segments with its own system calls.
Tests put in a file system that forgets what was never synced (tests/fakes/lossy_files.py).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

# Linux accepts this many buffers in one call; POSIX promises 16, but every system we run on has 1024.
MAX_BUFFERS_PER_WRITE = 1024


class FileStatus(NamedTuple):
    size: int
    modified_ms: int


class DiskSpace(NamedTuple):
    total: int
    usable: int


class FileSystem(Protocol):
    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading and writing. Raises FileNotFoundError unless the file exists or `create` is set."""

    def close(self, fd: int) -> None: ...

    def duplicate(self, fd: int) -> int:
        """A second handle to the same open file, to be closed on its own."""

    def size(self, fd: int) -> int: ...

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Write the buffers at a position; the number of bytes written may be smaller than asked."""

    def pread(self, fd: int, length: int, position: int) -> bytes: ...

    def preadv(self, fd: int, buffers: Sequence[WritableBuffer], position: int) -> int: ...

    def truncate(self, fd: int, size: int) -> None: ...

    def allocate(self, fd: int, size: int) -> None:
        """Reserve space up to a size; the file reads as zeros there."""

    def reserve(self, fd: int, position: int, length: int) -> bool:
        """Give a file the blocks that it will need behind its end, which stays where it is; a truncation, to whatever
        size, takes unused ones back. False where that is not possible, or no use: then do not ask again."""

    def fdatasync(self, fd: int) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def status(self, path: str) -> FileStatus: ...

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]: ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Also makes missing parents; an existing folder is fine."""

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make created, renamed and removed names in a folder survive a power cut."""

    def lock(self, path: str) -> int:
        """Take a file's lock for this process until the handle is closed. Raises BlockingIOError if another has it."""

    def disk_space(self, path: str) -> DiskSpace: ...


class OsFiles:
    """The operating system's files."""

    # The hottest calls are the C functions themselves.
    close = staticmethod(os.close)
    duplicate = staticmethod(os.dup)
    pwritev = staticmethod(os.pwritev)
    pread = staticmethod(os.pread)
    preadv = staticmethod(os.preadv)
    truncate = staticmethod(os.ftruncate)
    fdatasync = staticmethod(os.fdatasync)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    exists = staticmethod(os.path.exists)
    list = staticmethod(os.listdir)
    is_directory = staticmethod(os.path.isdir)
    remove_directory = staticmethod(os.rmdir)

    def open(self, path: str, *, create: bool = False) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def allocate(self, fd: int, size: int) -> None:
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            os.ftruncate(fd, size)

    def reserve(self, fd: int, position: int, length: int) -> bool:
        from moldau.storage import reserving

        return reserving.reserve(fd, position, length)

    def status(self, path: str) -> FileStatus:
        found = os.stat(path)
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        fd = self.open(path, create=True)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def disk_space(self, path: str) -> DiskSpace:
        found = os.statvfs(path)
        return DiskSpace(found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail)


def read_file(files: FileSystem, path: str) -> bytes:
    fd = files.open(path)
    try:
        return read_fully(files, fd, files.size(fd), 0)
    finally:
        files.close(fd)


def read_fully(files: FileSystem, fd: int, length: int, position: int) -> bytes:
    """As many bytes as the file has, up to a length: a single pread may return less for no reason of ours."""
    data = files.pread(fd, length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    missing = length - len(data)
    while missing:
        data = files.pread(fd, missing, position + length - missing)
        if not data:
            break
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def write_fully(files: FileSystem, fd: int, data: Buffer, position: int) -> None:
    view = memoryview(data)
    while view.nbytes:
        written = files.pwritev(fd, [view], position)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[written:]
        position += written


def write_file(files: FileSystem, path: str, data: Buffer, *, sync: bool) -> None:
    """Make a file hold exactly this data; not atomic, see `replace_file`."""
    fd = files.open(path, create=True)
    try:
        files.truncate(fd, 0)
        write_fully(files, fd, data, 0)
        if sync:
            files.fdatasync(fd)
    finally:
        files.close(fd)


def sync_file(files: FileSystem, path: str) -> None:
    """Sync a file by its name; one that has been deleted needs it no more."""
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return
    try:
        files.fdatasync(fd)
    finally:
        files.close(fd)


def replace_file(files: FileSystem, path: str, data: Buffer) -> None:
    """Replace a file so that after a crash it holds either the old or the new content: write, sync, rename, sync."""
    temporary = path + ".tmp"
    write_file(files, temporary, data, sync=True)
    files.rename(temporary, path)
    files.sync_directory(os.path.dirname(path) or ".")


def remove_if_exists(files: FileSystem, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        files.unlink(path)
