"""The records of a batch, decoded and transformed, each with the fields and types of its own.

Records of a batch need not be alike: topics, versions of a schema, JSON in which fields come and go. Those whose types
have room in one are decoded and transformed together, as columns of that type, and each gets back in the end what is
its own (`own_values`); those that have not are parts of the batch beside each other. So nothing of a record hangs on
which others came with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType, StructType

from moldau.connect.converters import DATA_EXCEPTION, ERROR, ERROR_TYPE, STAGES, ShapedConverter, failed, reason
from moldau.connect.own_values import reader_of
from moldau.connect.schemas import KEEPING, SchemaRefused, Shape, merged, without_nulls
from moldau.connect.transforms.base import REFUSALS, Path, Records, along, outcomes, problem_text

if TYPE_CHECKING:
    from moldau.connect.converters import Converter
    from moldau.connect.task import Job

SIDES: Final = ("key", "value")
RAW: Final = ("_raw_key", "_raw_value", "_raw_headers")
SOURCE: Final = ("_source_topic", "_source_partition")
OWN: Final = "_own"
"""A number for the topic and the shapes of a record."""
PART: Final = "_part"
ORDER: Final = (*SOURCE, "offset")
COMMON: Final = (*ORDER, *RAW, "topic", "timestamp", "headers", ERROR, OWN)
MOST_OUTLINES: Final = 10_000
Kinds = tuple[DataType, DataType]
"""Of key and value."""


@dataclass(frozen=True, slots=True)
class Form:
    """What records are before transforms."""

    key: Shape
    value: Shape

    def joined(self, other: Form) -> Form | None:
        """What has room for both; None: nothing has."""
        try:
            return Form(joined(self.key, other.key), joined(self.value, other.value))
        except SchemaRefused:
            return None


def joined(one: Shape, other: Shape) -> Shape:
    if isinstance(one.kind, NullType) or isinstance(other.kind, NullType):
        return one if isinstance(other.kind, NullType) else other
    if one.free != other.free:
        raise SchemaRefused("one has a schema, the other none")
    return Shape(merged(one.kind, other.kind, KEEPING), one.free)


@dataclass(slots=True)
class Group:
    """Records that are decoded and transformed together."""

    topic: str
    whole: Form
    owns: dict[int, Form] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """Records as they come out of the transforms."""

    frame: DataFrame
    kinds: Mapping[int, Kinds]
    """What has to be taken out of them, by `OWN`; those that are missing are as they should be."""


@dataclass(frozen=True, slots=True)
class Prepared:
    frame: DataFrame
    kinds: Mapping[tuple[int, int], Kinds]
    """By part and `OWN`."""


def prepared(job: Job, frame: DataFrame, tasks: int, outlines: Outlines) -> Prepared | None:
    """Typed and transformed records beside the bytes that they came from, in as many pieces; None: there are none."""
    batch = Batch(job, marked(job, frame), outlines)
    parts = batch.parts()
    if not parts:
        return None
    frames = []
    for number, part in enumerate(parts):
        own = [F.col(side).alias(f"{side}_{number}") for side in SIDES]
        frames.append(part.frame.select(*COMMON, *own, F.lit(number).alias(PART)))
    kinds = {(number, own): both for number, part in enumerate(parts) for own, both in part.kinds.items()}
    if len(frames) == 1:
        return Prepared(frames[0].coalesce(tasks), kinds)
    whole = frames[0]
    for other in frames[1:]:
        whole = whole.unionByName(other, allowMissingColumns=True)
    # The parts of a partition come together again, in their order.
    return Prepared(whole.repartition(tasks, *SOURCE).sortWithinPartitions(*ORDER), kinds)


def marked(job: Job, frame: DataFrame) -> DataFrame:
    """With the number of what each record is of its own. What says nothing of itself is bad."""
    frame = frame.withColumn(ERROR, F.lit(None).cast(ERROR_TYPE))
    for name, column in zip((*RAW, *SOURCE), ("key", "value", "headers", "topic", "partition"), strict=True):
        frame = frame.withColumn(name, F.col(column))
    telling = [F.col("topic") if job.stages else F.lit("")]
    for side, converter in sides_of(job).items():
        if isinstance(converter, ShapedConverter):
            shape = f"_{side}_shape"
            frame = frame.withColumn(shape, converter.shape(side))
            untold = F.col(side).isNotNull() & F.col(shape).isNull()
            frame = frame.withColumn(ERROR, failed(side, untold, converter.problem))
            frame = frame.withColumn(side, F.when(~untold, F.col(side)))
            telling.append(F.coalesce(F.col(shape), F.lit("")))
        else:
            frame = converter.decode(frame, side)
    return frame.withColumn(OWN, F.xxhash64(*telling) if telling[1:] else F.lit(0).cast("bigint"))


def sides_of(job: Job) -> dict[str, Converter]:
    return {"key": job.key_converter, "value": job.value_converter}


class Outlines:
    """What transforms make of a type, without records. Kept between batches: it is asked again and again."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._known: dict[tuple[Form, Path], Kinds | str] = {}

    def of(self, frame: DataFrame, form: Form, path: Path) -> Kinds:
        """Raises SchemaRefused."""
        if (form, path) not in self._known:
            if len(self._known) >= MOST_OUTLINES:
                self._known.clear()
            try:
                self._known[form, path] = self._found(frame, form, path)
            except REFUSALS as problem:
                self._known[form, path] = problem_text(problem)
        found = self._known[form, path]
        if isinstance(found, str):
            raise SchemaRefused(found)
        return found

    def _found(self, frame: DataFrame, form: Form, path: Path) -> Kinds:
        for side in SIDES:
            frame = frame.withColumn(side, F.lit(None).cast(settled(getattr(form, side).kind)))
        records = along(self._job.stages, Records(frame, F.lit(True), free=free_of(form)), path)
        return records.kind("key"), records.kind("value")


