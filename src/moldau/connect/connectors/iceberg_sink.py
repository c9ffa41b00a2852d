"""Topics to Iceberg tables, with the package `pyiceberg` (`pip install 'moldau[lake]'`), under the settings of Apache
Iceberg's own sink for Connect.

`iceberg.catalog.<name>` are the properties of the catalog as pyiceberg knows them (`type` sql, rest, hive, glue; `uri`;
`warehouse`; `s3.endpoint` and so on). A record is a row: the fields of a value that is a struct, or a column `value`;
beside them, where it comes from. Tombstones are rows whose fields are null. Up to which offset each partition is
written stands in the table's property `moldau.connect.<connector>`, and in the snapshot's, changed by the commit that
has the rows: records that come again are left out, and of two writers one is refused. Rows are only appended; there is
no control topic, and each batch is a snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.delta_sink import refuse_new_columns
from moldau.connect.connectors.table_rows import PREFIX, ROWS, chunks, rows_of, rows_table
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, not_empty
from moldau.connect.interface import SinkConnector, SinkRecord

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from moldau.types.ids import TopicPartition

CATALOG: Final = "iceberg.catalog."
TYPE: Final = f"{CATALOG}type"
BY_ADDRESS: Final = ("sql", "rest", "hive")
KINDS: Final = (*BY_ADDRESS, "glue", "dynamodb", "bigquery", "in-memory")
"""Of catalogs, as pyiceberg calls them."""
PROPERTY: Final = "moldau.connect."
ATTEMPTS: Final = 5
RETRIES: Final = "commit.retry.num-retries"


class IcebergSink(SinkConnector):
    EXACT: ClassVar = "the offsets are a property of the table, changed by the commit that has the rows"
    ONE_WRITER: ClassVar = True
    CONFIG: ClassVar = ROWS + ConfigDef(
        Key(
            "iceberg.tables",
            default=REQUIRED,
            doc="The table, such as db.events or db.${topic}.",
            importance="HIGH",
            check=not_empty,
        ),
        Key("iceberg.catalog", default="iceberg", doc="The catalog's name."),
        Key("iceberg.tables.auto-create-enabled", ConfigType.BOOLEAN, "false", "Whether missing tables are made."),
        Key("iceberg.tables.evolve-schema-enabled", ConfigType.BOOLEAN, "false", "Whether missing columns are added."),
    )

    OPEN: ClassVar = (CATALOG,)

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if not any(name.startswith(CATALOG) for name in config):
            yield TYPE, f"{TYPE} and what it needs, such as iceberg.catalog.uri, have to be given"
        kind = config.get(TYPE)
        if kind is not None and kind not in KINDS:
            yield TYPE, str(ConfigError(TYPE, kind, f"one of {', '.join(KINDS)}"))
        if kind in BY_ADDRESS and not config.get(f"{CATALOG}uri"):
            yield f"{CATALOG}uri", f"{TYPE}={kind} needs {CATALOG}uri"

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._catalog: Catalog | None = None

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    def write(self, records: Iterator[SinkRecord]) -> None:
        for chunk in chunks(records, self.config):
            tables: dict[str, list[SinkRecord]] = {}
            for record in chunk:
                tables.setdefault(self.config["iceberg.tables"].replace("${topic}", record.topic), []).append(record)
            for name, several in tables.items():
                self._write(name, several)

    def _write(self, name: str, records: Sequence[SinkRecord]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        for attempt in range(ATTEMPTS):
            try:
                self._append(name, records)
            except CommitFailedException:
                # Somebody else wrote to the table: what is written by now is read again.
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return

    def _append(self, name: str, records: Sequence[SinkRecord]) -> None:
        """One commit."""
        table = self._open(name) or self._made(name, records)
        if table is None:
            return
        offsets = self._offsets(table)
        fresh = [record for record in records if record.order >= offsets.get(str(record.source), 0)]
        rows = rows_of(fresh, self.config[PREFIX], self.refuse)
        if not rows:
            return
        existing = table.schema().as_arrow()
        content = rows_table(rows, self.config[PREFIX], existing)
        evolve = self.config["iceberg.tables.evolve-schema-enabled"]
        if not evolve:
            refuse_new_columns(name, existing, content)
        told = json.dumps(offsets | {str(record.source): record.order + 1 for record in fresh})
        without_retries(table)
        with table.transaction() as transaction:
            if evolve:
                with transaction.update_schema() as update:
                    update.union_by_name(content.schema)
            transaction.set_properties({self._property: told})
            transaction.append(content, snapshot_properties={self._property: told})

    @property
    def _property(self) -> str:
        return f"{PROPERTY}{self.config['name']}"

    def _offsets(self, table: Table) -> dict[str, int]:
        found = json.loads(table.properties.get(self._property, "{}"))
        return {place: int(offset) for place, offset in found.items()}

    def _connected(self) -> Catalog:
        if self._catalog is None:
            from pyiceberg.catalog import load_catalog

            given = {
                name.removeprefix(CATALOG): value for name, value in self.config.items() if name.startswith(CATALOG)
            }
            self._catalog = load_catalog(self.config["iceberg.catalog"], **given)
        return self._catalog

    def _open(self, name: str) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._connected().load_table(name)
        except NoSuchTableError:
            if not self.config["iceberg.tables.auto-create-enabled"]:
                raise LookupError(f"{name} is no table, and iceberg.tables.auto-create-enabled is false") from None
            return None

    def _made(self, name: str, records: Sequence[SinkRecord]) -> Table | None:
        """Empty, or as somebody else has made it meanwhile; none where there are no rows to find its columns from."""
        rows = rows_of(records, self.config[PREFIX], lambda _, __: None)
        if not rows:
            rows_of(records, self.config[PREFIX], self.refuse)
            return None
        self._connected().create_namespace_if_not_exists(name.rpartition(".")[0])
        return self._connected().create_table_if_not_exists(name, rows_table(rows, self.config[PREFIX], None).schema)

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """What the table has stays; where to read from is the group's affair."""


def without_retries(table: Table) -> None:
    """For this object alone: pyiceberg would commit the same rows on top of what another writer has written since,
    without looking at the offsets again."""
    properties = {**table.metadata.properties, RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
