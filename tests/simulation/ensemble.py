"""The fake of ZooKeeper in virtual time: its answers take milliseconds, and the session of who is silent ends."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from moldau.metadata.store import SessionState
from moldau.metadata.zookeeper.port import ConnectionLostError, PortError
from tests.fakes.zookeeper import Ensemble, FakePort, Faults, Step
from tests.simulation.scheduler import Scheduler

SESSION_SECONDS = 6.0
LONGEST_SECONDS = 0.005
BROKER_IDS = "/brokers/ids"


class SimulatedEnsemble(Ensemble):
    def __init__(self, seed: int, scheduler: Scheduler, entries_between_snapshots: int) -> None:
        super().__init__(seed, Faults())
        self.scheduler, self.entries_between_snapshots = scheduler, entries_between_snapshots
        #: When a broker's presence has ended for the last time.
        self.absent_at: dict[int, float] = {}

    def connect(self) -> SimulatedPort:
        port = SimulatedPort(self, self.new_session())
        self.ports.append(port)
        return port

    def write(self, *steps: Step) -> None:
        for step in steps:
            parent, _, name = step.path.rpartition("/")
            if step.kind == "delete" and parent == BROKER_IDS:
                self.absent_at[int(name)] = self.scheduler.now
        super().write(*steps)


class SimulatedPort(FakePort):
    """What is called from outside its loop only schedules."""

    def __init__(self, ensemble: SimulatedEnsemble, session: int) -> None:
        self._scheduler = ensemble.scheduler
        self._ended_sessions: set[int] = set()
        self._silences = 0
        self._owner_is_dead = False
        self.longest_seconds = LONGEST_SECONDS
        super().__init__(ensemble, session)

    def _later(self, call: Callable[[], None]) -> None:
        self._scheduler.after(self._rng.random() * self.longest_seconds, lambda: self._loop.call_soon(call))

    def _write(self, *steps: Step) -> None:
        if self._session in self._ended_sessions:
            raise ConnectionLostError
        super()._write(*steps)

    def _pump(self) -> None:
        if self._session in self._ended_sessions and self._state is SessionState.CONNECTED and not self._closed:
            self._pumping = False
            self.drop(expire=True)
            return
        super()._pump()

    # --- what faults do ---

    def expire(self) -> None:
        """The session ends while its owner is connected, who learns of it."""
        self.end_session()
        self._loop.call_soon(lambda: self.drop(expire=True))

    def hiccup(self) -> None:
        """The connection is lost and made again: answers are lost, and some of what was asked for is done."""
        self._loop.call_soon(self.drop)

    def cut_off(self, *, is_heard: bool = False) -> None:
        """`is_heard`: its session lives on."""
        self._loop.call_soon(lambda: self.drop(comes_back=False))
        if not is_heard:
            self.silent()

    def reconnect(self) -> None:
        """The ensemble hears of it again; if that is too late, it learns that its session is over."""
        if self._owner_is_dead:
            return
        self._silences += 1
        expired = self._session in self._ended_sessions
        self._loop.call_soon(lambda: self._heard_again(expired))

    def _heard_again(self, expired: bool) -> None:
        if self._state is SessionState.CONNECTED and expired:
            self.drop(expire=True)
        else:
            self.come_back(expired=expired)

    def silent(self) -> None:
        """From now on its owner is not heard: its session ends when its time is over."""
        self._silences += 1
        silence, session = self._silences, self._session
        seconds = SESSION_SECONDS * (0.67 + 0.66 * self._rng.random())
        self._scheduler.after(seconds, lambda: self._overdue(silence, session))

    def _overdue(self, silence: int, session: int) -> None:
        if self._silences == silence and self._session == session:
            self.end_session()

    def owner_died(self) -> None:
        """Some of what it had sent is done all the same."""
        self._owner_is_dead = True
        requests, self._requests = self._requests, deque()
        for _, request in list(requests)[: self._rng.randint(0, len(requests))]:
            with contextlib.suppress(PortError):
                request()
        self.silent()

    def end_session(self) -> None:
        if self._session not in self._ended_sessions:
            self._ended_sessions.add(self._session)
            self._ensemble.end_session(self._session)
