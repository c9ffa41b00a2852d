"""The calls of `port` through kazoo, whose threads never touch anything of ours: what they say is brought to the loop.

What kazoo does that is not obvious, and what is done about it:

- Calls made while there is no connection wait in its queue and are sent with the next one; here they fail at once.
- A call that meets the end of a session can get lost in its queue; here every lost connection ends all calls.
- A connection to a host that does not answer is tried for a whole session time-out; here for a sixth of it.
- It waits up to a minute between attempts to connect; here half a second.
- It pings on while our loop hangs; here a watchdog closes the session, and the loop opens another when it is back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState

from moldau.config.zookeeper_security import OPEN, ZooKeeperSecurity
from moldau.metadata.store import SessionState, StoreUnreachableError
from moldau.metadata.zookeeper.login import LoggedIn, lock_of, make_client
from moldau.metadata.zookeeper.port import (
    BadVersionError,
    ConnectionLostError,
    Node,
    NodeExistsError,
    NoNodeError,
    OnEvent,
    PortError,
    StateListener,
)
from moldau.work.clocks import boot_seconds

LOG = logging.getLogger(__name__)

T = TypeVar("T")

CONNECT_SHARE = 6
MAX_PAUSE_SECONDS = 0.5
ANY_VERSION = -1

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
_LOST = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.ConnectionClosedError,
    exceptions.ConnectionDropped,
    exceptions.OperationTimeoutError,
    exceptions.SessionMovedError,
    KazooTimeoutError,
)


class KazooPort:
    def __init__(
        self, hosts: str, session_seconds: float, security: ZooKeeperSecurity = OPEN, secret: str = ""
    ) -> None:
        """Use `connect`."""
        self._loop = asyncio.get_running_loop()
        self._hosts = hosts
        self._session_seconds = session_seconds
        self._security = security
        self._secret = secret
        self._login = LoggedIn()
        self._granted_seconds = session_seconds
        self._client = make_client(
            hosts,
            session_seconds,
            security,
            self._login,
            quiet_logger(),
            session_seconds / CONNECT_SHARE,
            self._was_granted,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": MAX_PAUSE_SECONDS},
        )
        self._client.add_listener(self._state_changed)
        self._state = SessionState.LOST
        self._listeners: list[StateListener] = []
        self._under_way: set[Future[Any]] = set()
        self._closing = False
        self._client_lock = threading.Lock()
        self._watchdog = Watchdog(session_seconds, self._close_session, boot_seconds)
        self._reopening: Future[None] | None = None
        self.timed: Callable[[float], None] = lambda _milliseconds: None

    @classmethod
    async def connect(
        cls,
        hosts: str,
        session_seconds: float,
        connect_seconds: float,
        security: ZooKeeperSecurity = OPEN,
        secret: str = "",
    ) -> KazooPort:
        """`hosts` without a chroot; nodes below `secret` may be read by nobody else, where they are locked at all.
        Raises StoreUnreachableError."""
        try:
            port = cls(hosts, session_seconds, security, secret)
        except ValueError as error:
            raise StoreUnreachableError(f"zookeeper.{error}") from None
        connected = asyncio.Event()
        port.on_state(lambda state: connected.set() if state is SessionState.CONNECTED else None)
        await asyncio.to_thread(port._client.start_async)
        try:
            await asyncio.wait_for(connected.wait(), connect_seconds)
        except BaseException as error:
            await port.close()
            if isinstance(error, TimeoutError):
                raise StoreUnreachableError(unreachable(hosts, connect_seconds, port.problem)) from None
            raise
        port._listeners.clear()
        port._watchdog.start()
        return port

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def problem(self) -> str | None:
        """Why the last login was refused."""
        return self._login.problem

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    @property
    def granted_seconds(self) -> float:
        return self._granted_seconds

    def _was_granted(self, seconds: float) -> None:
        """In kazoo's thread."""
        if 0 < seconds < self._session_seconds and seconds != self._granted_seconds:
            LOG.warning(
                "ZooKeeper lets sessions live for %g s, not for the %g s of zookeeper.session.timeout.ms; its "
                "maxSessionTimeout (20 ticks unless set) would have to be longer",
                seconds,
                self._session_seconds,
            )
        if seconds > 0:
            self._granted_seconds = seconds

    # --- calls ---

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> Future[str]:
        acl = self._lock_of(path)
        return self._call(
            lambda: self._client.create_async(path, value, acl, ephemeral=ephemeral, sequence=sequence), as_it_is
        )

    def _lock_of(self, path: str) -> Any:
        return lock_of(self._security, f"{path}/".startswith(f"{self._secret}/"))

    def get(self, path: str) -> Future[Node | None]:
        def as_node(answer: Any) -> Node:
            value, stat = answer
            return Node(value, stat.version, stat.ephemeralOwner)

        return self._call(lambda: self._client.get_async(path), as_node, missing=None)

    def exists(self, path: str, on_event: OnEvent) -> Future[bool]:
        return self._call(
            lambda: self._client.exists_async(path, watch=self._watcher(on_event)), lambda stat: stat is not None
        )

    def set(self, path: str, value: bytes, version: int) -> Future[None]:
        return self._call(lambda: self._client.set_async(path, value, version=version), nothing)

    def delete(self, path: str) -> Future[None]:
        return self._call(lambda: self._client.delete_async(path), nothing)

    def children(self, path: str, on_event: OnEvent | None = None) -> Future[list[str]]:
        watch = None if on_event is None else self._watcher(on_event)
        return self._call(lambda: self._client.get_children_async(path, watch=watch), as_it_is)

    def replace(self, path: str, value: bytes, version: int) -> Future[None]:
        def commit() -> Any:
            transaction = self._client.transaction()
            transaction.delete(path, version=version)
            transaction.create(path, value, self._lock_of(path), ephemeral=True)
            return transaction.commit_async()

        return self._call(commit, raise_refusals)

    def touch(self, path: str) -> Future[None]:
        def commit() -> Any:
            transaction = self._client.transaction()
            transaction.check(path, ANY_VERSION)
            return transaction.commit_async()

        return self._call(commit, raise_refusals)

    def _call(self, call: Callable[[], Any], convert: Callable[[Any], Any], **if_missing: Any) -> Future[Any]:
        future: Future[Any] = self._loop.create_future()
        if self._state is not SessionState.CONNECTED or self._closing:
            future.set_exception(ConnectionLostError("not connected"))
            future.exception()
            return future
        self._under_way.add(future)
        sent_at = boot_seconds()
        answer = call()
        answer.rawlink(lambda answer: self._on_loop(self._answered, future, answer, convert, if_missing, sent_at))
        return future

    def _answered(
        self,
        future: Future[Any],
        answer: Any,
        convert: Callable[[Any], Any],
        if_missing: dict[str, Any],
        sent_at: float,
    ) -> None:
        self._under_way.discard(future)
        if future.done():
            return
        self.timed((boot_seconds() - sent_at) * 1000)
        try:
            future.set_result(convert(answer.get(block=False)))
        except exceptions.NoNodeError as error:
            if if_missing:
                future.set_result(if_missing["missing"])
            else:
                self._refuse(future, error)
        except Exception as error:
            self._refuse(future, error)

    def _refuse(self, future: Future[Any], error: Exception) -> None:
        future.set_exception(translated(error))
        future.exception()  # whoever made the call may have given up

    def _watcher(self, on_event: OnEvent) -> Callable[[Any], None]:
        def fired(event: Any) -> None:
            if event.type != EventType.NONE:  # NONE: the connection is lost, which the state tells
                self._on_loop(on_event)

        return fired

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(call, *arguments)

    # --- session ---

    def on_state(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    def _state_changed(self, state: str) -> None:
        """In kazoo's thread."""
        self._on_loop(self._set_state, _STATES[state])

    def _set_state(self, state: SessionState) -> None:
        if self._closing and state is SessionState.CONNECTED:
            return
        self._state = state
        if state is not SessionState.CONNECTED:
            under_way, self._under_way = self._under_way, set()
            for future in under_way:
                if not future.done():
                    self._refuse(future, exceptions.ConnectionLoss())
        for listener in tuple(self._listeners):
            listener(state)

    def loop_lives(self) -> None:
        if self._watchdog.touch() and self._reopening is None and not self._closing:
            LOG.warning("the event loop stood still for so long that the ZooKeeper session was closed; opening another")
            self._reopening = asyncio.ensure_future(asyncio.to_thread(self._open_session))
            self._reopening.add_done_callback(self._reopened)

    def _reopened(self, reopening: Future[None]) -> None:
        self._reopening = None
        if not reopening.cancelled() and reopening.exception() is not None:
            LOG.error("cannot open a ZooKeeper session", exc_info=reopening.exception())

    def _close_session(self) -> None:
        """In the watchdog's thread."""
        with self._client_lock, suppress(Exception):
            self._client.stop()

    def _open_session(self) -> None:
        with self._client_lock:
            if not self._closing:
                self._client.start_async()
                self._watchdog.rest()

    async def close(self) -> None:
        self._closing = True
        self._watchdog.stop()
        if self._reopening is not None:
            await asyncio.wait([self._reopening])
        await asyncio.to_thread(self._end_client)
        self._state = SessionState.LOST

    def _end_client(self) -> None:
        with self._client_lock:
            self._client.stop()
            self._client.close()


class Watchdog:
    """A thread that bites when nobody has touched it for too long, once until it is told to `rest`."""

    def __init__(self, patience_seconds: float, bite: Callable[[], None], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._bite = bite
        self._touched_at = self._clock()
        self._bitten = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="zookeeper-watchdog", daemon=True)

    def start(self) -> None:
        self._touched_at = self._clock()
        self._thread.start()

    def touch(self) -> bool:
        """Whether it has bitten."""
        self._touched_at = self._clock()
        return self._bitten

    def rest(self) -> None:
        self._bitten = False

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._patience_seconds / 6):
            if not self._bitten and self._clock() - self._touched_at > self._patience_seconds:
                self._bitten = True
                self._bite()


