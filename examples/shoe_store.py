"""The shoe shop: a stream of events, and the tables that can be derived from it.

Deliveries, sales and returns are changes; applied one after another they give the stock (a table), the cash in the
till, and how much has happened. The table is kept by `foreachBatch`: each batch upserts its changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from common import drain, publish, run_alone, stream

SCHEMA = "event STRING, shoes STRING, pairs INT, price DOUBLE"
EVENTS: list[dict[str, Any]] = [
    {"event": "delivered", "shoes": "red", "pairs": 300, "price": 0.0},
    {"event": "delivered", "shoes": "blue", "pairs": 300, "price": 0.0},
    {"event": "delivered", "shoes": "green", "pairs": 300, "price": 0.0},
    {"event": "sold", "shoes": "blue", "pairs": -100, "price": 10.0},
    {"event": "returned", "shoes": "blue", "pairs": 1, "price": 10.0},
    {"event": "sold", "shoes": "green", "pairs": -50, "price": 12.0},
]


class Shop:
    """The materialised view: what the changes so far amount to. A batch is applied once, whatever happens."""

    def __init__(self) -> None:
        self.stock: dict[str, int] = {}
        self.cash = 0.0
        self.events = 0
        self._last_batch = -1

    def apply(self, changes: DataFrame, batch: int) -> None:
        rows = changes.collect()
        if batch <= self._last_batch:
            return
        for row in rows:
            self.stock[row["shoes"]] = self.stock.get(row["shoes"], 0) + row["pairs"]
            self.cash -= row["pairs"] * row["price"]
            self.events += 1
        self._last_batch = batch


def example(spark: SparkSession, bootstrap: str, folder: Path) -> Shop:
    publish(bootstrap, "shoe-events", [(row["shoes"], row) for row in EVENTS])
    shop = Shop()
    writer = stream(spark, bootstrap, "shoe-events", SCHEMA).writeStream.foreachBatch(shop.apply)
    drain(writer.queryName("shoe-store"), folder / "shoes")
    print(f"stock {shop.stock}, cash {shop.cash:.2f}, {shop.events} events")
    return shop


if __name__ == "__main__":
    run_alone(example, __doc__)
