"""The runtime under both coordinators: one shard per led partition of the internal topic.

Order of events of a write: the operation decides → the log takes its records, or refuses them → they are replayed into
the state, so that the next request sees them → once they are committed, the answer and the replies go out. Records that
are refused fail their requests and leave the state as it was. Lost leadership and a failed append throw the shard's
state away; whoever waits is told NOT_COORDINATOR, and the state is loaded anew if we still lead. Late events of an
older life of a shard are dropped: each life has its own Shard object.

Pure: the log, the clock and the timers are passed in; waiting is a Deferred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.machine import (
    NOT_IN_THE_LOG_YET,
    Machine,
    ProducerStamp,
    RecordContext,
    Reply,
    StateRecord,
    Timers,
    Told,
    Write,
)
from moldau.types.errors import ErrorCode, KafkaError

M = TypeVar("M", bound=Machine)
T = TypeVar("T")


class Appended(Protocol):
    """Told once: what became of an append."""

    def __call__(self, error: KafkaError | None) -> None: ...


class ShardLog(Protocol):
    """The partition of the internal topic behind a shard."""

    def append(self, records: Sequence[StateRecord], producer: ProducerStamp | None, done: Appended) -> None:
        """Takes all records in one batch. `done` is called later, never from here, in the order of appends, when they
        are committed or lost. Raises KafkaError if they are refused: too large, too few replicas, a fenced producer,
        not our partition any more.
        """

    def append_packed(self, batch: bytearray, count: int, done: Appended) -> None:
        """The same with so many records that stand in a batch of nobody's, not compressed, already."""


class Shard(Generic[M]):
    """One life of a shard, from election to resignation."""

    def __init__(self, partition: int, epoch: int, machine: M, log: ShardLog, timers: ShardTimers[M]) -> None:
        self.partition = partition
        self.epoch = epoch
        self.machine = machine
        self.log = log
        self.timers = timers
        self.is_loaded = False
        self.is_over = False
        #: Answers in the order of the writes they wait for: a read is answered behind the writes it has seen.
        self.waiting: deque[PendingAnswer] = deque()


class PendingAnswer:
    __slots__ = ("is_committed", "replies", "then")

    def __init__(self, replies: Sequence[Reply], then: Callable[[], None] | None) -> None:
        self.replies = replies
        self.then = then
        self.is_committed = False

    def fail(self, error: KafkaError) -> None:
        replies, self.replies = self.replies, ()
        for reply in replies:
            reply.deferred.fail(error)


