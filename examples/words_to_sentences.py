"""Words to sentences: each word of a paragraph is one record; a stateful step joins them again.

Order holds within a partition only, so the topic has one, and all words meet under one key. The words since the last
full stop are the state; a batch may end in the middle of a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from common import drain, publish, run_alone, stream

PARAGRAPH = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit. Curabitur rhoncus iaculis mi, quis rhoncus "
    "lacus tempor vel. Vivamus eget dolor lobortis, fermentum ante sit amet, porta urna. Donec ut nisl."
)


class Sentences(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._words = handle.getListState("words", "word STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        words = [word for (word,) in self._words.get()]
        for row in sorted(rows, key=lambda row: row.offset):
            words.append(row.word)
            if row.word.endswith("."):
                yield Row(number=row.offset, sentence=" ".join(words))
                words = []
        self._words.clear()
        if words:
            self._words.put([(word,) for word in words])

    def close(self) -> None:
        """Nothing to close."""


def sentences(words: DataFrame) -> DataFrame:
    rows = words.select("offset", F.col("value").cast("string").alias("word"), F.lit("all").alias("together"))
    return rows.groupBy("together").transformWithState(
        Sentences(), "number LONG, sentence STRING", outputMode="Append", timeMode="None"
    )


def example(spark: SparkSession, bootstrap: str, folder: Path) -> list[str]:
    publish(bootstrap, "words", [(word, word) for word in PARAGRAPH.split()], partitions=1)
    joined = sentences(stream(spark, bootstrap, "words", maxOffsetsPerTrigger="15"))
    drain(joined.writeStream.queryName("sentences").format("memory"), folder / "sentences")
    found = [row["sentence"] for row in spark.table("sentences").orderBy("number").collect()]
    print(*found, sep="\n")
    return found


if __name__ == "__main__":
    run_alone(example, __doc__)
