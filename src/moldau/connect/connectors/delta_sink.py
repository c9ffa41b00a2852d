"""Topics to Delta tables, with the package `deltalake` (`pip install 'moldau[lake]'`), in folders and buckets.

A record is a row: the fields of a value that is a struct, or a column `value`; beside them, where it comes from.
Tombstones are rows whose fields are null. Up to which offset each partition is written is an application transaction
(`txn`) of the commit that has its rows, under the name `moldau-connect:<connector>:<topic>:<partition>`: records that
come again are left out, and of two writers one is refused. Rows are only appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from moldau.config.definition import ConfigType
from moldau.connect.connectors.archive_sink import OPTIONS
from moldau.connect.connectors.table_rows import PREFIX, ROWS, chunks, rows_of, rows_table
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, not_empty
from moldau.connect.interface import SinkConnector, SinkRecord
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

APPLICATION: Final = "moldau-connect"


class DeltaSink(SinkConnector):
    EXACT: ClassVar = "the offsets are application transactions of the commits that have the rows"
    ONE_WRITER: ClassVar = True
    CONFIG: ClassVar = ROWS + ConfigDef(
        Key(
            "table.url",
            default=REQUIRED,
            doc="A folder, or s3://…, gs://…, az://…; ${topic} is the topic.",
            importance="HIGH",
            check=not_empty,
        ),
        Key("partition.by", ConfigType.LIST, "", "The columns by which a new table is divided into folders."),
        Key("table.create", ConfigType.BOOLEAN, "true", "Whether missing tables are made."),
        Key("table.evolve", ConfigType.BOOLEAN, "true", "Whether missing columns are added."),
    )

    OPEN: ClassVar = (OPTIONS,)

    def write(self, records: Iterator[SinkRecord]) -> None:
        for chunk in chunks(records, self.config):
            tables: dict[str, list[SinkRecord]] = {}
            for record in chunk:
                tables.setdefault(self.config["table.url"].replace("${topic}", record.topic), []).append(record)
            for url, several in tables.items():
                self._append(url, several)

    def _append(self, url: str, records: Sequence[SinkRecord]) -> None:
        """One commit."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        table = self._open(url) or self._made(url, records)
        if table is None:
            return
        begins = {place: self._written(table, place) for place in {record.source for record in records}}
        fresh = [record for record in records if record.order >= begins[record.source]]
        rows = rows_of(fresh, self.config[PREFIX], self.refuse)
        if not rows:
            return
        existing = arrow_schema(table)
        content = rows_table(rows, self.config[PREFIX], existing)
        if not self.config["table.evolve"]:
            refuse_new_columns(url, existing, content)
        # Against the state that `begins` is of: a commit of the same application since then is a conflict.
        ends = {record.source: record.order + 1 for record in fresh}
        transactions = [Transaction(self._application(place), end) for place, end in ends.items()]
        write_deltalake(
            table,
            content,
            mode="append",
            schema_mode="merge",
            commit_properties=CommitProperties(app_transactions=transactions),
        )

    def _open(self, url: str) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(url, storage_options=self._options())
        except TableNotFoundError:
            if not self.config["table.create"]:
                raise LookupError(f"{url} is no Delta table, and table.create is false") from None
            return None

    def _made(self, url: str, records: Sequence[SinkRecord]) -> DeltaTable | None:
        """Empty, or as somebody else has made it meanwhile; none where there are no rows to find its columns from."""
        from deltalake import DeltaTable

        rows = rows_of(records, self.config[PREFIX], lambda _, __: None)
        if not rows:
            rows_of(records, self.config[PREFIX], self.refuse)
            return None
        return DeltaTable.create(
            url,
            rows_table(rows, self.config[PREFIX], None).schema,
            mode="ignore",
            partition_by=self.config["partition.by"] or None,
            storage_options=self._options(),
        )

    def _written(self, table: DeltaTable, place: TopicPartition) -> int:
        found = table.transaction_version(self._application(place))
        return 0 if found is None else int(found)

    def _application(self, place: TopicPartition) -> str:
        return f"{APPLICATION}:{self.config['name']}:{place.topic}:{place.partition}"

    def _options(self) -> dict[str, str]:
        return {name.removeprefix(OPTIONS): value for name, value in self.config.items() if name.startswith(OPTIONS)}

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """What the table has stays; where to read from is the group's affair."""


def arrow_schema(table: DeltaTable) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def refuse_new_columns(name: str, existing: pa.Schema | None, content: pa.Table) -> None:
    missing = [column for column in content.schema.names if existing is not None and column not in existing.names]
    if missing:
        raise LookupError(f"{name} has no column {missing[0]}, and columns may not be added")
