"""What became of a record that was sent.

Reports come from librdkafka when somebody asks for them: the sending thread does so now and then while it sends, and
a thread of the producer's own while it does not, or somebody waits. Two threads at it at once would only fight for
Python's lock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.clients.errors import DeliveryFailed, KafkaFailure, TimedOut, failure
from moldau.clients.interceptors import ProducerInterceptor, after_send
from moldau.clients.records import RecordMetadata

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

Callback = Callable[[RecordMetadata | None, KafkaFailure | None], None]
REMEMBERED_FAILURES: Final = 1000
BUSY_SECONDS: Final = 0.02
POLL_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


class Delivery:
    """The future of one record: `result()` waits until it is stored, and raises if it was not."""

    __slots__ = ("_callbacks", "_error", "_event", "_message", "_reports", "_seen", "topic")

    def __init__(self, reports: Reports, topic: str) -> None:
        self._reports = reports
        self.topic = topic
        self._message: Message | None = None
        self._error: KafkaFailure | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[Delivery], None]] | None = None
        self._seen = False

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        """Called by librdkafka, once. After a fatal error confluent-kafka calls it with that error still pending, which
        Python takes for a fault of whatever is called first; once caught, it is gone."""
        try:
            self._take(error, message)
        except SystemError:
            self._take(error, message)

    def _take(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._error = failure(
                error, "record not delivered", topic=self.topic, partition=message.partition(), kind=DeliveryFailed
            )
        self._message = message
        if error is not None or self._event is not None or self._callbacks is not None:
            self._tell()
            if error is not None and not self._seen:
                self._reports.remember(self)

    def _tell(self) -> None:
        if self._event is not None:
            self._event.set()
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:  # another thread calls the last one
                return
            self._run(callback)

    def _run(self, callback: Callable[[Delivery], None]) -> None:
        try:
            callback(self)
        except Exception:
            log.exception("the callback of a record for %s failed", self.topic)

    def done(self) -> bool:
        return self._message is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was stored. Raises DeliveryFailed, or TimedOut if that is not known in so many seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    def exception(self, timeout: float | None = None) -> KafkaFailure | None:
        """Why it was not stored; None if it was. Waits like `result`."""
        if self._message is None and not self._wait(timeout):
            raise TimedOut(
                "no answer yet",
                cause=f"the record is still under way after {timeout} s",
                topic=self.topic,
                retriable=True,
            )
        self._seen = True
        return self._error

    def _outcome(self) -> tuple[RecordMetadata | None, KafkaFailure | None]:
        """Metadata or an error, once one is known. Whoever looks this way has not asked: a loss is told at `close`."""
        return (None, self._error) if self._error is not None else (self._metadata(), None)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Calls it when this is known, from one of the producer's threads; at once if it is known already."""
        self._seen = True
        self._watch(callback)

    def _watch(self, callback: Callable[[Delivery], None]) -> None:
        """The same for those who only look on."""
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(callback)
        if self._message is not None:
            self._tell()

    def _wait(self, timeout: float | None) -> bool:
        event = self._event = self._event or threading.Event()
        if self._message is not None:
            return True
        with self._reports.attention():
            return event.wait(timeout)

    def _metadata(self) -> RecordMetadata:
        message = self._message
        assert message is not None
        return RecordMetadata(
            self.topic,
            message.partition(),  # type: ignore[arg-type]
            -1 if message.offset() is None else message.offset(),  # type: ignore[arg-type]
            message.timestamp()[1],
        )


def told(callback: Callback) -> Callable[[Delivery], None]:
    """A callback of the books' form, with metadata or an error, for `add_done_callback` or `_watch`."""
    return lambda delivery: callback(*delivery._outcome())


def acknowledged(chain: Sequence[ProducerInterceptor]) -> Callable[[Delivery], None]:
    return told(lambda metadata, error: after_send(chain, metadata, error))


class Reports:
    """Serves delivery reports in the background, and keeps the failures that nobody has asked for."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.sends = 0
        """Raised by whoever sends; a race between senders does no harm."""
        self._waiting = 0
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._closed = False
        self.failed: list[Delivery] = []
        self.failures = 0
        self._thread = threading.Thread(target=self._serve, name=f"{name}-reports", daemon=True)
        self._thread.start()

    def attention(self) -> Attention:
        """While somebody waits."""
        return Attention(self)

    def wait(self, change: int) -> None:
        with self._lock:
            self._waiting += change
        self._wanted.set()

    def remember(self, delivery: Delivery) -> None:
        with self._lock:
            self.failures += 1
            if len(self.failed) < REMEMBERED_FAILURES:
                self.failed.append(delivery)

    def mark(self) -> tuple[int, int]:
        """For `forget_since`: what an aborted transaction left behind is no loss."""
        with self._lock:
            return len(self.failed), self.failures

    def forget_since(self, mark: tuple[int, int]) -> None:
        with self._lock:
            del self.failed[mark[0] :]
            self.failures = mark[1]

    def unseen(self) -> tuple[list[DeliveryFailed], int]:
        """Failures nobody asked for, and how many there are; they are told once."""
        with self._lock:
            unseen = [delivery for delivery in self.failed if not delivery._seen]
            count = self.failures - (len(self.failed) - len(unseen))
            self.failed, self.failures = [], 0
        return [delivery._error for delivery in unseen if isinstance(delivery._error, DeliveryFailed)], count

    def _serve(self) -> None:
        sends = -1
        while not self._closed:
            if self.sends != sends and not self._waiting:
                sends = self.sends
                self._wanted.wait(BUSY_SECONDS)
                self._wanted.clear()
            elif not self.serve(POLL_SECONDS):
                self._wanted.wait(POLL_SECONDS)

    def serve(self, seconds: float) -> bool:
        """Delivery reports that are there. False after a fatal error, which the next call of the application is
        told."""
        import confluent_kafka

        try:
            self._client.poll(seconds)
        except confluent_kafka.KafkaException:
            return False
        return True

    def close(self) -> None:
        self._closed = True
        self._wanted.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def abandon(self) -> None:
        """Without waiting, where the producer was forgotten."""
        self._closed = True
        self._wanted.set()


class Attention:
    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def __enter__(self) -> None:
        self._reports.wait(1)

    def __exit__(self, *_: object) -> None:
        self._reports.wait(-1)
