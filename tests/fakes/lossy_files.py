"""A file system in memory that forgets what was never synced, as a power cut makes a real one do.

Two layers are kept: what programs see (the page cache) and what the disk holds. `fdatasync` carries a file's data, and
`sync_directory` a folder's names, from the first to the second. `crash` throws the page cache away, but not neatly: for
every page that was written since the last sync and for every file's length a random choice decides whether the change
happened to reach the disk, so that later writes may survive earlier ones; of the names that were made, renamed and
removed in a folder, the first few survive, as a journal keeps them. A file whose name is lost is lost; one whose name
survives without its data reads as zeros there or ends early.

It also counts operations: `stop_after(n)` lets the n-th changing operation from now on raise PowerCutError, to kill a
program between any two steps; `fail_writes` and `fail_syncs` play broken or full disks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from random import Random

from moldau.storage.files import Buffer, DiskSpace, FileStatus, WritableBuffer

PAGE = 4096


class PowerCutError(BaseException):
    """The machine stops here. Not an Exception: nothing may handle it."""


class _Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.disk = bytearray()
        self.dirty_pages: set[int] = set()
        self.modified_ms = 0

    def sync(self) -> None:
        self.disk = bytearray(self.data)
        self.dirty_pages.clear()

    def lose(self, random: Random) -> None:
        """What is found after a power cut."""
        sizes = {len(self.disk), len(self.data)}
        low, high = min(sizes), max(sizes)
        size = random.choice([len(self.disk), len(self.data), random.randint(low, high)])
        found = self.disk[:size] + bytes(max(0, size - len(self.disk)))
        for page in sorted(self.dirty_pages):
            start, end = page * PAGE, min((page + 1) * PAGE, size, len(self.data))
            if start < end and random.random() < 0.5:
                found[start:end] = self.data[start:end]
        self.data = found
        self.sync()


class _Folder:
    """In place of a file, where a whole folder gets another name."""


# a path, the file it names from now on (None: removed), and the path it had until now
_NameChange = tuple[str, _Inode | _Folder | None, str | None]


class LossyFiles:
    def __init__(self) -> None:
        self._now: dict[str, _Inode] = {}
        self._disk: dict[str, _Inode] = {}
        self._folders: set[str] = set()
        self._pending: dict[str, list[_NameChange]] = {}
        self._handles: dict[int, _Inode] = {}
        self._next_handle = 1000
        self._locks: dict[int, str] = {}
        self._left: int | None = None
        self.operations = 0
        self.fail_writes: int | None = None  # bytes that still fit on the disk
        self.fail_syncs = False
        self.torn_random: Random | None = None

    # -- faults -------------------------------------------------------------------------------------------------------

    def stop_after(self, operations: int | None, torn: Random | None = None) -> None:
        """Cut the power at the n-th changing operation from now on; with `torn`, a write may have happened in part."""
        self._left = operations
        self.torn_random = torn

    def crash(self, random: Random) -> None:
        """The power fails and comes back: handles are gone, and so is part of what was not synced."""
        lost: list[_NameChange] = []
        for changes in self._pending.values():
            kept = random.randint(0, len(changes))
            self._apply(changes[:kept])
            lost += changes[kept:]
        for path, inode, source in reversed(lost):
            if isinstance(inode, _Folder) and source is not None:
                # What survived inside is found under the name that the folder had.
                self._disk = {moved(name, path, source): each for name, each in self._disk.items()}
        for inode in dict.fromkeys(self._disk.values()):
            inode.lose(random)
        self._restart(self._disk)

    def _apply(self, changes: Sequence[_NameChange]) -> None:
        for path, inode, source in changes:
            if isinstance(inode, _Folder):
                assert source is not None
                self._disk = {moved(name, source, path): each for name, each in self._disk.items()}
                continue
            if source is not None:
                self._disk.pop(source, None)
            if inode is None:
                self._disk.pop(path, None)
            else:
                self._disk[path] = inode

    def _change_name(self, path: str, inode: _Inode | _Folder | None, source: str | None = None) -> None:
        self._pending.setdefault(os.path.dirname(path), []).append((path, inode, source))

    def kill(self) -> None:
        """The process dies, the machine does not: nothing is lost but the handles."""
        self._restart(self._now)

    def _restart(self, files: dict[str, _Inode]) -> None:
        self._now = dict(files)
        self._disk = dict(files)
        self._folders |= {os.path.dirname(path) for path in files}
        self._pending.clear()
        self._handles.clear()
        self._locks.clear()
        self._left = None
        self.torn_random = None

    def _step(self) -> None:
        self.operations += 1
        if self._left is not None:
            if self._left <= 0:
                raise PowerCutError
            self._left -= 1

    @property
    def open_handles(self) -> int:
        return len(self._handles)

    # -- FileSystem ---------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        inode = self._now.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._step()
            inode = self._now[path] = _Inode()
            self._change_name(path, inode)
        return self._handle(inode)

    def _handle(self, inode: _Inode) -> int:
        self._next_handle += 1
        self._handles[self._next_handle] = inode
        return self._next_handle

    def close(self, fd: int) -> None:
        del self._handles[fd]
        self._locks.pop(fd, None)

    def duplicate(self, fd: int) -> int:
        return self._handle(self._handles[fd])

    def size(self, fd: int) -> int:
        return len(self._handles[fd].data)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        inode = self._handles[fd]
        data = b"".join(buffers)
        if self._left is not None and self._left <= 0 and self.torn_random is not None:
            self._write(inode, data[: self.torn_random.randint(0, len(data))], position)
        self._step()
        if self.fail_writes is not None:
            if not self.fail_writes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: self.fail_writes]
            self.fail_writes -= len(data)
        self._write(inode, data, position)
        return len(data)

    def _write(self, inode: _Inode, data: bytes, position: int) -> None:
        if not data:
            return
        end = position + len(data)
        if end > len(inode.data):
            inode.data += bytes(end - len(inode.data))
        inode.data[position:end] = data
        inode.dirty_pages.update(range(position // PAGE, (end - 1) // PAGE + 1))

    def pread(self, fd: int, length: int, position: int) -> bytes:
        return bytes(self._handles[fd].data[position : position + length])

    def preadv(self, fd: int, buffers: Sequence[WritableBuffer], position: int) -> int:
        total = 0
        for buffer in buffers:
            data = self.pread(fd, len(buffer), position + total)
            buffer[: len(data)] = data
            total += len(data)
        return total

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        inode = self._handles[fd]
        if size < len(inode.data):
            del inode.data[size:]
        else:
            inode.data += bytes(size - len(inode.data))

    def allocate(self, fd: int, size: int) -> None:
        self._step()
        inode = self._handles[fd]
        inode.data += bytes(max(0, size - len(inode.data)))

    def reserve(self, fd: int, position: int, length: int) -> bool:
        return False

    def fdatasync(self, fd: int) -> None:
        self._step()
        if self.fail_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._handles[fd].sync()

    def rename(self, source: str, target: str) -> None:
        self._step()
        if source in self._folders:
            self._rename_folder(source, target)
            return
        if source not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._now[target] = self._now.pop(source)
        self._change_name(target, self._now[target], source)

    def _rename_folder(self, source: str, target: str) -> None:
        self._now = {moved(name, source, target): inode for name, inode in self._now.items()}
        self._folders = {moved(name, source, target) for name in self._folders}
        self._pending = {
            moved(folder, source, target): [
                (moved(path, source, target), inode, None if before is None else moved(before, source, target))
                if is_inside(folder, source)
                else (path, inode, before)
                for path, inode, before in changes
            ]
            for folder, changes in self._pending.items()
        }
        self._change_name(target, _Folder(), source)

    def unlink(self, path: str) -> None:
        if path not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._step()
        del self._now[path]
        self._change_name(path, None)

    def status(self, path: str) -> FileStatus:
        inode = self._now.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return FileStatus(len(inode.data), inode.modified_ms)

    def exists(self, path: str) -> bool:
        return path in self._now or path in self._folders

    def list(self, directory: str) -> list[str]:
        if directory not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        names = {
            path[len(directory) + 1 :].split("/")[0]
            for path in (*self._now, *self._folders)
            if path.startswith(directory + "/")
        }
        return sorted(names)

    def is_directory(self, path: str) -> bool:
        return path in self._folders

    def make_directory(self, path: str) -> None:
        while path and path not in self._folders:
            self._folders.add(path)
            path = os.path.dirname(path)

    def remove_directory(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._folders.discard(path)

    def sync_directory(self, path: str) -> None:
        self._step()
        if self.fail_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._apply(self._pending.pop(path, ()))

    def lock(self, path: str) -> int:
        if path in self._locks.values():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        fd = self.open(path, create=True)
        self._locks[fd] = path
        return fd

    def disk_space(self, path: str) -> DiskSpace:
        return DiskSpace(1 << 40, 1 << 39)


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def moved(path: str, source: str, target: str) -> str:
    return target + path[len(source) :] if is_inside(path, source) else path
