"""Records as rows of a table, in Arrow: the fields of a struct, or a column `value`, and where the record comes from.

Types are found from the values (whole numbers of 64 bits, doubles, decimals of 38 digits); a column that is there
keeps its own. What is null in all records of a write has no column there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.config.definition import ConfigType
from moldau.connect.connectors.archive_formats import DIGITS, header_type, simple
from moldau.connect.connectors.archive_sink import CHUNK, size_of
from moldau.connect.definitions import ConfigDef, Key, at_least
from moldau.connect.interface import RecordRefused, SinkRecord

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX: Final = "metadata.prefix"
ROWS: Final = ConfigDef(
    Key(
        PREFIX,
        default="kafka_",
        doc="Of the columns topic, partition, offset, timestamp, key and headers; without it they are left out.",
    ),
    Key("commit.records", ConfigType.INT, str(CHUNK), "The most records of a commit.", check=at_least(1)),
    Key("commit.bytes", ConfigType.LONG, "67108864", "About the most bytes of a commit.", check=at_least(1)),
)


def chunks(records: Iterable[SinkRecord], config: Mapping[str, Any]) -> Iterator[list[SinkRecord]]:
    found: list[SinkRecord] = []
    held = 0
    for record in records:
        found.append(record)
        held += size_of(record)
        if len(found) == config["commit.records"] or held >= config["commit.bytes"]:
            yield found
            found, held = [], 0
    if found:
        yield found


def row_of(record: SinkRecord, prefix: str) -> dict[str, Any]:
    """Raises RecordRefused for one that leaves nothing to write."""
    if record.value is None and not prefix:
        raise RecordRefused(f"{record.source} at offset {record.offset} is a tombstone: {PREFIX} makes a row of it")
    fields = simple(record.value) if isinstance(record.value, dict) else {"value": simple(record.value)}
    if record.value is None:
        fields = {}
    if prefix:
        fields |= {
            f"{prefix}topic": record.source.topic,
            f"{prefix}partition": record.partition,
            f"{prefix}offset": record.offset,
            f"{prefix}timestamp": record.timestamp_ms,
            f"{prefix}key": simple(record.key),
            f"{prefix}headers": [{"key": key, "value": value} for key, value in record.headers],
        }
    return fields


def rows_of(
    records: Iterable[SinkRecord], prefix: str, refuse: Callable[[SinkRecord, Exception], None]
) -> list[dict[str, Any]]:
    found = []
    for record in records:
        try:
            found.append(row_of(record, prefix))
        except RecordRefused as problem:
            refuse(record, problem)
    return found


def rows_table(rows: Sequence[Mapping[str, Any]], prefix: str, existing: pa.Schema | None) -> pa.Table:
    import pyarrow as pa

    own = own_types(prefix) if prefix else {}
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        kind = own.get(name) or known(pa.array(values).type)
        if kind is None:
            continue
        if existing is not None and name in existing.names:
            kind = fitted(existing.field(name).type, kind)
        columns[name] = in_type(values, kind, name)
    return pa.table(columns)


def own_types(prefix: str) -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        f"{prefix}topic": pa.string(),
        f"{prefix}partition": pa.int32(),
        f"{prefix}offset": pa.int64(),
        f"{prefix}timestamp": pa.timestamp("us", "UTC"),
        f"{prefix}headers": header_type(),
    }


def in_type(values: list[Any], kind: pa.DataType, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        if pa.types.is_timestamp(kind) and any(isinstance(value, int) for value in values):
            return pa.array(values, pa.timestamp("ms", "UTC")).cast(kind)
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"the column {name} has the type {kind}, which does not fit: {error}") from None


def known(kind: pa.DataType) -> pa.DataType | None:
    """Without what nothing is known of, since it was null everywhere."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return None
    if pa.types.is_decimal(kind):
        return pa.decimal128(DIGITS, kind.scale)
    if pa.types.is_struct(kind):
        fields = [(each.name, known(each.type)) for each in kind]
        given = [pa.field(name, found) for name, found in fields if found is not None]
        return pa.struct(given) if given else None
    if pa.types.is_list(kind):
        inner = known(kind.value_type)
        return None if inner is None else pa.list_(inner)
    return kind


def fitted(existing: pa.DataType, found: pa.DataType) -> pa.DataType:
    """The type of the column that is there, with fields of structs that it lacks."""
    import pyarrow as pa

    if pa.types.is_struct(existing) and pa.types.is_struct(found):
        others = {each.name: each for each in found}
        fields = []
        for each in existing:
            other = others.pop(each.name, None)
            fields.append(each if other is None else each.with_type(fitted(each.type, other.type)))
        return pa.struct([*fields, *others.values()])
    return existing
