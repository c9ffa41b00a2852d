"""From a source's options and schema to what tasks are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.spark.fetching.task import ReadTask
from moldau.spark.option_table import OptionError
from moldau.spark.schema import EVERY_COLUMN, HEADERS, checked_schema, record_schema
from moldau.spark.values.plan import read_plan

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from moldau.spark.planning.options import ReadOptions


def offered_schema(given: Mapping[str, str]) -> StructType:
    options = in_lower_case(given)
    return record_schema(options, read_plan(options).offered(EVERY_COLUMN))


def read_task(given: Mapping[str, str], options: ReadOptions, schema: StructType) -> ReadTask:
    plan = read_plan(given)
    offered = plan.offered(EVERY_COLUMN)
    columns = tuple(checked_schema(schema, offered).fieldNames())
    check_wanted(in_lower_case(given), columns, offered)
    return ReadTask(options.client, options.properties, options.reading, columns, plan)


def check_wanted(options: Mapping[str, str], columns: Sequence[str], offered: StructType) -> None:
    """`.schema(…)` says what is read; options that ask for other columns contradict it."""
    wanted = record_schema(options, offered).fieldNames()
    if "columns" in options and list(columns) != wanted:
        raise OptionError("columns", "contradicts .schema(…), which names other columns; give one of them")
    if HEADERS in wanted and HEADERS not in columns:
        raise OptionError("includeHeaders", f"contradicts .schema(…), which has no column {HEADERS!r}")


def in_lower_case(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in options.items()}