class ShardTimers(Generic[M]):
    """A machine's timers, run through the runtime so that what they write is appended like any request's records."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._names: set[object] = set()
        self.run: Callable[[Callable[[float], Write[None]]], None] = lambda _: None

    def set(self, name: object, deadline: float, operation: Callable[[float], Write[None]]) -> None:
        self._names.add(name)

        def fire(now: float) -> Write[None]:
            self._names.discard(name)
            self.run(operation)
            return Write(None)

        self._timers.set((id(self), name), deadline, fire)

    def cancel(self, name: object) -> None:
        if name in self._names:
            self._names.discard(name)
            self._timers.cancel((id(self), name))

    def cancel_all(self) -> None:
        for name in tuple(self._names):
            self.cancel(name)


class CoordinatorRuntime(Generic[M]):
    def __init__(
        self,
        new_machine: Callable[[int, Timers], M],
        timers: Timers,
        monotonic: Callable[[], float],
        lost: Callable[[int], None],
    ) -> None:
        """`lost(partition)` is told that a shard's state was thrown away although we still lead: it must be loaded
        anew.
        """
        self._new_machine = new_machine
        self._timers = timers
        self._monotonic = monotonic
        self._lost = lost
        self._shards: dict[int, Shard[M]] = {}

    # --- lives of shards ---

    def begin(self, partition: int, epoch: int, log: ShardLog) -> Shard[M]:
        """This broker leads the partition: until `loaded`, requests are answered COORDINATOR_LOAD_IN_PROGRESS."""
        self.end(partition)
        timers: ShardTimers[M] = ShardTimers(self._timers)
        shard = Shard(partition, epoch, self._new_machine(partition, timers), log, timers)
        timers.run = lambda operation: self._run_timer(shard, operation)
        self._shards[partition] = shard
        return shard

    def replay(self, shard: Shard[M], records: Sequence[tuple[StateRecord, RecordContext]]) -> None:
        for record, context in records:
            shard.machine.replay(record, context)

    def loaded(self, shard: Shard[M]) -> None:
        if not shard.is_over:
            shard.is_loaded = True
            shard.machine.loaded(self._monotonic())

    def end(self, partition: int) -> None:
        """The leadership is gone, or the state cannot be trusted any more."""
        shard = self._shards.pop(partition, None)
        if shard is None:
            return
        shard.is_over = True
        shard.timers.cancel_all()
        shard.machine.unloaded()
        waiting, shard.waiting = shard.waiting, deque()
        for pending in waiting:
            pending.fail(KafkaError(ErrorCode.NOT_COORDINATOR))

    def end_transaction(self, partition: int, producer: ProducerStamp, committed: bool) -> None:
        """A marker was committed in the shard's partition. A shard that still loads finds it in the log."""
        shard = self._shards.get(partition)
        if shard is not None and shard.is_loaded:
            shard.machine.replay_end_of_transaction(producer, committed)

    def shard(self, partition: int) -> Shard[M] | None:
        return self._shards.get(partition)

    def shards(self) -> list[Shard[M]]:
        return [shard for shard in self._shards.values() if shard.is_loaded]

    def loading_shards(self) -> list[Shard[M]]:
        return [shard for shard in self._shards.values() if not shard.is_loaded]

    def is_loading(self) -> bool:
        return bool(self.loading_shards())

    # --- requests ---

    def write(self, partition: int, operation: Callable[[M, float], Write[T]]) -> Deferred[T]:
        """Runs the operation now; the answer comes when what it wrote is committed. Raises KafkaError as the operation
        does, or NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self._active(partition)
        return self._perform(shard, operation(shard.machine, self._monotonic()))

    def write_packed(
        self,
        partition: int,
        operation: Callable[[M, float], Callable[[], None]],
        batch: bytearray,
        count: int,
        told: Told,
    ) -> None:
        """As `write`, where the records stand in a batch already: the operation gives what replaying them would do to
        the state. Whatever is raised, nothing was done then; `told` hears the rest, a refused append at once."""
        shard = self._active(partition)
        effect = operation(shard.machine, self._monotonic())
        pending = PendingAnswer((Reply(told, None),), None)
        try:
            shard.log.append_packed(batch, count, lambda error: self._appended(shard, pending, error))
        except KafkaError as error:
            pending.fail(as_coordinator_error(error))
            return
        shard.waiting.append(pending)
        self._take_over(shard, effect)

    def read(self, partition: int, operation: Callable[[M, float], T]) -> Deferred[T]:
        """Looks at the state now; the answer waits for the writes that it may have seen."""
        return self.write(partition, lambda machine, now: Write(operation(machine, now)))

    def _active(self, partition: int) -> Shard[M]:
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not shard.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def _run_timer(self, shard: Shard[M], operation: Callable[[float], Write[None]]) -> None:
        """A timer fires once: if its records are refused, only loading the state anew arms it again."""
        if shard.is_over:
            return

        def done(_: None, error: KafkaError | None) -> None:
            if error is not None and not shard.is_over:
                self._discard(shard)

        self._perform(shard, operation(self._monotonic())).when_done(done)

    def _perform(self, shard: Shard[M], write: Write[T]) -> Deferred[T]:
        answer: Deferred[T]
        replies = list(write.replies)
        if isinstance(write.answer, Deferred):
            answer = write.answer
        else:
            answer = Deferred()
            replies.append(Reply(answer, write.answer))
        pending = PendingAnswer(replies, write.then)
        if not write.records:
            pending.is_committed = True
            shard.waiting.append(pending)
            self._answer(shard)
            return answer
        try:
            shard.log.append(write.records, write.producer, lambda error: self._appended(shard, pending, error))
        except KafkaError as error:
            pending.fail(as_coordinator_error(error))
            return answer
        shard.waiting.append(pending)
        self._take_over(shard, write.effect or partial(replay, shard.machine, write))
        return answer

    def _take_over(self, shard: Shard[M], effect: Callable[[], None]) -> None:
        try:
            effect()
        except BaseException:
            # Nobody knows how much of it has been done.
            self._discard(shard)
            raise

    def _appended(self, shard: Shard[Any], pending: PendingAnswer, error: KafkaError | None) -> None:
        if shard.is_over:
            return
        if error is None:
            pending.is_committed = True
            self._answer(shard)
            return
        pending.fail(as_coordinator_error(error))
        self._discard(shard)

    def _discard(self, shard: Shard[Any]) -> None:
        """What was replayed may not be in the log."""
        if not shard.is_over:
            self.end(shard.partition)
            self._lost(shard.partition)

    def _answer(self, shard: Shard[Any]) -> None:
        while shard.waiting and shard.waiting[0].is_committed:
            pending = shard.waiting.popleft()
            for reply in pending.replies:
                if isinstance(reply.value, KafkaError):
                    reply.deferred.fail(reply.value)
                else:
                    reply.deferred.succeed(reply.value)
            if pending.then is not None:
                pending.then()


def replay(machine: Machine, write: Write[Any]) -> None:
    context = RecordContext(NOT_IN_THE_LOG_YET, NOT_IN_THE_LOG_YET, write.producer)
    for record in write.records:
        machine.replay(record, context)


def as_coordinator_error(error: KafkaError) -> KafkaError:
    """What the log says, as clients of a coordinator expect to hear it."""
    known = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    return KafkaError(known.get(error.code, error.code), error.message)
