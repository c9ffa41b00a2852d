"""What a task does with its split; it travels to the executors and imports Arrow only there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.client.settings import ClientSettings
from moldau.spark.read_settings import ReadSettings
from moldau.spark.split import Split

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadTask:
    client: ClientSettings
    properties: Mapping[str, str]
    settings: ReadSettings
    columns: tuple[str, ...]

    def read(self, split: Split | None) -> Iterator[pa.RecordBatch]:
        """No split at all is what Spark asks for when a read has no partitions."""
        if split is None:
            return iter(())
        from moldau.spark.fetching import read_split

        return read_split(split, self.client, self.settings, self.columns, self.properties)