def settled(kind: DataType) -> DataType:
    """A tombstone has no fields, and transforms of fields pass it on."""
    return StructType([]) if isinstance(kind, NullType) else without_nulls(kind)


def free_of(form: Form) -> frozenset[str]:
    shapes = {"key": form.key, "value": form.value}
    return frozenset(side for side, shape in shapes.items() if shape.free or isinstance(shape.kind, NullType))


class Batch:
    def __init__(self, job: Job, frame: DataFrame, outlines: Outlines) -> None:
        self._job = job
        self._frame = frame
        self._outlines = outlines
        self._shaped = [side for side, converter in sides_of(job).items() if isinstance(converter, ShapedConverter)]
        self._texts: dict[str, dict[int, str | None]] = {side: {} for side in self._shaped}
        self._refused: dict[int, tuple[str, str]] = {}
        """Stage and reason."""

    def parts(self) -> list[Part]:
        found: list[Part] = []
        groups = self._groups()
        alone = len(groups) == 1 and not self._refused
        for group in groups:
            frame = self._frame if alone else self._frame.filter(F.col(OWN).isin(list(group.owns)))
            found += self._transformed(group, self._decoded(group, frame))
        if self._refused:
            found.append(self._bad())
        return found

    # -- which records go together -----------------------------------------------------------------------------------

    def _groups(self) -> list[Group]:
        groups: list[Group] = []
        for topic, forms in self._forms().items():
            own_groups = grouped(topic, forms)
            for group in own_groups:
                groups += [group] if self._has_room(group) else apart(group)
        return together(groups)

    def _forms(self) -> dict[str, dict[int, Form]]:
        """By topic, where transforms could tell topics apart, and number."""
        if not self._shaped:
            return {"": {0: Form(*(Shape(self._frame.schema[side].dataType) for side in SIDES))}}
        topic = F.col("topic") if self._job.stages else F.lit("")
        shapes = [F.col(f"_{side}_shape") for side in self._shaped]
        found: dict[str, dict[int, Form]] = {}
        for name, own, *texts in self._frame.select(topic, OWN, *shapes).distinct().collect():
            for side, text in zip(self._shaped, texts, strict=True):
                self._texts[side][own] = text
            form = self._form(own)
            if form is not None:
                found.setdefault(name, {})[own] = form
        return found

    def _form(self, own: int) -> Form | None:
        shapes: dict[str, Shape] = {}
        for side, converter in sides_of(self._job).items():
            if not isinstance(converter, ShapedConverter):
                shapes[side] = Shape(self._frame.schema[side].dataType)
                continue
            text = self._texts[side][own]
            try:
                shapes[side] = Shape() if text is None else converter.shape_of(text, side)
            except SchemaRefused as problem:
                self._refused[own] = (STAGES[side], str(problem))
                return None
        return Form(**shapes)

    def _has_room(self, group: Group) -> bool:
        """Whether the transforms do to all of them together what they do to each."""
        forms = set(group.owns.values())
        if len(forms) == 1 or not self._job.stages:
            return True
        try:
            whole = self._outlines.of(self._frame, group.whole, ())
        except SchemaRefused:
            return False
        for form in forms:
            try:
                own = self._outlines.of(self._frame, form, ())
            except SchemaRefused:
                return False
            if not all(covers(*both) for both in zip(whole, own, strict=True)):
                return False
        return not any(has_twins(kind) for kind in whole)

    # -- what becomes of them ----------------------------------------------------------------------------------------

    def _decoded(self, group: Group, frame: DataFrame) -> DataFrame:
        for side in self._shaped:
            converter = sides_of(self._job)[side]
            assert isinstance(converter, ShapedConverter)
            shape: Shape = getattr(group.whole, side)
            if isinstance(shape.kind, NullType):
                frame = frame.withColumn(side, F.lit(None).cast(settled(shape.kind) if self._job.stages else "string"))
                continue
            texts = sorted({text for own in group.owns if (text := self._texts[side][own]) is not None})
            frame = converter.decode_as(frame, side, shape, texts)
        return frame

    def _transformed(self, group: Group, frame: DataFrame) -> list[Part]:
        records = Records(frame, F.col(ERROR).isNull(), free=free_of(group.whole))
        found = outcomes(self._job.stages, records)
        return [Part(each.frame, self._kinds(group, each, path)) for path, each in found]

    def _kinds(self, group: Group, records: Records, path: Path) -> dict[int, Kinds]:
        whole = (records.kind("key"), records.kind("value"))
        found = {}
        for own, form in group.owns.items():
            kinds = whole
            if form != group.whole:
                try:
                    kinds = self._outlines.of(self._frame, form, path)
                except SchemaRefused:
                    continue  # a predicate keeps such records from this way
            if any(reader_of(kind) is not None for kind in kinds) and (kinds != whole or has_variants(kinds)):
                found[own] = kinds
        return found

    def _bad(self) -> Part:
        causes: dict[tuple[str, str], list[int]] = {}
        for own, cause in self._refused.items():
            causes.setdefault(cause, []).append(own)
        frame = self._frame.filter(F.col(OWN).isin(list(self._refused)))
        for (stage, message), owns in causes.items():
            told = F.when(F.col(OWN).isin(owns), reason(stage, DATA_EXCEPTION, F.lit(message)))
            frame = frame.withColumn(ERROR, F.coalesce(F.col(ERROR), told))
        return Part(frame.withColumns({side: F.lit(None).cast("string") for side in SIDES}), {})


