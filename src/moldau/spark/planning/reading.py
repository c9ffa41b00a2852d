"""From a source's options and schema to what tasks are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.spark.fetching.task import ReadTask
from moldau.spark.schema import EVERY_COLUMN, checked_schema, record_schema
from moldau.spark.values.plan import read_plan

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from moldau.spark.planning.options import ReadOptions


def offered_schema(given: Mapping[str, str]) -> StructType:
    return record_schema(given, read_plan(given).offered(EVERY_COLUMN))


def read_task(given: Mapping[str, str], options: ReadOptions, schema: StructType) -> ReadTask:
    plan = read_plan(given)
    columns = tuple(checked_schema(schema, plan.offered(EVERY_COLUMN)).fieldNames())
    return ReadTask(options.client, options.properties, options.reading, columns, plan)
