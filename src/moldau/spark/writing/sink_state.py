"""The sink's state, changed by one process at a time, and the taking over of a sink by a new run.

A change is a compare-and-set made of Kafka's own fencing: InitProducerId of the sink's transactional id, read, commit
the new value in a transaction of that id. Whoever calls InitProducerId in between makes that commit fail, and the
change is tried again on what is there then. Who was disturbed pauses for a random time first, longer each time: the
tasks of a new run begin together, and in step they would disturb each other for ever.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, Fenced
from moldau.client.transactions import Transactions
from moldau.spark.writing import decisions
from moldau.spark.writing.errors import TakenOver
from moldau.spark.writing.identity import MARKER_TOPIC, STATE_PARTITION, Attempt, SinkIdentity, marker_partition
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.markers import SinkState, TaskMarker, taker_name
from moldau.types.errors import ErrorCode, KafkaError

T = TypeVar("T")

Change = Callable[[SinkState | None], tuple[SinkState, Mapping[int, TaskMarker]] | None]
"""From the present state to the next one, with markers to be committed anew; None if nothing has to change."""

CHANGE_ATTEMPTS: Final = 50
CHANGE_SECONDS: Final = 0.5
"""What a change takes if its process lives, as far as one knows at first; who is disturbed in it tries again."""
FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.5
NO_MARKERS: Final[Mapping[int, TaskMarker]] = {}


class SinkRegister:
    def __init__(
        self,
        cluster: Cluster,
        identity: SinkIdentity,
        store: MarkerStore,
        transaction_ms: int,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
        fraction: Callable[[], float] = random.random,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._store = store
        self._transaction_ms = transaction_ms
        self._monotonic = monotonic
        self._sleep = sleep
        self._fraction = fraction
        self._unique = str(new_uuid())
        self._change_seconds = CHANGE_SECONDS

    def change(self, change: Change) -> SinkState | None:
        """Gives the state after the change."""
        self._store.make_room(0)
        for number in range(CHANGE_ATTEMPTS):
            transactions = self._transactions(self._identity.state_transactional_id)
            transactions.start()
            state = self._store.state()
            wanted = change(state)
            if wanted is None:
                return state
            try:
                self._commit(transactions, *wanted)
                return wanted[0]
            except Fenced:  # somebody else changes it too
                self._sleep(self._fraction() * min(FIRST_PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS))
        raise Fenced(f"the state of {self._identity.group!r} could not be changed in {CHANGE_ATTEMPTS} attempts")

    def _commit(self, transactions: Transactions, state: SinkState, markers: Mapping[int, TaskMarker]) -> None:
        metadata = {STATE_PARTITION: (max(state.batch, 0), state.to_metadata())}
        for task, marker in markers.items():
            metadata[marker_partition(task)] = (marker.batch, marker.to_metadata())
        transactions.commit_offsets(self._identity.group, MARKER_TOPIC, metadata)
        transactions.end(commit=True)

    def _transactions(self, transactional_id: str) -> Transactions:
        return Transactions(self._cluster, transactional_id, self._transaction_ms, self._monotonic)

    # -- looking ---------------------------------------------------------------------------------------------------

    def look(self, task: int, *, end_task: bool) -> tuple[SinkState | None, TaskMarker | None]:
        """The state and a task's marker. `end_task`: what an earlier attempt at the task left open is ended if it is
        in the way; an attempt with rows has done that already."""
        ids = [self._identity.state_transactional_id]
        if end_task:
            ids.append(self._identity.transactional_id(task))
        return self._stable(lambda seconds: self._store.look(task, seconds), ids)

    def state(self) -> SinkState | None:
        return self._stable(self._store.state, [self._identity.state_transactional_id])

    def _stable(self, read: Callable[[float | None], T], ids: Iterable[str]) -> T:
        """A process that died in the middle of a change left its transaction open: after a moment somebody has to end
        it, or everyone would wait for its time-out. Next time it gets twice as long: it may only be far from its
        broker, and would not get through if everyone always lost patience with it."""
        try:
            return read(self._change_seconds)
        except (ClientError, KafkaError) as error:
            if not isinstance(error, KafkaError) or error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                return read(None)
        self._change_seconds *= 2
        for transactional_id in ids:
            self._transactions(transactional_id).start()
        return read(None)

    # -- changes ---------------------------------------------------------------------------------------------------

    def take_over(self, attempt: Attempt, seen: SinkState | None) -> None:
        """Makes the attempt's run the one that writes, in three steps, each safe to repeat. Of tasks that begin
        together one does them all: whoever puts its name into the state as they have `seen` it.

        1. The state names this run. An attempt of a former run that looks from now on refuses to write.
        2. Every id that a former run may use is fenced. One that looked before cannot commit from now on.
        3. What former runs committed is final now. If it is a part of this batch, the state says so, and those markers
           are committed anew, lest they expire before the state does.
        """
        taker = taker_name(attempt.task, self._unique)

        def claim(state: SinkState | None) -> tuple[SinkState, Mapping[int, TaskMarker]] | None:
            if not decisions.is_same_claim(seen, state):
                return None  # by somebody else, or by us: the answer to a commit may be lost
            return decisions.claimed(state, attempt, taker), NO_MARKERS

        claimed = self.change(claim)
        if claimed is None or claimed.open or claimed.taker != taker:
            return
        self._store.make_room(claimed.tasks - 1)
        for task in range(claimed.tasks):
            self._transactions(self._identity.transactional_id(task)).start()
        markers = self._store.markers(range(claimed.tasks))
        kept = {task: marker for task, marker in markers.items() if marker.batch == attempt.batch}

        def open_it(state: SinkState | None) -> tuple[SinkState, Mapping[int, TaskMarker]] | None:
            if state is None or state.taker != taker:
                return None  # others have lost patience with us, and one of them does it now
            return decisions.opened(state, attempt, markers), kept

        self.change(open_it)

    def make_room(self, task: int) -> None:
        """More tasks than before: their ids will have to be fenced by whoever takes over."""
        self._store.make_room(task)

        def widen(state: SinkState | None) -> tuple[SinkState, Mapping[int, TaskMarker]] | None:
            return None if state is None or task < state.tasks else (decisions.with_room(state, task), NO_MARKERS)

        self.change(widen)

    def finish(self, attempt: Attempt) -> None:
        """The driver's word that the batch is written."""

        def finish(state: SinkState | None) -> tuple[SinkState, Mapping[int, TaskMarker]] | None:
            if state is None or state.run != attempt.run:
                raise TakenOver(self._identity.group, "unknown" if state is None else state.run)
            return None if state.batch >= attempt.batch else (decisions.finished(state, attempt), NO_MARKERS)

        self.change(finish)
