"""The Python examples of the pages on Spark run as they stand, page by page, each with a broker of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from tests.spark.reading import ATTEMPTS
from tests.support.broker import Broker

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
WRITTEN_ADDRESS = "localhost:9092"
WRITTEN_CHECKPOINTS = "checkpoints/"
FLUSH_SECONDS = 60
ORDERS = (("a", "one"), ("b", "two"), (None, "three"))
CUSTOMERS = (("a", "Ada"), ("b", "Bob"))
READINGS = (("s1", '{"sensor": "s1", "celsius": 20.5}'), ("s2", "{broken"))


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    written: Mapping[str, int]
    """How many records the page's queries write to which topics."""


PAGES = (
    Page("spark.md", {"shouted": 3}),
    Page("exactly-once.md", {"shouted": 3, "counts": 3, "good": 2, "dead-letters": 1, "copies": 3}),
    Page("streaming-pipelines.md", {"dead-letters": 1, "named-orders": 3}),
)


@pytest.fixture
def unchanged(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session, which has its own settings again afterwards."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", partitions or "2")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(unchanged: SparkSession, page: Page, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    with Broker(tmp_path / "broker") as broker:
        fill(broker.address, "orders", ORDERS)
        fill(broker.address, "readings", READINGS)
        fill(broker.address, "customers", CUSTOMERS)
        try:
            for block in PYTHON_BLOCK.findall((HOWTO / page.name).read_text()):
                code = block.replace(WRITTEN_ADDRESS, broker.address)
                run_block(code.replace(WRITTEN_CHECKPOINTS, f"{tmp_path}/checkpoints/"), names)
        finally:
            clean_up(unchanged, names)
        for topic, count in page.written.items():
            place = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
            assert unchanged.read.format("moldau").options(**place).load().count() == count, topic


def run_block(code: str, names: dict[str, Any]) -> None:
    """Its queries process what is there and end: a busy machine can start one after the other, not all at once."""
    for attempts_left in reversed(range(ATTEMPTS)):
        exec(compile(code, "<page>", "exec"), names)
        try:
            for query in queries(names):
                query.processAllAvailable()
                query.stop()
            return
        except StreamingQueryException as error:
            # Spark gives its own Python process ten seconds to start, whatever else the machine has to do. A query that
            # is started again goes on from its checkpoint.
            if "Python worker failed to connect back" not in str(error) or attempts_left == 0:
                raise


def clean_up(spark: SparkSession, names: Mapping[str, Any]) -> None:
    for query in queries(names):
        query.stop()
    for listener in names.values():
        if isinstance(listener, StreamingQueryListener):
            spark.streams.removeListener(listener)


def queries(names: Mapping[str, Any]) -> list[StreamingQuery]:
    return [value for value in names.values() if isinstance(value, StreamingQuery)]


def fill(address: str, topic: str, records: tuple[tuple[str | None, str], ...]) -> None:
    producer = Producer({"bootstrap.servers": address})
    for key, value in records:
        producer.produce(topic, value.encode(), key=key)
    assert producer.flush(FLUSH_SECONDS) == 0
