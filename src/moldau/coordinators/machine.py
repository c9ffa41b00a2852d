"""What a coordinator's state machine gives and gets; the runtime does the rest.

A machine holds the state of one partition of an internal topic. An operation `(machine, now) -> Write` may look at
the state and change what is not durable (sessions, waiting members); what is durable changes only by `replay`, which
the runtime calls with each record when it is appended, and which loading calls with all of them. Answers, and reads
that expose state, are given when the records are committed. If an append fails the machine is thrown away and loaded
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.types.errors import KafkaError

T = TypeVar("T")


class StateRecord(NamedTuple):
    """A record of an internal topic; no value is a tombstone."""

    key: bytes
    value: bytes | None


class ProducerStamp(NamedTuple):
    """Who writes a transactional batch: offsets that count only when the transaction is committed."""

    producer_id: int
    producer_epoch: int


class RecordContext(NamedTuple):
    """Where a replayed record stands."""

    offset: int
    timestamp: int
    producer: ProducerStamp | None


NOT_IN_THE_LOG_YET = -1


class Told(Protocol):
    """Who waits for an outcome, and hears one of the two, once: a Deferred, or something smaller."""

    def succeed(self, value: Any, /) -> None: ...

    def fail(self, error: KafkaError, /) -> None: ...


class Reply(NamedTuple):
    """The outcome of a request that waited, decided by a later operation."""

    deferred: Told
    value: Any


@dataclass(slots=True)
class Write(Generic[T]):
    answer: T | Deferred[T] | KafkaError
    """An error fails the request, but only once the records are committed: something had to be done first."""
    records: Sequence[StateRecord] = ()
    replies: Sequence[Reply] = ()
    """Earlier requests that are answered by this operation, once its records are committed."""
    producer: ProducerStamp | None = None
    then: Callable[[], None] | None = None
    """What follows when the records are committed, behind the answers."""
    effect: Callable[[], None] | None = None
    """Does to the state at once what replaying these records would do: where there may be a thousand of a kind."""


class Timers(Protocol):
    """Deadlines of a machine, by name; monotonic seconds. A timer that is set again moves; it fires once."""

    def set(self, name: object, deadline: float, operation: Callable[[float], Write[None]]) -> None: ...

    def cancel(self, name: object) -> None: ...


class Machine(Protocol):
    def replay(self, record: StateRecord, context: RecordContext) -> None:
        """Applies one record, when it is appended or when it is read back."""

    def replay_plain(self, key: bytes, value: bytes | None) -> bool:
        """Asked first while a log is read: applies a record outside of transactions, if it is of the kind that there
        may be millions of. False: nothing was done, it is for `replay`."""

    def replay_end_of_transaction(self, producer: ProducerStamp, committed: bool) -> None:
        """A transaction marker: records of this producer that were pending count now, or never."""

    def loaded(self, now: float) -> None:
        """All records are replayed: time-outs may be armed."""

    def unloaded(self) -> None:
        """Another broker takes over, or the state is loaded anew: whoever waits is told NOT_COORDINATOR."""
