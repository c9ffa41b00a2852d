"""The few calls that the store makes to ZooKeeper.

A call is sent when it is made, in the order of the calls, and what is returned is only its answer. Everything happens
on the event loop. A call whose connection is lost ends in ConnectionLostError: it may have been done. Watches are
dropped, and calls refused, from a lost connection to the next CONNECTED.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from moldau.metadata.store import SessionState


class Node(NamedTuple):
    """`owner` is the session that an ephemeral node ends with, 0 for others."""

    value: bytes
    version: int
    owner: int


class PortError(Exception):
    """A call that ZooKeeper, or the way to it, refused."""


class ConnectionLostError(PortError):
    """Nobody knows whether the call was done."""


class NodeExistsError(PortError):
    pass


class NoNodeError(PortError):
    pass


class BadVersionError(PortError):
    pass


OnEvent: TypeAlias = Callable[[], None]
StateListener: TypeAlias = Callable[[SessionState], None]


class Port(Protocol):
    timed: Callable[[float], None]
    """Told of each answer how many milliseconds it took."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int: ...

    @property
    def granted_seconds(self) -> float:
        """How long the ensemble lets a session live that it does not hear of, as it said when it was opened."""

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> Future[str]:
        """The path that was made. Raises NodeExistsError, NoNodeError (no parent)."""

    def get(self, path: str) -> Future[Node | None]: ...

    def exists(self, path: str, on_event: OnEvent) -> Future[bool]:
        """`on_event` is called once when the node comes, changes or goes."""

    def set(self, path: str, value: bytes, version: int) -> Future[None]:
        """Raises BadVersionError, NoNodeError."""

    def delete(self, path: str) -> Future[None]:
        """Raises NoNodeError, and PortError where it has children."""

    def children(self, path: str, on_event: OnEvent | None = None) -> Future[list[str]]:
        """`on_event` is called once when children come or go. Raises NoNodeError."""

    def replace(self, path: str, value: bytes, version: int) -> Future[None]:
        """In one step: deletes the node, which must have this version, and makes an ephemeral one of this session.
        Raises BadVersionError, NoNodeError, NodeExistsError."""

    def touch(self, path: str) -> Future[None]:
        """Changes nothing, but a majority of the ensemble has to agree on it."""

    def on_state(self, listener: StateListener) -> None:
        """CONNECTED is also told where a session goes on on another connection."""

    def loop_lives(self) -> None:
        """To be called all the time: a port whose loop hangs closes its session, so that others can go on."""

    async def close(self) -> None: ...
