"""Word count, topic to topic: split into words, lower-case, drop "the", count.

The same function counts a text at rest and one that flows; the counts go back to a topic, keyed by word.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import as_records, drain, fresh_topic, publish, run_alone, stream, table, to_topic

LINES = [
    "The quick brown fox jumps over the lazy dog",
    "the dog sleeps; The FOX is gone",
    "Over hill, over dale, the fox, the dog",
]


def count_words(lines: DataFrame) -> DataFrame:
    words = lines.select(F.explode(F.split(F.lower(F.col("value").cast("string")), r"\W+")).alias("word"))
    return words.where("word NOT IN ('', 'the')").groupBy("word").count()


def example(spark: SparkSession, bootstrap: str, folder: Path) -> dict[str, int]:
    publish(bootstrap, "lines", [(None, line) for line in LINES])
    fresh_topic(bootstrap, "word-counts")
    counts = count_words(stream(spark, bootstrap, "lines"))
    # Complete: the whole table goes out again with each batch.
    writer = as_records(counts, "word").writeStream.format("moldau").outputMode("complete")
    drain(writer, folder / "word-count", **to_topic(bootstrap, "word-counts"))
    result = table(spark, bootstrap, "word-counts", "word STRING, count LONG")
    result.orderBy(F.desc("count"), "word").show()
    return {row["word"]: row["count"] for row in result.collect()}


if __name__ == "__main__":
    run_alone(example, __doc__)
