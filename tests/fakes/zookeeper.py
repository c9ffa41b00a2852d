"""ZooKeeper as far as the store's port can see it: one order of writes, servers that lag behind it, sessions, watches.

Nothing takes time but turns of the event loop, drawn from a seeded generator. Faults: a connection is lost with
requests on it that were done or not; a session expires; a new session comes to a server that is behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from asyncio import Future
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from moldau.metadata.store import SessionState
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

MAX_REQUEST_BYTES = 1_048_575
ANY_VERSION = -1


@dataclass(slots=True)
class Znode:
    value: bytes
    owner: int
    version: int = 0
    creates: int = 0
    children: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the tree: what every server does in the same order."""

    kind: str
    path: str
    value: bytes = b""
    owner: int = 0


class Tree:
    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0)}

    def parent(self, path: str) -> Znode:
        found = self.nodes.get(path.rpartition("/")[0] or "/")
        if found is None:
            raise NoNodeError(path)
        return found

    def do(self, step: Step) -> None:
        if step.kind == "create":
            parent = self.parent(step.path)
            parent.creates += 1
            parent.children.add(step.path.rpartition("/")[2])
            self.nodes[step.path] = Znode(step.value, step.owner)
        elif step.kind == "delete":
            self.parent(step.path).children.discard(step.path.rpartition("/")[2])
            del self.nodes[step.path]
        else:
            node = self.nodes[step.path]
            node.value = step.value
            node.version += 1


@dataclass(frozen=True, slots=True)
class Faults:
    """Of each request: how likely its connection is lost, and of each lost connection: how likely its session ends."""

    drop: float = 0.0
    expire: float = 0.3
    most_turns: int = 4


class Ensemble:
    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self.rng = Random(seed)
        self.faults = faults or Faults()
        self.leader = Tree()
        self.steps: list[Step] = []
        self.ports: list[FakePort] = []
        self._sessions = count(1)

    def connect(self) -> FakePort:
        port = FakePort(self, next(self._sessions))
        self.ports.append(port)
        return port

    def new_session(self) -> int:
        return next(self._sessions)

    def write(self, *steps: Step) -> None:
        for step in steps:
            self.leader.do(step)
            self.steps.append(step)
        for port in self.ports:
            port.catch_up_some_time()

    def end_session(self, session: int) -> None:
        self.write(*(Step("delete", path) for path, node in list(self.leader.nodes.items()) if node.owner == session))


