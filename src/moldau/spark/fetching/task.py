"""What a task does with its split; it travels to the executors and imports Arrow only there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.client.settings import ClientSettings
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split
from moldau.spark.values.plan import AS_BYTES, ValuePlan

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadTask:
    client: ClientSettings
    properties: Mapping[str, str]
    settings: ReadSettings
    columns: tuple[str, ...]
    values: ValuePlan = AS_BYTES

    def read(self, split: Split | None) -> Iterator[pa.RecordBatch]:
        """No split at all is what Spark asks for when a read has no partitions."""
        if split is None:
            return iter(())
        from moldau.spark.fetching.prefetch import read_split

        if not self.values.typed:
            return read_split(split, self.client, self.settings, self.columns, self.properties)
        from moldau.spark.values.decoding import decode_batches

        needed = self.values.needed(self.columns)
        batches = read_split(split, self.client, self.settings, needed, self.properties)
        return decode_batches(batches, self.values, self.columns, f"{split.topic}-{split.partition}")