def translated(error: Exception) -> PortError:
    if isinstance(error, PortError):
        return error
    if isinstance(error, _LOST):
        return ConnectionLostError(str(error))
    for theirs, ours in (
        (exceptions.NodeExistsError, NodeExistsError),
        (exceptions.NoNodeError, NoNodeError),
        (exceptions.BadVersionError, BadVersionError),
    ):
        if isinstance(error, theirs):
            return ours(str(error))
    return PortError(f"{type(error).__name__}: {error}")


def raise_refusals(results: Any) -> None:
    """A transaction's errors stand in its results; those that only say that another one failed do not count."""
    for result in results:
        if isinstance(result, Exception) and not isinstance(
            result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
        ):
            raise result


def as_it_is(answer: Any) -> Any:
    return answer


def nothing(answer: Any) -> None:
    return None


def unreachable(hosts: str, seconds: float, problem: str | None = None) -> str:
    if problem is not None:
        return f"ZooKeeper at {hosts} did not let this broker in within {seconds:g} s: {problem}"
    return (
        f"ZooKeeper did not open a session within {seconds:g} s at {hosts}. Either no server listens there, or the "
        "ensemble has no majority of its servers up. Start them, or correct zookeeper.connect; "
        "zookeeper.connection.timeout.ms says how long is waited."
    )


def quiet_logger() -> logging.Logger:
    """kazoo tells each attempt to connect: our own lines say it once."""
    logger = logging.getLogger("moldau.metadata.zookeeper.kazoo")
    logger.setLevel(logging.ERROR)
    return logger
