"""A hub and its spokes: shops write where they are, the hub holds what all of them wrote.

Each shop has a cluster of its own with a topic `sales`; the hub has `berlin.sales` and `tokyo.sales`, read together by
a pattern. Nothing flows back: a shop sees its own sales alone.

    python examples/mirroring/hub.py
"""

from __future__ import annotations

import re

from mirroring.common import Broker, mirror, write

SHOPS = ("berlin", "tokyo")


def run(sales: dict[str, list[str]]) -> list[str]:
    """What the hub holds in the end, in any order."""
    with Broker() as berlin, Broker() as tokyo, Broker() as hub:
        shops = {"berlin": berlin, "tokyo": tokyo}
        for shop, broker in shops.items():
            broker.topic("sales", partitions=2)
            write(broker, "sales", sales[shop])
        flows = {f"{shop}_to_hub__enabled": "true" for shop in SHOPS}
        with mirror({**shops, "hub": hub}, **flows, topics="sales"):
            return everything(hub, sum(map(len, sales.values())))


def everything(hub: Broker, count: int) -> list[str]:
    found: list[str] = []
    reader = {"group.id": "reports", "value.deserializer": "string", "metadata.max.age.ms": 500}
    with hub.consumer(reader) as consumer:
        consumer.subscribe(re.compile(r".*\.sales"))
        for record in consumer.records(60.0):
            found.append(record.value)
            if len(found) == count:
                break
    return found


if __name__ == "__main__":
    print(sorted(run({"berlin": ["bread", "butter"], "tokyo": ["rice", "tea", "salt"]})))
