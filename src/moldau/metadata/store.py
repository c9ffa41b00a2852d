"""The interface every metadata store serves.

Entries are named by slash-separated paths and hold small values. The terms are ZooKeeper's, so that an ensemble can
serve the same interface as the embedded store:

- an entry is created with version 0 and each put raises its version by one;
- a commit is atomic: all of its operations or none, each guarded by the version it expects;
- every commit has a revision, greater than all before it, also across restarts;
- watchers see changes in the order of their revisions, each after it is durable; a store may join several changes of
  one entry into the last of them;
- ephemeral entries live as long as the session of the store that put them.

When the outcome of a commit cannot be known (the disk failed while it was written, the session was lost) it ends in
`OutcomeUnknownError` or `SessionLostError`: the change may or may not be there when the store is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from moldau.work.turns import Work, at_once, pauses

ABSENT = -1
"""As an expected version: the entry must not exist."""

MAX_VALUE_BYTES = 1_000_000
MAX_PATH_BYTES = 60_000

Revision: TypeAlias = int


class Versioned(NamedTuple):
    """An entry: its value, how often it was changed, and the commits that made and last changed it."""

    value: bytes
    version: int
    created: Revision
    revision: Revision
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Creates or replaces an entry. `expected_version`: None takes any state, ABSENT demands a new entry.

    `ephemeral` counts only where the put creates the entry; a later put leaves that as it is.
    """

    path: str
    value: bytes
    expected_version: int | None = None
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes an entry, which must exist. `expected_version`: None takes any version."""

    path: str
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Changes nothing; the commit fails unless the entry has this version (ABSENT: unless there is no entry)."""

    path: str
    expected_version: int


Operation: TypeAlias = Put | Delete | Check


class Change(NamedTuple):
    """One entry after a commit; `entry` is None where it was deleted."""

    path: str
    entry: Versioned | None


@dataclass(frozen=True, slots=True)
class Changes:
    revision: Revision
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """All entries under a prefix as of one revision."""

    revision: Revision
    entries: Mapping[str, Versioned]


class StoreError(Exception):
    """Something a metadata store could not do."""


class VersionConflictError(StoreError):
    """An operation of a commit met another version than it expected; nothing of the commit was done."""

    def __init__(self, path: str, expected: int | None, actual: int) -> None:
        wanted = "to exist" if expected is None else "to be absent" if expected == ABSENT else f"at version {expected}"
        found = "absent" if actual == ABSENT else f"at version {actual}"
        super().__init__(f"{path}: expected {wanted}, found {found}")
        self.path = path
        self.expected = expected
        self.actual = actual


class InvalidOperationError(StoreError):
    """A commit no store would take: a malformed path, a value too large, one path twice."""


class CommitFailedError(StoreError):
    """The commit could not be made durable and is undone; the store goes on."""


class OutcomeUnknownError(StoreError):
    """The commit may or may not be durable, and the store takes no further commits."""


class StoreLockedError(StoreError):
    """Another process has the store's files open."""


class StoreClosedError(StoreError):
    """The store was closed."""


class SessionLostError(StoreError):
    """The session ended without our doing: ephemeral entries are gone, watches are dead."""


class CorruptStoreError(StoreError):
    """Durable data that is not what was written. `position` is the byte in `file` where it begins."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(f"{file} is corrupt at byte {position}: {reason}")
        self.file = file
        self.position = position
        self.reason = reason


Watcher: TypeAlias = Callable[[Changes], None]
Unwatch: TypeAlias = Callable[[], None]
SessionWatcher: TypeAlias = Callable[[StoreError], None]


class MetadataStore(Protocol):
    async def read(self, path: str) -> Versioned | None:
        """The entry as last committed."""

    async def list(self, prefix: str) -> Listing:
        """The entry `prefix` and all below it; "/" is everything."""

    async def commit(self, operations: Sequence[Operation]) -> Revision:
        """Does all operations or none, and returns when they are durable. Watchers may hear of them later."""

    async def sync(self) -> Revision:
        """Waits for all commits that began before; the revision that holds them, of which watchers will be told."""

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        """Calls `watcher` on the event loop with each later change at or below `prefix`."""

    def on_session_lost(self, watcher: SessionWatcher) -> Unwatch:
        """Calls `watcher` once, with the reason, if the store stops serving by itself."""

    async def close(self) -> None:
        """Ends the session: its ephemeral entries go. Commits under way are finished first."""


def is_within(path: str, prefix: str) -> bool:
    if prefix == "/":
        return True
    return path == prefix or (path.startswith(prefix) and path[len(prefix)] == "/")


def check_path(path: str) -> None:
    """Raises InvalidOperationError for what ZooKeeper would not take as a path either."""
    if not path.startswith("/") or path == "/":
        raise InvalidOperationError(f"{path!r}: a path begins with a slash and names an entry")
    if len(path) > MAX_PATH_BYTES or not path.isascii() or not path.isprintable():
        raise InvalidOperationError(f"{path!r}: a path is printable ASCII of at most {MAX_PATH_BYTES} characters")
    # "x/".split gives a last empty part; "." and ".." would be resolved by some stores.
    if "//" in path or path.endswith("/") or "/./" in f"{path}/" or "/../" in f"{path}/":
        raise InvalidOperationError(f"{path!r}: no part of a path is empty, '.' or '..'")


def check_operations(operations: Sequence[Operation]) -> None:
    at_once(checking_operations(operations))


def checking_operations(operations: Sequence[Operation]) -> Work[None]:
    """Raises InvalidOperationError for a commit that every store refuses."""
    paused = pauses()
    paths: set[str] = set()
    for operation in operations:
        if next(paused):
            yield
        check_path(operation.path)
        if operation.path in paths:
            raise InvalidOperationError(f"{operation.path}: more than once in one commit")
        paths.add(operation.path)
        if isinstance(operation, Put) and len(operation.value) > MAX_VALUE_BYTES:
            raise InvalidOperationError(
                f"{operation.path}: a value of {len(operation.value)} bytes exceeds {MAX_VALUE_BYTES}"
            )
