"""A task's work: the records of one split as Arrow batches.

The first answer is fetched here. If the split goes on, a thread fetches ahead: the next request leaves as soon as an
answer is in, before anybody has looked into it, so that network, decoding and Spark work side by side; several do where
the broker is far away (`pieces`, `lanes`). The kernel and the codecs release the interpreter's lock, so one thread does
not hold up the other. Only the columns that are wanted are built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final

from moldau.kernels import RecordColumns
from moldau.spark.errors import SourceError
from moldau.spark.fetching.decoding import SplitDecoder
from moldau.spark.fetching.lanes import Lane
from moldau.spark.fetching.pieces import Pieces
from moldau.spark.fetching.read_settings import LARGEST_BATCH_BYTES, ReadSettings
from moldau.wire.batch import CorruptBatchError

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.client.settings import ClientSettings
    from moldau.spark.split import Split

LANES: Final = 3
PARTS: Final = LANES + 1
"""One answer under way in each lane, and one that is read."""


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
    with Prefetcher(split, client, settings) as pieces:
        for piece in pieces:
            decoder = SplitDecoder(
                built,
                piece.split.start,
                piece.split.end,
                committed=settings.committed,
                check_crcs=settings.check_crcs,
                batch_bytes=min(settings.batch_bytes, LARGEST_BATCH_BYTES),
            )
            for answer in pieces.answers(piece):
                try:
                    for _ in decoder.decode(answer.records, answer.aborted):
                        yield assembler.batch(built.take())
                except CorruptBatchError as error:
                    raise SourceError(f"{split.topic}-{split.partition}: {error}") from error
                decoder.skip_to(answer.next_offset)
                if built.rows and (built.bytes >= settings.batch_bytes // 2 or not pieces.has_more):
                    yield assembler.batch(built.take())
    if built.rows:
        yield assembler.batch(built.take())


class Prefetcher:
    """The pieces of a split, with lanes that fetch them for as long as somebody is in here."""

    def __init__(self, split: Split, client: ClientSettings, settings: ReadSettings) -> None:
        self._client = client
        self._settings = settings
        # A little less than an answer may hold: the batches at both ends of a piece come whole.
        piece_bytes = min(settings.fetch_bytes * 3 // 4, settings.far_budget_bytes // PARTS)
        self._pieces = Pieces(
            split, settings.budget_bytes, piece_bytes=piece_bytes, cut_budget_bytes=settings.far_budget_bytes
        )
        self._lock = Lock()
        self._lanes = [self._new_lane()]
        self._is_closed = False

    def _new_lane(self) -> Lane:
        return Lane(self._pieces, self._client, self._settings, self._open_more)

    def __enter__(self) -> Pieces:
        (lane,) = self._lanes
        try:
            self._begin(lane)
        except BaseException:
            lane.close()
            raise
        return self._pieces

    def _begin(self, lane: Lane) -> None:
        """A small split needs no thread."""
        piece = self._pieces.take()
        assert piece is not None
        if lane.fetch(piece):
            lane.start(piece)
        else:
            lane.leave(clean=True)
            self._pieces.end(piece)

    def _open_more(self) -> None:
        with self._lock:
            if not self._is_closed:
                more = [self._new_lane() for _ in range(LANES - 1)]
                self._lanes += more
                for lane in more:
                    lane.start()

    def __exit__(self, *_: object) -> None:
        self._pieces.stop()
        with self._lock:
            self._is_closed = True
        for lane in self._lanes:
            lane.close()
