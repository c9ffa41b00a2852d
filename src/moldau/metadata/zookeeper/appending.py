"""One store's own commits on their way into the log, in order and each once.

A commit is appended by one sequential create. What its outcome is, only the log says: whoever reads it tells `judged`.
After a lost connection all that is without an outcome is appended again, with the same numbers; readers take each
number once (history.py). So an outcome that is unknown becomes known with the next connection. After each lost
connection the first commit goes alone, then two, then four: a connection that is lost again and again would otherwise
fill the log with repetitions faster than it can be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moldau.metadata.frames import Commit, encoding
from moldau.metadata.store import Operation, OutcomeUnknownError, Revision, SessionState, StoreError
from moldau.metadata.zookeeper.history import OUTCOMES_KEPT, History, Outcome
from moldau.metadata.zookeeper.layout import Layout
from moldau.metadata.zookeeper.port import ConnectionLostError, NodeExistsError, NoNodeError, Port, PortError
from moldau.work.turns import begin

LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Append:
    commit: Commit
    frame: bytes
    done: asyncio.Future[Outcome]
    sent: bool = False
    place: Revision | None = None
    first_sent_at: float | None = None


class Appender:
    """`on_entry(revision, frame)` is told of the places that this store's own commits got; `on_judged(sent_at)` of
    each that was read in the log, before which nothing is left to read; `on_failure` of what makes appending impossible
    for good."""

    def __init__(
        self,
        port: Port,
        layout: Layout,
        new_writer: Callable[[], int],
        clock: Callable[[], float],
        on_entry: Callable[[Revision, bytes], None],
        on_judged: Callable[[float], None],
        on_failure: Callable[[StoreError], None],
    ) -> None:
        self._port = port
        self._layout = layout
        self._new_writer = new_writer
        self._clock = clock
        self._on_entry, self._on_judged = on_entry, on_judged
        self._on_failure = on_failure
        self._writer = new_writer()
        self._next_number = 1
        self._generation = 0
        self._open: dict[int, _Append] = {}
        self._window = OUTCOMES_KEPT
        self._read_up_to = 0
        self._encoding = asyncio.Lock()
        self.last_heard = 0.0

    @property
    def writer(self) -> int:
        return self._writer

    @property
    def is_idle(self) -> bool:
        return not self._open

    async def append(self, operations: Sequence[Operation]) -> asyncio.Future[Outcome]:
        """Encodes and sends; the future is the outcome. Raises InvalidOperationError."""
        async with self._encoding:
            commit = Commit(self._writer, self._next_number, operations)
            begun = begin(encoding(commit))
            frame = begun if isinstance(begun, bytes) else await begun
            if commit.writer != self._writer:  # forgotten by the cluster while we encoded: it has another name now
                commit = Commit(self._writer, self._next_number, operations)
                begun = begin(encoding(commit))
                frame = begun if isinstance(begun, bytes) else await begun
            self._next_number += 1
            append = _Append(commit, frame, asyncio.get_running_loop().create_future())
            self._open[commit.number] = append
        self._send_what_may_go()
        return append.done

    def judged(self, outcome: Outcome) -> None:
        """A commit of this writer stands in the log with this outcome."""
        append = self._open.pop(outcome.number, None)
        if append is None:
            return
        if append.first_sent_at is not None:
            self._on_judged(append.first_sent_at)
        if not append.done.done():
            append.done.set_result(outcome)
        self._window = min(2 * self._window, OUTCOMES_KEPT)
        self._send_what_may_go()

    def passed(self, revision: Revision) -> None:
        """The log is read up to here. A commit that stands at or before this place, and yet has no outcome, came before
        one that was lost on the way."""
        self._read_up_to = revision
        again = [append for append in self._open.values() if append.place is not None and append.place <= revision]
        for append in again:
            append.place, append.sent = None, False
        if again:
            self._send_what_may_go()

    def resume(self, generation: int) -> None:
        """There is a connection again: what was under way on the last one may never have arrived. What has a place in
        the log needs only be read."""
        self._generation = max(self._generation, generation)
        self._window = 1
        for append in self._open.values():
            append.sent = append.place is not None
        self._send_what_may_go()

    def reconcile(self, history: History) -> None:
        """The history has gone on by other means than reading every place: by a snapshot, or because this writer was
        silent for so long that it is forgotten."""
        writer = history.writers.get(self._writer)
        if writer is not None:
            for outcome in tuple(writer.outcomes):
                self.judged(outcome)
        judged = writer.last if writer is not None else self._next_number if self._is_forgotten(history) else 0
        for number in [number for number in self._open if number <= judged]:
            lost = self._open.pop(number)
            if not lost.done.done():
                lost.done.set_exception(OutcomeUnknownError("the log was cut before the outcome of a commit was read"))
                lost.done.exception()
        if self._is_forgotten(history):
            self._writer = self._new_writer()
            self._next_number = 1
        self.passed(history.revision)

    def reconcile_if_forgotten(self, history: History) -> None:
        if self._is_forgotten(history):
            self.reconcile(history)

    async def finish(self, seconds: float) -> None:
        """Waits for what is under way, not for ever."""
        under_way = [append.done for append in self._open.values()]
        if under_way:
            await asyncio.wait(under_way, timeout=seconds)

    def _is_forgotten(self, history: History) -> bool:
        return self._writer not in history.writers and min(self._open, default=self._next_number) > 1

    def fail(self, error: StoreError) -> None:
        for append in self._open.values():
            if not append.done.done():
                append.done.set_exception(error)
                append.done.exception()  # its caller may be gone
        self._open.clear()

    def _send_what_may_go(self) -> None:
        if self._port.state is not SessionState.CONNECTED:
            return
        for count, append in enumerate(self._open.values()):
            if count >= self._window:
                break
            if not append.sent:
                append.sent = True
                self._send(append)

    def _send(self, append: _Append) -> None:
        generation, sent_at = self._generation, self._clock()
        if append.first_sent_at is None:
            append.first_sent_at = sent_at
        answer = self._port.create(self._layout.new_entry(generation), append.frame, sequence=True)
        answer.add_done_callback(lambda answer: self._answered(append, generation, sent_at, answer))

    def _answered(self, append: _Append, generation: int, sent_at: float, answer: asyncio.Future[str]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self.last_heard = max(self.last_heard, sent_at)
            revision = self._layout.revision_of(generation, answer.result())
            if revision is not None:
                append.place = revision
                self._on_entry(revision, append.frame)
                self.passed(self._read_up_to)
            elif generation == self._generation:  # this one is full: all of its places are taken
                self.resume(generation + 1)
        elif isinstance(error, NoNodeError):
            self._make_generation(generation)
        elif not isinstance(error, ConnectionLostError):
            self._on_failure(StoreError(f"ZooKeeper refuses commits: {error}"))

    def _make_generation(self, generation: int) -> None:
        def made(answer: asyncio.Future[str]) -> None:
            error = None if answer.cancelled() else answer.exception()
            if error is None or isinstance(error, NodeExistsError):
                self.resume(generation)
            elif not isinstance(error, ConnectionLostError):
                reason = f"{self._layout.log} is gone" if isinstance(error, NoNodeError) else str(error)
                self._on_failure(StoreError(f"ZooKeeper refuses commits: {reason}"))

        self._port.create(self._layout.generation(generation), b"").add_done_callback(made)


async def ensure(port: Port, paths: Sequence[str]) -> None:
    """Makes the nodes that are missing. Raises PortError."""
    for path in paths:
        try:
            await port.create(path, b"")
        except NodeExistsError:
            continue
        except PortError:
            if await port.get(path) is None:  # a chroot may be read-only for us, and yet be there
                raise
