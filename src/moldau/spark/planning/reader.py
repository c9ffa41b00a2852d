"""Batch reads: offsets are settled when Spark plans the query; each task reads one split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from moldau.spark.fetching.read_settings import FIRST_TIMESTAMP, LAST_TIMESTAMP
from moldau.spark.fetching.task import ReadTask
from moldau.spark.planning.catalog import Catalog, open_catalog
from moldau.spark.planning.looking import Look, Looking
from moldau.spark.planning.offsets import Position
from moldau.spark.planning.planner import Range, cut, splits_of
from moldau.spark.planning.pushdown import Narrowing, narrow, take_filters
from moldau.spark.planning.resolve import Lost, resolve
from moldau.spark.planning.selecting import check_all_there, loss_handler, selected_partitions, selected_topics

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.planning.options import ReadOptions
    from moldau.spark.split import Split
    from moldau.types.ids import TopicPartition


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, task: ReadTask) -> None:
        self._options = options
        self._task = task
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        catalog = open_catalog(self._options.client, self._options.properties)
        try:
            return [InputPartition(split) for split in self._plan(catalog)]
        finally:
            catalog.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition.value)

    def _plan(self, catalog: Catalog) -> list[Split]:
        options = self._options
        topics = selected_topics(catalog, options.selection)
        check_all_there(catalog, topics, options.selection)
        places = selected_partitions(topics, options.selection)
        look = Looking(catalog, options.read_committed)
        lost = loss_handler(options.fail_on_data_loss)
        ranges = narrow(self._ranges(places, look, lost), self._narrowing, look)
        position = Position(
            offsets={place: span.end for place, span in ranges.items()},
            topic_ids={name: view.topic_id for name, view in topics.items()},
            cuts=cut(ranges, options.min_partitions, options.max_records),
        )
        leaders = {place: topics[place.topic].leaders[place.partition] for place in ranges}
        return splits_of(ranges, position, leaders)

    def _ranges(self, places: list[TopicPartition], look: Look, lost: Lost) -> dict[TopicPartition, Range]:
        options = self._options
        starts = resolve(options.start, options.start_option, places, look, lost, no_match=options.no_match)
        ends = resolve(options.end, options.end_option, places, look, lost)
        return {place: Range(starts[place], ends[place]) for place in places if place in starts and place in ends}


class FilteringBatchReader(BatchReader):
    """The same with filters pushed down: Spark refuses a reader that offers this unless its own setting allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        self._narrowing, left = take_filters(filters)
        first, last = self._narrowing.first_micros, self._narrowing.last_micros
        settings = replace(
            self._task.settings,
            low_timestamp=FIRST_TIMESTAMP if first is None else first,
            high_timestamp=LAST_TIMESTAMP if last is None else last,
        )
        self._task = replace(self._task, settings=settings)
        return left
