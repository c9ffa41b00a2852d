"""What transforms work on, and a transform with its predicate as one stage.

A frame has the columns key, value, headers, topic, partition and timestamp, and perhaps others that no transform
touches. Rows that are no records (a source's positions) pass through; nothing is asked of what becomes of their
columns. A record that a transform cannot take gets the reason into the column `_error`; the first one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType

from moldau.connect.converters import DATA_EXCEPTION, ERROR, reason
from moldau.connect.definitions import ConfigDef
from moldau.connect.schemas import SchemaRefused, merged

TRANSFORMATION: Final = "TRANSFORMATION"
CHANGEABLE: Final = ("key", "value", "headers", "topic", "partition", "timestamp", ERROR)
CHOSEN: Final = "_chosen"
REFUSALS: Final = (SchemaRefused, AnalysisException)
"""What a transform raises whose records have a type that it cannot take."""


@dataclass(frozen=True, slots=True)
class Records:
    frame: DataFrame
    is_record: Column
    key_name: str | None = None
    value_name: str | None = None
    stage: str | None = None
    """The class of the transform that is at work."""
    free: frozenset[str] = frozenset()
    """Of key and value, which have no schema: a field that is not there is null."""

    def kind(self, column: str) -> DataType:
        return self.frame.schema[column].dataType

    def has(self, column: str) -> bool:
        return column in self.frame.columns

    def with_column(self, name: str, column: Column) -> Records:
        return replace(self, frame=self.frame.withColumn(name, column))

    def struct(self, column: str, purpose: str) -> StructType:
        """The type of keys or values that have fields."""
        kind = self.kind(column)
        if not isinstance(kind, StructType):
            raise SchemaRefused(f"Only Struct objects supported for [{purpose}], found: {kind.simpleString()}")
        return kind

    def member(self, side: str, kind: DataType, column: Column, name: str, problem: str) -> tuple[Column, DataType]:
        """A field, with its type; raises SchemaRefused where it cannot be left out."""
        if isinstance(kind, StructType) and name in kind.names:
            return column[name], kind[name].dataType
        if side not in self.free:
            raise SchemaRefused(problem)
        return F.lit(None).cast("string"), StringType()

    def failing(self, problem: Column, message: str, kind: str = DATA_EXCEPTION) -> Records:
        fresh = reason(TRANSFORMATION, kind, F.lit(message), self.stage)
        return self.with_column(ERROR, F.coalesce(F.col(ERROR), F.when(self.is_record & problem, fresh)))


class Predicate:
    CONFIG: ClassVar[ConfigDef] = ConfigDef()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def holds(self, records: Records) -> Column:
        raise NotImplementedError


class Transform:
    CONFIG: ClassVar[ConfigDef] = ConfigDef()
    DROPS: ClassVar[bool] = False
    """It takes records away, and changes none."""
    TYPES: ClassVar[bool] = True
    """It may give keys or values another type."""

    def __init__(self, config: Mapping[str, Any], side: str = "value") -> None:
        """`side`: key or value, for transforms that come in both variants."""
        self.config = config
        self.side = side

    def apply(self, records: Records) -> Records:
        raise NotImplementedError


def rebuilt(column: Column, fields: list[tuple[str, Column]]) -> Column:
    """A struct of other fields; null stays null, so that tombstones pass."""
    return F.when(column.isNotNull(), F.struct(*(each.alias(name) for name, each in fields)))


@dataclass(frozen=True, slots=True)
class Stage:
    alias: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False
    called: str | None = None
    """The transform's class as the configuration names it."""

    def apply(self, records: Records) -> Records:
        records = replace(records, stage=self.called)
        if self.predicate is None:
            return self._dropped(records, records.is_record) if self.transform.DROPS else self.transform.apply(records)
        where = self._chosen(records)
        if self.transform.DROPS:
            return self._dropped(records, where)
        return self._where(records, where)

    def branches(self, records: Records) -> list[tuple[bool | None, Records]]:
        """Those that the predicate chooses apart from the others, where the transform may leave them another type."""
        if self.predicate is None or self.transform.DROPS or not self.transform.TYPES:
            return [(None, attempted(self.apply, replace(records, stage=self.called)))]
        where = self._chosen(records)
        taken = replace(records, frame=records.frame.filter(where), stage=self.called)
        others = replace(records, frame=records.frame.filter(~where))
        return [(True, attempted(self.transform.apply, taken)), (False, others)]

    def _chosen(self, records: Records) -> Column:
        assert self.predicate is not None
        holds = F.coalesce(self.predicate.holds(records), F.lit(False))
        return records.is_record & (~holds if self.negate else holds)

    @staticmethod
    def _dropped(records: Records, where: Column) -> Records:
        return replace(records, frame=records.frame.filter(~where))

    def _where(self, records: Records, where: Column) -> Records:
        """Applies it to all, and gives back to the others what they had."""
        before = records.with_column(CHOSEN, where)
        names = [name for name in CHANGEABLE if records.has(name)]
        for name in names:
            before = before.with_column(f"_before_{name}", F.col(name))
        after = self.transform.apply(before)
        for name in names:
            after = after.with_column(name, self._choice(records, after, name))
        frame = after.frame.drop(CHOSEN, *(f"_before_{name}" for name in names))
        return replace(after, frame=frame)

    def _choice(self, before: Records, after: Records, name: str) -> Column:
        old, new = before.kind(name), after.kind(name)
        if old == new:
            return F.when(F.col(CHOSEN), F.col(name)).otherwise(F.col(f"_before_{name}"))
        try:
            both = merged(old, new)
        except SchemaRefused:
            raise SchemaRefused(
                f"transform {self.alias} makes {new.simpleString()} of {old.simpleString()}, and its predicate would "
                f"leave some records as they are: the {name}s of a batch need one type"
            ) from None
        return F.when(F.col(CHOSEN), aligned(F.col(name), new, both)).otherwise(
            aligned(F.col(f"_before_{name}"), old, both)
        )


