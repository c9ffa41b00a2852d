"""A task's work: the records of one split as Arrow batches.

The first answer is fetched here. If the split goes on, a thread fetches ahead: the next request leaves as soon as an
answer is in, before anybody has looked into it, so that network, decoding and Spark work side by side. Answers that
wait are bounded by a byte budget; where the task has to wait for them, they grow. The kernel and the codecs release the
interpreter's lock, so one thread does not hold up the other. Only the columns that are wanted are built.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final

from moldau.kernels import RecordColumns
from moldau.spark.errors import SourceError
from moldau.spark.fetching.decoding import SplitDecoder
from moldau.spark.fetching.partition_fetcher import Answer, PartitionFetcher
from moldau.spark.fetching.pool import borrow, give_back
from moldau.spark.fetching.read_settings import LARGEST_BATCH_BYTES, ReadSettings
from moldau.wire.batch import CorruptBatchError

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.client.settings import ClientSettings
    from moldau.spark.planning.split import Split

JOIN_SECONDS: Final = 5.0


def read_split(
    split: Split,
    client: ClientSettings,
    settings: ReadSettings,
    columns: Sequence[str],
    properties: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """`columns`: those wanted of Spark's Kafka source, in the order of the batches. `properties`: Kafka's, under Java's
    names, for mechanisms that only librdkafka knows."""
    if split.size <= 0:
        return
    from moldau.spark.fetching.arrow import Assembler

    assembler = Assembler(columns, split.topic, split.partition)
    if client.needs_librdkafka:
        from moldau.spark.fetching.fallback import read_with_librdkafka

        yield from read_with_librdkafka(split, settings, assembler, properties or {})
        return
    built = RecordColumns(assembler.want, assembler.row_bytes, settings.low_timestamp, settings.high_timestamp)
    decoder = SplitDecoder(
        built,
        split.start,
        split.end,
        committed=settings.committed,
        check_crcs=settings.check_crcs,
        batch_bytes=min(settings.batch_bytes, LARGEST_BATCH_BYTES),
    )
    with Prefetcher(split, client, settings) as answers:
        for answer in answers:
            try:
                for _ in decoder.decode(answer.records, answer.aborted):
                    yield assembler.batch(built.take())
            except CorruptBatchError as error:
                raise SourceError(f"{split.topic}-{split.partition}: {error}") from error
            decoder.skip_to(answer.next_offset)
            if built.rows and (built.bytes >= settings.batch_bytes // 2 or not answers.has_more):
                yield assembler.batch(built.take())
    if built.rows:
        yield assembler.batch(built.take())


class Stopped(Exception):
    """Nobody wants the rest."""


class Prefetcher:
    """Iterates over the answers of a split; fetches ahead in a thread of its own once there is more than one."""

    def __init__(
        self,
        split: Split,
        client: ClientSettings,
        settings: ReadSettings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._split = split
        self._monotonic = monotonic
        self._budget = settings.budget_bytes
        self._cluster = borrow(client)
        self._fetcher = PartitionFetcher(self._cluster, split, settings, sleep=self._sleep)
        self._changed = Condition()
        self._waiting: deque[Answer] = deque()
        self._waiting_bytes = 0
        self._failure: BaseException | None = None
        self._ended = False
        self._stopped = False
        self._starved = False
        self._thread: Thread | None = None

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_more(self) -> bool:
        """Whether an answer waits already: then rows may wait for it, otherwise they should go on their way."""
        return bool(self._waiting)

    def __iter__(self) -> Iterator[Answer]:
        first = self._fetcher.fetch(self._split.start)
        if first is not None and first.next_offset < self._split.end:
            self._thread = Thread(target=self._work, args=(first.next_offset,), name="moldau-fetch", daemon=True)
            self._thread.start()
        else:
            self._ended = True
        if first is not None:
            yield first
        while (answer := self._next()) is not None:
            yield answer

    def _next(self) -> Answer | None:
        with self._changed:
            while not self._waiting and not self._ended:
                self._starved = True
                self._changed.wait()
            if self._waiting:
                answer = self._waiting.popleft()
                self._waiting_bytes -= answer.size
                self._changed.notify()
                return answer
            if self._failure is not None:
                raise self._failure
            return None

    def close(self) -> None:
        if self._thread is None:
            self._leave(clean=self._ended)
            return
        with self._changed:
            self._stopped = True
            self._changed.notify()
        connection = self._fetcher.connection
        if not self._ended and connection is not None:
            connection.interrupt()
        self._thread.join(JOIN_SECONDS)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _work(self, offset: int) -> None:
        failure: BaseException | None = None
        try:
            while offset < self._split.end:
                self._wait_for_budget()
                answer = self._fetcher.fetch(offset)
                if answer is None:
                    break
                offset = answer.next_offset
                with self._changed:
                    self._waiting.append(answer)
                    self._waiting_bytes += answer.size
                    self._changed.notify()
        except BaseException as error:  # whatever it is, it is raised where the rows are wanted
            failure = error
        with self._changed:
            self._failure = failure
            self._ended = True
            clean = failure is None and not self._stopped  # else the connection may be interrupted at any moment
            self._changed.notify()
        self._leave(clean=clean)

    def _wait_for_budget(self) -> None:
        with self._changed:
            while self._waiting and self._waiting_bytes + self._fetcher.next_bytes > self._budget:
                if self._stopped:
                    raise Stopped
                self._changed.wait()
            if self._stopped:
                raise Stopped
            if self._starved:
                self._starved = False
                self._fetcher.ask_for_more()

    def _sleep(self, seconds: float) -> None:
        deadline = self._monotonic() + seconds
        with self._changed:
            while not self._stopped and (left := deadline - self._monotonic()) > 0:
                self._changed.wait(left)
            if self._stopped:
                raise Stopped

    def _leave(self, *, clean: bool) -> None:
        if clean:
            give_back(self._cluster)
        else:
            self._cluster.close()
