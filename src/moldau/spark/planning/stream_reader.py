"""Streams: Spark asks where there is more, records the answer, and has it read.

One long-lived process of the driver runs everything here but `read`, which runs in tasks. All that a batch reads is in
the two offsets that Spark recorded around it (see offsets.py), so that a replayed batch is the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from moldau.spark.planning.catalog import Catalog, TopicView, open_catalog
from moldau.spark.planning.ends import find_ends
from moldau.spark.planning.lag import LagPublisher, lag_target
from moldau.spark.planning.limits import cap, limit_rows, rows_between, waits_for_more
from moldau.spark.planning.looking import Looking
from moldau.spark.planning.offsets import EARLIEST, LATEST, PartitionOffsets, Position
from moldau.spark.planning.planner import Range, cut, ranges_between, splits_of
from moldau.spark.planning.resolve import carry_on, resolve
from moldau.spark.planning.selecting import check_all_there, loss_handler, selected_partitions, selected_topics

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.fetching.task import ReadTask
    from moldau.spark.planning.options import ReadOptions
    from moldau.types.ids import TopicPartition

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(
        self,
        options: ReadOptions,
        task: ReadTask,
        *,
        open_cluster: Callable[..., Catalog] = open_catalog,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._task = task
        self._open = open_cluster
        self._monotonic = monotonic
        self._sleep = sleep
        self._catalog: Catalog | None = None
        self._lost = loss_handler(options.fail_on_data_loss)
        self._lag = None if options.group_id is None else LagPublisher(options.group_id, monotonic)
        self._topics: dict[str, TopicView] = {}
        self._topics_seen = float("-inf")
        self._undecided: frozenset[TopicPartition] = frozenset()
        self._last_batch = float("-inf")
        self._available_now: PartitionOffsets | None = None
        self._latest: Position | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Tasks get what they read with; connections and memories stay here."""
        return StreamReader, (self._options, self._task)

    # -- what Spark calls ----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        options = self._options
        topics = self._look_at_topics()
        check_all_there(self._cluster(), topics, options.selection)
        places = selected_partitions(topics, options.selection)
        offsets = resolve(
            options.start, options.start_option, places, self._look(), self._lost, no_match=options.no_match
        )
        return self._position(offsets, is_initial=True).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself, unchanged, when there is none."""
        position = Position.from_json(start)
        self._publish(position)
        if self._available_now is None and self._is_idle(position):
            return start
        begins, ends, went_back = self._what_waits(position)
        if self._is_put_off(rows_between(begins, ends), limit) and not went_back:
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limit_rows(begins, ends, limit.max_rows)
        if rows_between(begins, ends) == 0 and not went_back:
            self._publish(position, insist=self._available_now is not None)
            return start
        self._last_batch = self._monotonic()
        return self._end_of_batch(position, begins, ends).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the progress report: where the partitions ended when they were last looked at."""
        return None if self._latest is None else self._latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        places = selected_partitions(self._look_at_topics(), self._options.selection)
        self._available_now = self._look()(dict.fromkeys(places, LATEST))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        position = Position.from_json(end)
        ranges = ranges_between(Position.from_json(start), position)
        leaders = {
            place: self._topics[place.topic].leaders[place.partition]
            for place in ranges
            if place.topic in self._topics and place.partition in self._topics[place.topic].leaders
        }
        return [InputPartition(split) for split in splits_of(ranges, position, leaders)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is to be done: `latestOffset` is told of every batch that ended, and this one not of the last."""

    def stop(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    # -- what waits ----------------------------------------------------------------------------------------------

    def _is_idle(self, start: Position) -> bool:
        """One small request tells most idle polls from the others; Spark polls up to a hundred times a second."""
        age_ms = (self._monotonic() - self._topics_seen) * 1000
        if not self._topics or not 0 <= age_ms < self._options.metadata_ms:
            return False
        if {place.topic for place in start.offsets} != set(self._topics):
            return False
        ends = self._look()(dict.fromkeys(start.offsets, LATEST))
        waits_at = {place: start.offsets[place] for place in self._undecided if place in ends}
        if ends | {place: max(ends[place], offset) for place, offset in waits_at.items()} != start.offsets:
            return False
        self._latest = self._position(ends)
        return True

    def _what_waits(self, start: Position) -> tuple[PartitionOffsets, PartitionOffsets, bool]:
        """Begin and end of every partition that is there now, and whether some went back to the end of a cut log: Spark
        has to record that, with or without rows, or records would be passed over when the log has grown again.
        """
        options = self._options
        topics = self._look_at_topics()
        places = selected_partitions(topics, options.selection)
        begins = carry_on(start, topics, places, options.selection.reads, self._lost)
        fresh = [place for place, offset in begins.items() if offset == EARLIEST]
        look = self._look()
        begins |= look(dict.fromkeys(fresh, EARLIEST))
        found = find_ends(begins, look, options.dips, self._sleep)
        self._latest = self._position(found.reached)
        self._undecided = found.undecided(begins)
        for place, end in sorted(found.cut.items()):
            self._lost(f"the log of {place} was cut: it ends at {end}, before {begins[place]} where this query is")
        begins |= found.cut
        begins = {place: begin for place, begin in begins.items() if place in found.reached and begin != EARLIEST}
        ends = {place: max(begin, found.reached[place]) for place, begin in begins.items()}
        if self._available_now is not None:
            ends = cap(begins, ends, self._available_now)
        return begins, ends, bool(found.cut)

    def _is_put_off(self, waiting: int, limit: ReadLimit) -> bool:
        if isinstance(limit, ReadAllAvailable) or self._available_now is not None:
            return False
        since_ms = (self._monotonic() - self._last_batch) * 1000
        return waits_for_more(waiting, self._options.min_offsets, since_ms, self._options.max_delay_ms)

    def _end_of_batch(self, start: Position, begins: PartitionOffsets, ends: PartitionOffsets) -> Position:
        ranges = {place: Range(begins[place], end) for place, end in ends.items()}
        told = {} if start.is_initial else start.offsets
        return self._position(
            ends,
            cuts=cut(ranges, self._options.min_partitions, self._options.max_records),
            begins={place: offset for place, offset in begins.items() if told.get(place) != offset},
        )

    # -- the cluster ---------------------------------------------------------------------------------------------

    def _cluster(self) -> Catalog:
        if self._catalog is None:
            self._catalog = self._open(self._options.client, self._options.properties)
        return self._catalog

    def _look_at_topics(self) -> dict[str, TopicView]:
        self._topics = selected_topics(self._cluster(), self._options.selection)
        self._topics_seen = self._monotonic()
        return self._topics

    def _look(self) -> Looking:
        return Looking(self._cluster(), self._options.read_committed)

    def _position(self, offsets: PartitionOffsets, **more: Any) -> Position:
        options = self._options
        target = None
        if options.group_id is None:
            security = options.properties.get("security.protocol", "PLAINTEXT")
            target = lag_target(options.properties["bootstrap.servers"], security, options.group_prefix)
        ids = {name: view.topic_id for name, view in self._topics.items()}
        return Position(offsets, ids, lag_target=target, **more)

    def _publish(self, position: Position, *, insist: bool = False) -> None:
        if self._lag is not None:
            self._lag.publish(self._cluster(), position.offsets, insist=insist)