class FakePort:
    def __init__(self, ensemble: Ensemble, session: int) -> None:
        self._ensemble = ensemble
        self._loop = asyncio.get_running_loop()
        self._rng = Random(ensemble.rng.random())
        self._session = session
        self._state = SessionState.CONNECTED
        self._listeners: list[StateListener] = []
        self._server = Tree()
        self._applied = 0
        self._watches: dict[tuple[str, str], list[OnEvent]] = {}
        self._requests: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._pumping = False
        self._catching_up = False
        self._connection = 0
        self._held = False
        self._closed = False
        self.refusing: type[PortError] | None = None
        self.timed: Callable[[float], None] = lambda _milliseconds: None
        self._apply_up_to(len(ensemble.steps))

    # --- what tests do ---

    def drop(self, *, expire: bool = False, comes_back: bool = True) -> None:
        """The connection is lost; some of what was sent on it is done all the same."""
        if self._state is not SessionState.CONNECTED:
            return
        self._connection += 1
        requests, self._requests = self._requests, deque()
        done = self._rng.randint(0, len(requests))
        for number, (future, request) in enumerate(requests):
            if number < done:
                with contextlib.suppress(PortError):
                    request()
            lose(future)
        self._watches.clear()
        self._held = not comes_back
        self._tell(SessionState.SUSPENDED)
        if comes_back:
            self._later(lambda: self.come_back(expired=expire))

    def come_back(self, *, expired: bool = False) -> None:
        if self._state is SessionState.CONNECTED or self._closed:
            return
        self._held = False
        if expired:
            self._ensemble.end_session(self._session)
            self._tell(SessionState.LOST)
            self._session = self._ensemble.new_session()
            self._move_to_a_server_behind()
        self._tell(SessionState.CONNECTED)
        self.catch_up_some_time()

    def _move_to_a_server_behind(self) -> None:
        self._server, self._applied = Tree(), 0
        total = len(self._ensemble.steps)
        self._apply_up_to(total - self._rng.randint(0, min(5, total)))

    # --- the port ---

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def granted_seconds(self) -> float:
        """Whatever was asked for."""
        return math.inf

    @property
    def session_id(self) -> int:
        return self._session

    def on_state(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    def loop_lives(self) -> None:
        """Nothing hangs here."""

    async def close(self) -> None:
        self._closed = True
        self._state = SessionState.LOST
        self._ensemble.end_session(self._session)
        self._ensemble.ports.remove(self)

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> Future[str]:
        assert len(value) + len(path) < MAX_REQUEST_BYTES, "ZooKeeper would close the connection"

        def do() -> str:
            tree = self._ensemble.leader
            made = f"{path}{tree.parent(path).creates:010d}" if sequence else path
            if made in tree.nodes:
                raise NodeExistsError(made)
            tree.parent(made)
            self._write(Step("create", made, value, self._session if ephemeral else 0))
            return made

        return self._request(self._in_order(do))

    def set(self, path: str, value: bytes, version: int) -> Future[None]:
        def do() -> None:
            self._check(path, version)
            self._write(Step("set", path, value))

        return self._request(self._in_order(do))

    def delete(self, path: str) -> Future[None]:
        def do() -> None:
            self._check(path, ANY_VERSION)
            if self._ensemble.leader.nodes[path].children:
                raise PortError(f"{path} has children")
            self._write(Step("delete", path))

        return self._request(self._in_order(do))

    def replace(self, path: str, value: bytes, version: int) -> Future[None]:
        def do() -> None:
            self._check(path, version)
            self._write(Step("delete", path), Step("create", path, value, self._session))

        return self._request(self._in_order(do))

    def touch(self, path: str) -> Future[None]:
        def do() -> None:
            self._check(path, ANY_VERSION)
            self._write()

        return self._request(self._in_order(do))

    def get(self, path: str) -> Future[Node | None]:
        def do() -> Node | None:
            node = self._server.nodes.get(path)
            return None if node is None else Node(node.value, node.version, node.owner)

        return self._request(do)

    def exists(self, path: str, on_event: OnEvent) -> Future[bool]:
        def do() -> bool:
            self._watches.setdefault(("node", path), []).append(on_event)
            return path in self._server.nodes

        return self._request(do)

    def children(self, path: str, on_event: OnEvent | None = None) -> Future[list[str]]:
        def do() -> list[str]:
            if path not in self._server.nodes:
                raise NoNodeError(path)
            if on_event is not None:
                self._watches.setdefault(("children", path), []).append(on_event)
            return sorted(self._server.nodes[path].children)

        return self._request(do)

    # --- inside ---

    def _check(self, path: str, version: int) -> None:
        node = self._ensemble.leader.nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(path)

    def _write(self, *steps: Step) -> None:
        if self._closed:
            raise ConnectionLostError
        self._ensemble.write(*steps)
        self._apply_up_to(len(self._ensemble.steps))  # a server answers a write when it has done it itself

    def _in_order(self, do: Callable[[], Any]) -> Callable[[], Any]:
        """A write that is refused has its place in the order too: who answers has done what came before."""

        def done() -> Any:
            try:
                return do()
            except PortError:
                self._apply_up_to(len(self._ensemble.steps))
                raise

        return done

    def _apply_up_to(self, end: int) -> None:
        for step in self._ensemble.steps[self._applied : end]:
            self._server.do(step)
            self._applied += 1
            parent = step.path.rpartition("/")[0] or "/"
            fired = self._watches.pop(("node", step.path), [])
            if step.kind != "set":
                fired += self._watches.pop(("children", parent), [])
            for on_event in fired:
                self._loop.call_soon(on_event)

    def catch_up_some_time(self) -> None:
        if self._catching_up or self._closed or self._state is not SessionState.CONNECTED:
            return
        self._catching_up = True

        def catch_up() -> None:
            self._catching_up = False
            if self._state is SessionState.CONNECTED:
                behind = len(self._ensemble.steps) - self._applied
                self._apply_up_to(self._applied + self._rng.randint(min(1, behind), behind))
                if self._applied < len(self._ensemble.steps):
                    self.catch_up_some_time()

        self._later(catch_up)

    def _request(self, do: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = self._loop.create_future()
        if self._state is not SessionState.CONNECTED or self._closed:
            lose(future)
            return future
        self._requests.append((future, do))
        if not self._pumping:
            self._pumping = True
            self._later(self._pump)
        return future

    def _pump(self) -> None:
        self._pumping = False
        if not self._requests or self._closed:
            return
        if self._rng.random() < self._ensemble.faults.drop:
            self.drop(expire=self._rng.random() < self._ensemble.faults.expire)
            return
        future, do = self._requests.popleft()
        try:
            answer, error = do(), None
        except PortError as refusal:
            answer, error = None, refusal
        self._loop.call_soon(settle, future, answer, error)
        if self._requests:
            self._pumping = True
            self._later(self._pump)

    def _later(self, call: Callable[[], None]) -> None:
        loop = self._loop
        turns = self._rng.randint(0, self._ensemble.faults.most_turns)

        def turn(left: int) -> None:
            if left:
                loop.call_soon(turn, left - 1)
            else:
                call()

        loop.call_soon(turn, turns)

    def _tell(self, state: SessionState) -> None:
        self._state = state
        for listener in tuple(self._listeners):
            listener(state)


def settle(future: Future[Any], answer: Any, error: PortError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
        future.exception()


def lose(future: Future[Any]) -> None:
    settle(future, None, ConnectionLostError("lost"))
