"""The interface every metadata store serves.

Entries are named by slash-separated paths and hold small values. The terms are ZooKeeper's, so that an ensemble can
serve the same interface as the embedded store:

- an entry is created with version 0 and each put raises its version by one;
- a commit is atomic: all of its operations or none, each guarded by the version it expects;
- every commit has a revision, greater than all before it, also across restarts;
- watchers see changes in the order of their revisions, each after it is durable; a store may join several changes of
  one entry into the last of them;
- reads answer from what this store has heard; who must not miss what others committed calls `sync` first.

Which brokers are alive is not metadata: a session ends without a commit, and each broker would see it at another place
in the history. `Presence` tells it beside the entries.

When the outcome of a commit cannot be known (the disk failed while it was written, the store was closed while the
ensemble was away) it ends in `OutcomeUnknownError`: the change may or may not be there when the store is read again.
A session that is suspended or lost is no such case: commits wait until the ensemble has told their outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from moldau.work.slices import Work, at_once, pauses

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


@dataclass(frozen=True, slots=True)
class Put:
    """Creates or replaces an entry. `expected_version`: None takes any state, ABSENT demands a new entry."""

    path: str
    value: bytes
    expected_version: int | None = None


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


class StoreUnreachableError(StoreError):
    """The ensemble did not answer within the time that was given."""


class DuplicateBrokerError(StoreError):
    """Another broker that is alive has announced itself under this id."""


#: What to do where nothing is damaged, but the broker is older than what it reads.
WRITTEN_LATER = "a later release wrote it. Start this broker with that release or a newer one"


class CorruptStoreError(StoreError):
    """Durable data that is not what was written. `position` is the byte in `file` where it begins."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(f"{file} is corrupt at byte {position}: {reason}")
        self.file = file
        self.position = position
        self.reason = reason


class LaterReleaseError(StoreError):
    """What a later release wrote, in a form that this one does not know."""

    def __init__(self, what: str, form: int, known: int) -> None:
        super().__init__(f"{what} has form {form}, and this release reads form {known}: {WRITTEN_LATER}")


class SessionState(Enum):
    """How the store stands with what keeps its entries.

    SUSPENDED: nothing is heard from it. LOST: the session has ended, or must be taken to have ended, and with it this
    broker's presence. Both end by themselves in CONNECTED, with the presence announced again.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


Watcher: TypeAlias = Callable[[Changes], None]
Unwatch: TypeAlias = Callable[[], None]
EndWatcher: TypeAlias = Callable[[StoreError], None]
SessionWatcher: TypeAlias = Callable[[SessionState], None]
AliveWatcher: TypeAlias = Callable[[Mapping[int, bytes]], None]


class MetadataStore(Protocol):
    async def read(self, path: str) -> Versioned | None:
        """The entry as this store last heard of it; its own commits are heard of when they return."""

    async def list(self, prefix: str) -> Listing:
        """The entry `prefix` and all below it; "/" is everything."""

    async def commit(self, operations: Sequence[Operation]) -> Revision:
        """Does all operations or none, and returns when they are durable. Watchers may hear of them later."""

    async def sync(self) -> Revision:
        """Waits for all commits that began before; the revision that holds them, of which watchers will be told."""

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        """Calls `watcher` on the event loop with each later change at or below `prefix`.

        Whoever watches "/" is told of every revision that `commit` and `sync` return, also of one without changes.
        """

    def on_session_lost(self, watcher: EndWatcher) -> Unwatch:
        """Calls `watcher` once, with the reason, if the store stops serving by itself, for good."""

    async def close(self) -> None:
        """Ends the session, and with it the presence. Commits under way are finished first."""


class Presence(Protocol):
    """Which brokers are alive: each for as long as the session lives in which it announced itself."""

    async def announce(self, broker_id: int, value: bytes) -> None:
        """This broker lives, again after every lost session, until `withdraw` or `close`.

        `value` is Kafka's JSON of a registration with the member `directories`, the ids of the log directories that
        this process has locked: an announcement that shares one of them is an earlier one of this broker and is
        replaced. Any other is waited for as long as a session may outlive its broker, then DuplicateBrokerError is
        raised.
        """

    async def withdraw(self) -> None:
        """This broker is going; its session lives on. Where nothing is heard from what keeps it, this returns when it
        must have ended."""

    def alive(self) -> Mapping[int, bytes]:
        """The brokers that were alive when last heard of, with their values."""

    def watch_alive(self, watcher: AliveWatcher) -> Unwatch:
        """Calls `watcher` on the event loop with all of `alive()` whenever it has changed."""


class Session(Protocol):
    @property
    def session_state(self) -> SessionState: ...

    def on_session(self, watcher: SessionWatcher) -> Unwatch:
        """Calls `watcher` on the event loop with each new state."""

    @property
    def lease_seconds(self) -> float:
        """For how long nobody else takes this broker for gone, counted from what it heard last."""

    def current_as_of(self, revision: Revision) -> float:
        """The latest time, in seconds of the boot clock, of which it is known that nothing after this revision had been
        accepted by then: the store has answered as a whole (a majority of the ensemble), and was read to its end. What
        a lease may be counted from."""


class ClusterStore(MetadataStore, Presence, Session, Protocol):
    """All that a broker asks of its store."""

    async def snapshot_if_due(self) -> None:
        """The controller calls it now and then: the log before a snapshot can be cut. A store that needs nobody for
        that does nothing."""


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