def attempted(work: Callable[[Records], Records], records: Records) -> Records:
    """Records whose type a transform does not take are bad, like those with a value that it does not take."""
    try:
        return work(records)
    except REFUSALS as problem:
        return records.failing(F.lit(True), problem_text(problem))


def problem_text(problem: Exception) -> str:
    return str(problem.getMessage() if isinstance(problem, AnalysisException) else problem)


Path = tuple[bool | None, ...]
"""Which of the stages that have a predicate took the records; None of one that leaves them together."""


def outcomes(stages: Sequence[Stage], records: Records) -> list[tuple[Path, Records]]:
    """What becomes of the records, those apart that have different types then."""
    found: list[tuple[Path, Records]] = [((), records)]
    for stage in stages:
        found = [((*path, chosen), after) for path, before in found for chosen, after in stage.branches(before)]
    return found


def along(stages: Sequence[Stage], records: Records, path: Path) -> Records:
    """On one of these ways; an empty path chooses them all."""
    for stage, chosen in zip(stages, path or (True,) * len(stages), strict=True):
        if chosen is None:
            records = stage.apply(records)
        elif chosen and not stage.transform.DROPS:
            records = stage.transform.apply(replace(records, stage=stage.called))
    return records


def aligned(column: Column, kind: DataType, wanted: DataType) -> Column:
    """The same value with the fields of a wider type."""
    if kind == wanted or not isinstance(wanted, StructType) or not isinstance(kind, StructType):
        return column.cast(wanted)
    there = {field.name: field.dataType for field in kind}
    fields = [
        (field.name, aligned(column[field.name], there[field.name], field.dataType))
        if field.name in there
        else (field.name, F.lit(None).cast(field.dataType))
        for field in wanted
    ]
    return rebuilt(column, fields)
