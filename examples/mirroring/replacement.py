"""An upgrade by replacement: a new cluster takes the place of the old one, and nothing is lost on the way.

The new cluster is filled while the old one serves, under the same names (`IdentityReplicationPolicy`). Then producers
move, what is left is copied, consumers move with their offsets, and the old cluster is switched off.

    python examples/mirroring/replacement.py
"""

from __future__ import annotations

from mirroring.common import Broker, mirror, read, wait, write
from mirroring.standby import committed

GROUP = "billing"
FLOW = {
    "old_to_new__enabled": "true",
    "replication__policy__class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "sync__group__offsets__enabled": "true",
    "topics": "orders",
    "groups": GROUP,
}


def run(count: int) -> dict[str, list[str]]:
    """What billing has read in the old cluster, and in the new one."""
    orders = [f"order {number}" for number in range(count)]
    later = [f"later order {number}" for number in range(count)]
    seen: dict[str, list[str]] = {}
    with Broker() as new:
        with Broker() as old:
            old.topic("orders")
            with mirror({"old": old, "new": new}, **FLOW):
                # The old cluster serves, and the new one is filled beside it.
                write(old, "orders", orders[: count // 2])
                seen["old"] = read(old, GROUP, ["orders"], count // 4)
                write(old, "orders", orders[count // 2 :])
                # The cut: nobody writes to the old cluster any more. Who reads is stopped too.
                assert new.values("orders", count) == [order.encode() for order in orders], (
                    "everything is in the new one"
                )
                wait(lambda: committed(new, "orders") is not None, "and how far the group has read")
        # The old cluster is gone. Producers and consumers have the new one's address, and names are what they were.
        write(new, "orders", later)
        seen["new"] = read(new, GROUP, ["orders"], 2 * count - len(seen["old"]))
    return seen


if __name__ == "__main__":
    for where, found in run(12).items():
        print(where, found)
