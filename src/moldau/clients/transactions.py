"""Transactions of a producer: begin, commit, abort, and which errors end what.

A commit or an abort that is not answered in time goes on: librdkafka takes the same call again, and no other one. An
abort is asked for again by whoever begins the next transaction. Of a commit only the application can say what to do,
since it may have succeeded.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from moldau.clients.delivery import Reports
from moldau.clients.errors import ClientError, KafkaFailure, SettingError, TransactionAborted, failure
from moldau.clients.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from moldau.clients.consumer import Consumer

SECONDS: Final = 60.0
ATTEMPTS: Final = 5
PAUSE_SECONDS: Final = 0.1
COMMIT: Final = "commit"
ABORT: Final = "abort"
CONFLICT: Final = "_CONFLICT"
"""Another call has not ended yet; it is no use to ask again."""
UNDECIDED: Final = (
    "the commit of the last transaction has not been answered, and may have succeeded: ask again with "
    "commit_transaction(), or close this producer; the next one with its transactional.id begins where that one ended"
)


class Transactions:
    def __init__(self, client: Any, reports: Reports, properties: Mapping[str, object]) -> None:
        self._client = client
        self._reports = reports
        self._id = properties.get("transactional.id")
        self._ready = False
        self._mark: tuple[int, int] | None = None
        self._unanswered = ""
        """The call that is still going on."""
        self._pause = threading.Event().wait

    def init(self, seconds: float) -> None:
        if not self._id:
            raise SettingError("transactional.id", "is missing; transactions need one that no other producer has")
        if not self._ready:
            self._retrying(lambda: self._client.init_transactions(seconds), "transactions cannot be used")
            self._ready = True

    def begin(self) -> None:
        self.init(SECONDS)
        if self._unanswered == ABORT:
            self.abort(SECONDS)
        if self._unanswered == COMMIT:
            raise ClientError(UNDECIDED)
        if self._mark is not None:
            raise ClientError("a transaction is open already: commit or abort it first")
        self._retrying(self._client.begin_transaction, "transaction not begun")
        self._mark = self._reports.mark()

    def commit(self, seconds: float) -> None:
        self._check_open()
        with self._ending(COMMIT):
            self._retrying(lambda: self._client.commit_transaction(seconds), "transaction not committed", aborts=True)
        self._mark = None

    def abort(self, seconds: float) -> None:
        """What was sent in the transaction and not delivered is no loss: nobody would ever have seen it."""
        self._check_open()
        with self._ending(ABORT):
            self._retrying(lambda: self._client.abort_transaction(seconds), "transaction not aborted")
        self._reports.serve(0)
        assert self._mark is not None
        self._reports.forget_since(self._mark)
        self._mark = None

    @contextlib.contextmanager
    def _ending(self, call: str) -> Iterator[None]:
        try:
            yield
        except KafkaFailure as error:
            if error.retriable and error.code != CONFLICT and self._mark is not None:
                self._unanswered = self._unanswered or call
            raise
        self._unanswered = ""

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group_metadata: object, seconds: float
    ) -> None:
        import confluent_kafka

        self._check_open()
        wanted = []
        for (topic, partition), given in offsets.items():
            offset, note = given if isinstance(given, OffsetAndMetadata) else (given, "")
            wanted.append(confluent_kafka.TopicPartition(topic, partition, offset, note))
        if wanted:
            self._retrying(
                lambda: self._client.send_offsets_to_transaction(wanted, group_metadata, seconds),
                "offsets not added to the transaction",
                aborts=True,
            )

    def _check_open(self) -> None:
        if self._mark is None:
            raise ClientError("no transaction is open: begin one")

    def _retrying(self, action: Callable[[], object], what: str, *, aborts: bool = False) -> None:
        import confluent_kafka

        for attempt in range(ATTEMPTS):
            try:
                action()
            except confluent_kafka.KafkaException as error:
                cause: Any = error.args[0]
                if cause.retriable() and cause.name() != CONFLICT and attempt < ATTEMPTS - 1:
                    self._pause(PAUSE_SECONDS * 2**attempt)
                    continue
                if cause.txn_requires_abort() and aborts:
                    self._unanswered = ""
                    self.abort(SECONDS)
                    raise failure(error, what, kind=TransactionAborted) from None
                raise failure(error, what) from None
            else:
                return


class Transaction:
    """The block `with producer.transaction() as transaction:`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def send_offsets(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commits what the consumer has read so far, or the given offsets, with this transaction."""
        chosen = offsets if offsets is not None else consumer.positions()
        self._transactions.send_offsets(chosen, consumer.group_metadata(), SECONDS)

    def __enter__(self) -> Transaction:
        self._transactions.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._transactions.commit(SECONDS)
        elif self._transactions._mark is not None:
            try:
                self._transactions.abort(SECONDS)
            except KafkaFailure as refused:
                error.add_note(f"the transaction could not be aborted either: {refused}")
