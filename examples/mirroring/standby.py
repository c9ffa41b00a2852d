"""A standby: `eu` receives what is written to `us`. When `us` dies clients go on in `eu`, and later back.

The group `billing` has read a part of the orders in `us`. Its offsets were translated, so that in `eu` it goes on with
the next one; what it reads and what is written there is known in `us` when everybody is back.

    python examples/mirroring/standby.py
"""

from __future__ import annotations

from mirroring.common import Broker, mirror, read, wait, write
from moldau.clients.records import TopicPartition

GROUP = "billing"
TOPICS = {"us": ["orders", "eu.orders"], "eu": ["us.orders", "orders"]}
FLOWS = {"sync__group__offsets__enabled": "true", "topics": "orders", "groups": GROUP}


def run(count: int) -> dict[str, list[str]]:
    """What billing has read: before the failure, in the standby, and back home."""
    first = [f"order {number}" for number in range(count)]
    meanwhile = [f"standby order {number}" for number in range(count)]
    seen: dict[str, list[str]] = {}
    with Broker() as us, Broker() as eu:
        us.topic("orders")
        eu.topic("orders")
        clusters = {"us": us, "eu": eu}
        write(us, "orders", first)
        seen["us"] = read(us, GROUP, TOPICS["us"][:1], count // 2)
        with mirror(clusters, us_to_eu__enabled="true", **FLOWS):
            wait(lambda: committed(eu, "us.orders") == len(seen["us"]), "the group's offset is in the standby")
        us.kill()
        # From here on `us` is gone. Billing goes on in the standby, and new orders are written there.
        seen["eu"] = read(eu, GROUP, TOPICS["eu"], count - len(seen["us"]))
        write(eu, "orders", meanwhile)
        seen["eu"] += read(eu, GROUP, TOPICS["eu"], count // 2)
        us.start()
        with mirror(clusters, us_to_eu__enabled="true", eu_to_us__enabled="true", **FLOWS):
            wait(lambda: committed(us, "orders") == count, "what was read of the copy is read at home")
            wait(lambda: committed(us, "eu.orders") == count // 2, "and what was read of the standby's own")
        # Everybody is back in `us`, with what was written to either.
        seen["us again"] = read(us, GROUP, TOPICS["us"], count - count // 2)
    return seen


def committed(broker: Broker, topic: str) -> int | None:
    with broker.admin() as admin:
        found = admin.list_consumer_group_offsets(GROUP).get(TopicPartition(topic, 0))
        return None if found is None else found.offset


if __name__ == "__main__":
    for where, found in run(10).items():
        print(where, found)
