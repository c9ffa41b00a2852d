"""The two connectors as a user writes them. Each builds only the columns that its side lets a query choose."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.peers.spark_connector import VERSION


class Connector(Enum):
    MOLDAU = "moldau"
    JVM = "jvm"

    @property
    def title(self) -> str:
        return 'format("moldau")' if self is Connector.MOLDAU else f"Spark's connector {VERSION}"

    @property
    def column(self) -> str:
        return "Moldau" if self is Connector.MOLDAU else "Spark's own"

    @property
    def format(self) -> str:
        return "moldau" if self is Connector.MOLDAU else "kafka"


class Job:
    """Reads and writes of one connector on one broker. The topics hold no transactions' leftovers, so both see all."""

    def __init__(self, spark: SparkSession, connector: Connector, address: str) -> None:
        self.spark = spark
        self.connector = connector
        self._address = address

    def _options(self, **more: Any) -> dict[str, Any]:
        return {"kafka.bootstrap.servers": self._address, **more}

    def _read_options(self, topic: str, columns: str) -> Mapping[str, Any]:
        # Spark's connector prunes columns by itself where the plan allows it; Python sources are told.
        chosen = {"columns": columns} if self.connector is Connector.MOLDAU else {}
        return self._options(subscribe=topic, startingOffsets="earliest", **chosen)

    def read(self, topic: str, columns: str) -> DataFrame:
        return self.spark.read.format(self.connector.format).options(**self._read_options(topic, columns)).load()

    def read_stream(self, topic: str, columns: str, **more: Any) -> DataFrame:
        options = {**self._read_options(topic, columns), **more}
        return self.spark.readStream.format(self.connector.format).options(**options).load()

    def write(self, rows: DataFrame, topic: str, **more: Any) -> None:
        rows.write.format(self.connector.format).options(**self._options(topic=topic, **more)).mode("append").save()

    def pipe(self, rows: DataFrame, topic: str, checkpoint: Path, **more: Any) -> None:
        """A stream into a topic until what is there now is through."""
        options = self._options(topic=topic, checkpointLocation=str(checkpoint), **more)
        query = rows.writeStream.format(self.connector.format).options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
