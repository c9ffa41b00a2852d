"""What a worker and Spark do with a source, in one thread and without either, dying at random steps.

One object looks how far it can be read (`latest`), another reads each batch as its task (`read`), a third is told what
is committed (`committed`). What is committed, records and positions, is all that outlives a death. What is read changes
meanwhile, at any step.
"""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from typing import Any, Final

import pyarrow as pa

from moldau.connect.interface import Position, SourceConnector, SourceRecord, Stream, StreamsChanged
from moldau.connect.worker.positions import canonical
from tests.support.deaths import DEATHS, Deaths, Died, what_is_there_set_aside
from tests.support.waiting import wait_until

CHANGES: Final = 0.3
TELLS: Final = 0.4
AHEAD: Final = 3
"""So many changes come before a batch is committed: who reads keeps up."""
SECONDS: Final = 120.0
START, LOOK, READ, COMMIT, COMMITTED, TELL = "start", "look", "read", "commit", "committed", "tell"
PHASES: Final = (START, LOOK, READ, COMMIT, COMMITTED, TELL)

Batch = tuple[Stream, Position | None, Position]


class DyingWorker:
    def __init__(
        self,
        make: Callable[[], SourceConnector],
        change: Callable[[], object],
        most: int,
        seed: int = 1,
        failures: tuple[type[Exception], ...] = (),
    ) -> None:
        """`make` a connector as in a new process; `change` what it reads; `most` steps are survived of the phase
        that it is the turn of; `failures` of a source end its queries, which are started again."""
        self._deaths = Deaths(most, seed)
        self._turns = cycle(PHASES)
        self._turn = START
        self.records: dict[str, list[SourceRecord]] = {}
        """What is committed, by topic."""
        self.positions: dict[str, Position] = {}
        self.died = 0
        self._make = make
        self._change = change
        self._failures = (StreamsChanged, *failures)
        self._chance = random.Random(seed)
        self._told: dict[str, Position] = {}
        self._phase = START
        self._is_changing = False
        self._ahead = 0
        self._looking: SourceConnector | None = None
        self._telling: SourceConnector | None = None
        self._streams: list[Stream] = []

    def survive(self, deaths: int = DEATHS) -> None:
        self._live_on()
        with what_is_there_set_aside():
            while self.died < deaths:
                self._live()
        self._deaths.spare()

    def finish(self, is_done: Callable[[], bool] = lambda: True) -> None:
        """Reads all that is there; nothing changes any more."""
        self._change = lambda: None
        wait_until(lambda: self._finished() and is_done(), "everything is read", SECONDS, 0)

    def values(self, topic: str) -> list[Any]:
        return [record.value for record in self.records.get(topic, ())]

    def around(self, call: Callable[..., Any], *, changing: bool = True) -> Callable[..., Any]:
        """For what a source does within a step."""

        def dying(*given: Any, **named: Any) -> Any:
            self._step(self._phase, changing)
            answer = call(*given, **named)
            self._step(self._phase, changing)
            return answer

        return dying

    # -- a life ------------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._start()
            while self._turn != START:
                self._round()
        except Died:
            self._die()
        except self._failures:
            pass
        finally:
            self._let_go()

    def _finished(self) -> bool:
        try:
            self._start()
            while self._round():
                pass
            self._tell()
            return True
        except self._failures:
            return False
        finally:
            self._let_go()

    def _die(self) -> None:
        self.died += 1
        self._live_on()

    def _live_on(self) -> None:
        self._turn = next(self._turns)
        self._deaths.live()

    def _let_go(self) -> None:
        """Of files and connections, as a kill does."""
        for source in (self._looking, self._telling):
            if source is not None:
                source.close()
        self._looking = self._telling = None
        gc.collect()

    def _step(self, phase: str, changing: bool = True) -> None:
        if self._is_changing:
            return  # what changes is another's doing
        self._phase = phase
        if changing and self._ahead < AHEAD and self._chance.random() < CHANGES:
            self._ahead += 1
            self._is_changing = True
            self._change()
            self._is_changing = False
        if phase == self._turn:
            self._deaths.step()

    def _start(self) -> None:
        self._step(START)
        self._looking = self._make()
        self._streams = list(self._looking.streams())

    def _round(self) -> bool:
        """Whether there was something new."""
        batches = self._looked()
        for stream, begin, end in batches:
            self._commit(stream, self._task(stream, begin, end), end)
        if self._chance.random() < TELLS:
            self._tell()
        return bool(batches)

    def _looked(self) -> list[Batch]:
        self._step(LOOK)
        assert self._looking is not None
        found: list[Batch] = []
        for stream in self._streams:
            begin = self.positions.get(canonical(stream.partition))
            end = copied(self._looking.latest(stream, copied(begin)))
            if end is not None and end != begin:
                found.append((stream, begin, end))
        self._ahead = max(0, self._ahead - 1) if found else 0
        self._chance.shuffle(found)  # tasks run side by side
        return found

    def _task(self, stream: Stream, begin: Position | None, end: Position) -> list[SourceRecord]:
        """It may die alone: then another reads the same."""
        while True:
            self._step(READ)
            try:
                return self._read(stream, begin, end)
            except Died:
                if self._chance.random() < 0.5:
                    raise
                self._die()

    def _read(self, stream: Stream, begin: Position | None, end: Position) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        with ExitStack() as stack:
            source = self._make()
            stack.callback(source.close)
            given = source.read(stream, copied(begin), json.loads(json.dumps(end)))
            stack.callback(getattr(given, "close", lambda: None))
            for each in given:
                self._step(READ, changing=False)
                found += records_of(each)
        return found

    def _commit(self, stream: Stream, records: list[SourceRecord], end: Position) -> None:
        """In one transaction."""
        self._step(COMMIT)
        self.records.setdefault(stream.topic, []).extend(records)
        self.positions[canonical(stream.partition)] = end
        self._step(COMMITTED)

    def _tell(self) -> None:
        """What was committed now, or some time ago."""
        if self._chance.random() < 0.5:
            self._told = dict(self.positions)
        self._step(TELL)
        if self._telling is None:
            self._telling = self._make()
        self._telling.committed(
            [(stream, copied(self._told.get(canonical(stream.partition)))) for stream in self._streams]
        )


def copied(position: Position | None) -> Position | None:
    """As it comes back from a topic, or from Spark."""
    found: Position | None = json.loads(json.dumps(position))
    return found


def records_of(given: Any) -> Iterator[SourceRecord]:
    if not isinstance(given, pa.RecordBatch):
        assert isinstance(given, SourceRecord), given
        yield given
        return
    for row in given.to_pylist():
        yield SourceRecord(row["value"], row.get("key"), partition=row.get("partition"))