def grouped(topic: str, forms: Mapping[int, Form]) -> list[Group]:
    groups: list[Group] = []
    places: dict[Form, Group] = {}
    for own, form in forms.items():
        if form not in places:
            for group in groups:
                both = group.whole.joined(form)
                if both is not None:
                    group.whole, places[form] = both, group
                    break
            else:
                groups.append(Group(topic, form))
                places[form] = groups[-1]
        places[form].owns[own] = form
    return groups


def apart(group: Group) -> list[Group]:
    found: dict[Form, Group] = {}
    for own, form in group.owns.items():
        found.setdefault(form, Group(group.topic, form)).owns[own] = form
    return list(found.values())


def together(groups: Iterable[Group]) -> list[Group]:
    """Topics whose records are alike need not be apart."""
    found: dict[Form, Group] = {}
    for group in groups:
        found.setdefault(group.whole, Group(group.topic, group.whole)).owns.update(group.owns)
    return list(found.values())


def covers(whole: DataType, own: DataType) -> bool:
    """Whether a record's own fields can be taken out of the whole."""
    if not isinstance(own, StructType):
        return True
    if not isinstance(whole, StructType):
        return not own.fields
    there = {field.name: field.dataType for field in whole}
    return all(field.name in there and covers(there[field.name], field.dataType) for field in own)


def has_twins(kind: DataType) -> bool:
    if not isinstance(kind, StructType):
        return False
    names = [name.casefold() for name in kind.names]
    return len(set(names)) < len(names) or any(has_twins(each.dataType) for each in kind)


def has_variants(kinds: Sequence[DataType]) -> bool:
    return any("variant" in kind.simpleString() for kind in kinds)
