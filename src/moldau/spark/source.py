"""The data source `moldau`: `spark.read.format("moldau")` and its three siblings.

Spark finds it by itself as `pyspark_moldau.DefaultSource`, and imports it in many short-lived processes: what a reader
or a writer needs is imported when Spark asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from moldau.spark.fetching.task import ReadTask
    from moldau.spark.option_table import Use
    from moldau.spark.planning.options import ReadOptions
    from moldau.spark.writing.writers import WritePlan


class MoldauDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> StructType:
        """Called when a read is described without a schema, so wrong options are told there and then."""
        from moldau.spark.planning.options import check_read_options
        from moldau.spark.planning.reading import offered_schema

        check_read_options(dict(self.options))
        return offered_schema(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.option_table import Use
        from moldau.spark.planning.reader import BatchReader, FilteringBatchReader

        options, task = self._reading(schema, Use.BATCH_READ)
        return FilteringBatchReader(options, task) if options.pushdown else BatchReader(options, task)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from moldau.spark.option_table import Use
        from moldau.spark.planning.stream_reader import StreamReader

        return StreamReader(*self._reading(schema, Use.STREAM_READ))

    def _reading(self, schema: StructType, use: Use) -> tuple[ReadOptions, ReadTask]:
        from moldau.spark.planning.options import parse_read_options
        from moldau.spark.planning.reading import read_task

        options = parse_read_options(dict(self.options), use)
        return options, read_task(dict(self.options), options, schema)

    # -- writing -------------------------------------------------------------------------------------------------

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.spark.option_table import Use
        from moldau.spark.writing.writers import BatchWriter

        return BatchWriter(self._write_plan(schema, overwrite, Use.BATCH_WRITE))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        from moldau.spark.option_table import Use
        from moldau.spark.writing.writers import StreamWriter

        return StreamWriter(self._write_plan(schema, overwrite, Use.STREAM_WRITE))

    def _write_plan(self, schema: StructType, overwrite: bool, use: Use) -> WritePlan:
        from moldau.spark.garbage import set_imports_aside
        from moldau.spark.writing.writers import plan_write

        plan = plan_write(dict(self.options), schema, overwrite, use)
        set_imports_aside()
        return plan
