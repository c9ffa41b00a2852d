"""What an executor does for one task: encode the rows, decide, write, mark, commit.

Encoded batches are staged. The transaction begins when the input has ended or the stage is full, so that a slow input
holds nobody up. What an attempt finds in the cluster decides what it does (`decisions`).
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.client.cluster import check
from moldau.client.errors import ClientError, ConnectionLost, Fenced
from moldau.client.transactions import (
    OpenTransaction,
    ProducerId,
    Transactions,
    end_transaction,
)
from moldau.config.retention import OLD_MS
from moldau.kernels import murmur2
from moldau.spark.writing.decisions import Step, TaskResult, compare, next_step, refuse_stale
from moldau.spark.writing.encoder import Compression, RowEncoder, SealedBatch, Topics
from moldau.spark.writing.errors import RowRefused, SinkError
from moldau.spark.writing.identity import MARKER_TOPIC, Attempt, SinkIdentity, marker_partition
from moldau.spark.writing.links import Links
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.markers import TaskMarker
from moldau.spark.writing.options import WriteOptions
from moldau.spark.writing.producing import NO_PRODUCER, Producer, ProduceSettings
from moldau.spark.writing.retention import warn_of_retention
from moldau.spark.writing.rows import Layout, read_rows
from moldau.spark.writing.sink_state import SinkRegister
from moldau.types.errors import KafkaError
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    import pyarrow as pa

TAKE_OVER_SECONDS: Final = 30.0
"""How long tasks wait for the one that takes the sink over; then one of them does it. Only a taker that hangs lets
them wait for so long: where one dies, the next attempt at its task goes on at once."""
OTHER_ATTEMPT_SECONDS: Final = 10.0
"""How long an attempt that was fenced waits for the marker of the other one."""
LOOK_AGAIN_SECONDS: Final = 0.05

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clock:
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    result: TaskResult
    prepared: OpenTransaction | None = None
    skipped: bool = False
    """An earlier attempt had committed these rows."""
    sent_bytes: int = 0


class RowWriter(ABC):
    """Encodes the rows of one task; a subclass says what happens to the batches."""

    def __init__(self, options: WriteOptions, layout: Layout, links: Links, attempt: Attempt, clock: Clock) -> None:
        self.options = options
        self.links = links
        self.attempt = attempt
        self.clock = clock
        self._layout = layout
        self._topics = Topics()
        self.encoder = RowEncoder(
            self._topics, options.batch_bytes, Compression(options.codec, options.level), options.largest_request
        )
        self.producing = ProduceSettings(
            acks=options.acks,
            timeout_ms=round(options.client.request_seconds * 1000),
            patience_seconds=options.client.total_seconds,
            request_bytes=options.request_bytes,
            largest_request=options.largest_request,
        )

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskOutcome:
        try:
            for batch in batches:
                if batch.num_rows:
                    self._take(batch)
            for sealed in self.encoder.finish():
                self._look_at_times(sealed)
                self.accept(sealed)
            return self.finish()
        except ConnectionLost as error:
            raise self.links.nobody_answers(error) from error
        except (ClientError, KafkaError) as error:
            raise SinkError(str(error)) from error

    def _take(self, batch: pa.RecordBatch) -> None:
        rows = read_rows(batch, self._layout, self._topic_index)
        self.encoder.note(rows)
        if not self.wants_batches:
            return
        try:
            full = list(self.encoder.encode(rows, round(self.clock.wall() * 1000)))
        except ValueError as error:
            column = "partition" if "partition" in str(error) else "headers"
            raise RowRefused(f"column {column!r}: {error}") from error
        for sealed in full:
            self._look_at_times(sealed)
            self.accept(sealed)

    def _look_at_times(self, sealed: SealedBatch) -> None:
        topic, age_ms = sealed.target.topic, round(self.clock.wall() * 1000) - sealed.max_timestamp
        if age_ms > OLD_MS and topic not in self.links.seen_old_rows:
            self.links.seen_old_rows.add(topic)
            warn_of_retention(self.links.cluster, topic, age_ms)

    def _topic_index(self, topic: str) -> int:
        known = self._topics.index(topic)
        if known is not None:
            return known
        count = self.links.partition_count(topic, self.options.new_topics)
        start = murmur2(f"{self.attempt.batch}/{self.attempt.task}".encode()) % count
        return self._topics.add(topic, count, start)

    @property
    def wants_batches(self) -> bool:
        return True

    @abstractmethod
    def accept(self, sealed: SealedBatch) -> None: ...

    @abstractmethod
    def finish(self) -> TaskOutcome: ...

    def result(self, prepared: bool = False) -> TaskResult:
        return TaskResult(self.attempt.task, self.encoder.rows, self.encoder.digest, prepared)


class PlainWriter(RowWriter):
    """At least once: an idempotent producer without transactions; with acks 0 or 1 not even that."""

    _producer: Producer | None = None

    def accept(self, sealed: SealedBatch) -> None:
        if self._producer is None:
            producer = NO_PRODUCER if self.options.acks >= 0 else self._new_producer_id()
            self._producer = Producer(
                self.links, self.producing, producer, None, self.clock.monotonic, self.clock.sleep
            )
        self._producer.send(sealed)

    def _new_producer_id(self) -> ProducerId:
        cluster = self.links.cluster
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self.options.transaction_ms)
        answer = cluster.retrying(lambda: checked_init(cluster.any(request, InitProducerIdResponse)))
        return ProducerId(answer.producer_id, answer.producer_epoch)

    def finish(self) -> TaskOutcome:
        sent = 0
        if self._producer is not None:
            self._producer.flush()
            sent = self._producer.sent_bytes
        return TaskOutcome(self.result(), sent_bytes=sent)


class ExactWriter(RowWriter):
    """Exactly once: one transaction with the rows and their marker."""

    def __init__(
        self,
        options: WriteOptions,
        layout: Layout,
        links: Links,
        identity: SinkIdentity,
        attempt: Attempt,
        clock: Clock,
    ) -> None:
        super().__init__(options, layout, links, attempt, clock)
        self._identity = identity
        self._store = MarkerStore(links.cluster, identity.group)
        self._register = SinkRegister(
            links.cluster, identity, self._store, options.transaction_ms, clock.monotonic, clock.sleep
        )
        self._stage: deque[SealedBatch] = deque()
        self._staged_bytes = 0
        self._step: Step | None = None
        self._found: TaskMarker | None = None
        self._transactions = Transactions(
            links.cluster, identity.transactional_id(attempt.task), options.transaction_ms, clock.monotonic
        )
        self._producer: Producer | None = None
        self._ending = False
        """The commit was asked for: whatever comes now, it may be done."""

    @property
    def wants_batches(self) -> bool:
        return self._step is not Step.VERIFY

    def accept(self, sealed: SealedBatch) -> None:
        self._stage.append(sealed)
        self._staged_bytes += sealed.size
        if self._step is None and self._staged_bytes >= self.options.stage_bytes:
            self._open()
        if self._step is not None:
            self._drain()

    def _drain(self) -> None:
        while self._stage:
            sealed = self._stage.popleft()
            if self._producer is not None:
                self._producer.send(sealed)

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskOutcome:
        try:
            return super().run(batches)
        except Exception:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Leaves nothing open where that is still possible: readers with read_committed would wait for it."""
        if self._producer is None or self._ending:
            return
        try:
            self._producer.settle()
            end_transaction(self.links.cluster, self._transactions.hand_over(), commit=False)
        except (ClientError, KafkaError):
            log.info("the transaction of %s stays open until its next attempt", self._transactions.transactional_id)

    # -- what to do ------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Fences other attempts, looks, and acts until it is clear what this one does. Who takes the sink over fences
        the tasks of its own run too, so an attempt fences once more after it has seen that this is over."""
        place = (self._identity.group, self.attempt.run)
        taker, taker_seen_at = "", 0.0
        while True:
            producer = self._transactions.start()
            state, marker = self._register.look(self.attempt.task, end_task=False)
            step = next_step(self._identity, self.attempt, state, marker, self.options.starts_at_batch)
            if step is Step.WAIT and state is not None:
                if state.taker != taker:
                    taker, taker_seen_at = state.taker, self.clock.monotonic()
                if self.clock.monotonic() - taker_seen_at < TAKE_OVER_SECONDS:
                    self.clock.sleep(LOOK_AGAIN_SECONDS)
                else:
                    self._register.take_over(self.attempt, state)
            elif step is Step.TAKE_OVER:
                self._register.take_over(self.attempt, state)
            elif step is Step.MAKE_ROOM:
                self._register.make_room(self.attempt.task)
            elif self.links.settled_run == place:
                break
            else:
                self.links.settled_run = place
        self._step, self._found = step, marker
        if step is not Step.VERIFY:
            self._store.make_room(self.attempt.task)
            self._producer = Producer(
                self.links, self.producing, producer, self._transactions, self.clock.monotonic, self.clock.sleep
            )

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> TaskOutcome:
        if not self.encoder.rows:
            return self._finish_without_rows()
        if self._step is None:
            self._open()
        self._drain()
        if self._step is Step.VERIFY and self._found is not None:
            compare(self.attempt, self._found, self.encoder.rows, self.encoder.digest)
            return TaskOutcome(self.result(), skipped=True)
        try:
            return self._write()
        except Fenced:
            return self._after_another_attempt()

    def _finish_without_rows(self) -> TaskOutcome:
        """Opens nothing; but if an earlier attempt had rows, something is wrong."""
        state, marker = self._register.look(self.attempt.task, end_task=True)
        refuse_stale(self._identity, self.attempt, state, marker, self.options.starts_at_batch)
        if marker is not None and marker.batch == self.attempt.batch:
            compare(self.attempt, marker, 0, 0)
        return TaskOutcome(self.result())

    def _write(self) -> TaskOutcome:
        assert self._producer is not None
        self._producer.flush()
        marker = TaskMarker(
            self.attempt.batch, self.encoder.rows, self.encoder.digest, self.attempt.run, self.attempt.write
        )
        place = marker_partition(self.attempt.task)
        self._transactions.commit_offsets(
            self._identity.group, MARKER_TOPIC, {place: (marker.batch, marker.to_metadata())}
        )
        sent = self._producer.sent_bytes
        if self._step is Step.PREPARE:
            return TaskOutcome(self.result(prepared=True), self._transactions.hand_over(), sent_bytes=sent)
        self._ending = True
        try:
            self._transactions.end(commit=True)
        except (ClientError, KafkaError):
            self._settle_unknown_outcome()
        return TaskOutcome(self.result(), sent_bytes=sent)

    def _settle_unknown_outcome(self) -> None:
        """The answer to the commit did not come. InitProducerId ends what is still open; then the marker tells."""
        self._transactions.start()
        _, marker = self._register.look(self.attempt.task, end_task=False)
        if marker is None or marker.batch != self.attempt.batch or not self._is_mine(marker):
            raise SinkError(f"the transaction of {self._transactions.transactional_id!r} was not committed")

    def _after_another_attempt(self) -> TaskOutcome:
        """Two attempts at one task, as with speculation: if the other one commits the same rows, both have done it.
        Only the pauses between answers count: where no broker answers, the other one cannot commit either."""
        waited = 0.0
        while True:
            _, marker = self._register.look(self.attempt.task, end_task=False)
            if marker is not None and marker.batch == self.attempt.batch:
                compare(self.attempt, marker, self.encoder.rows, self.encoder.digest)
                return TaskOutcome(self.result(), skipped=True)
            if waited > OTHER_ATTEMPT_SECONDS:
                raise Fenced(
                    f"another attempt has taken over {self._transactions.transactional_id!r}; this one ends and the "
                    "other stands"
                )
            self.clock.sleep(LOOK_AGAIN_SECONDS)
            waited += LOOK_AGAIN_SECONDS

    def _is_mine(self, marker: TaskMarker) -> bool:
        return marker.holds(self.encoder.rows, self.encoder.digest)


def checked_init(answer: InitProducerIdResponse) -> InitProducerIdResponse:
    check(answer.error_code, "InitProducerId")
    return answer
