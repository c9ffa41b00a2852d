"""Java's producer in a tight loop, whose coordinator and partition leader are one broker, or two: then the leader asks
while the coordinator hears of markers. Nothing is refused.
"""

from __future__ import annotations

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster
from moldau.coordinators.sharding import partition_for
from tests.cluster.fences import none_fenced_but
from tests.cluster.looking import create_on, partitions_of, read_all, wait_until_whole
from tests.peers.java_programs import CLIENTS, run
from tests.support.names import own_name
from tests.support.waiting import wait_until

TRANSACTIONS = 300
ABORTS = 7
SECONDS = 60.0
STATES = "__transaction_state"


def loop(cluster: LocalCluster, topic: str, transactional_id: str, count: int) -> list[str]:
    given = {"bootstrap": cluster.bootstrap, "topic": topic, "id": transactional_id, "count": count, "abort": ABORTS}
    return run("TransactionLoop", CLIENTS, *(f"{name}={value}" for name, value in given.items()))


def brokers_from(cluster: LocalCluster, first: int) -> list[int]:
    numbers = sorted(broker.number for broker in cluster.brokers)
    place = numbers.index(first)
    return numbers[place:] + numbers[:place]


@pytest.mark.parametrize("there", [True, False], ids=["together", "apart"])
def test_transactions_without_a_pause(cluster: LocalCluster, there: bool) -> None:
    topic = own_name("together" if there else "apart")
    name = own_name("loop")
    loop(cluster, topic, own_name("first"), 0)  # makes the coordinators' topic, if nobody has
    wait_until_whole(cluster)
    states = partitions_of(cluster, STATES)
    coordinator, _, _ = states[partition_for(f"{name}-0", len(states))]  # the loop adds the producer's number
    replicas = brokers_from(cluster, coordinator)
    create_on(cluster, topic, replicas if there else replicas[1:] + replicas[:1])
    with none_fenced_but(cluster):
        printed = loop(cluster, topic, name, TRANSACTIONS)
    wanted = [str(number) for number in range(TRANSACTIONS) if number % ABORTS != ABORTS - 1]
    assert printed[0] == f"committed {len(wanted)}"
    wait_until(
        lambda: [value for _, value in read_all(cluster, topic)[0]] == wanted, "the last markers are written", SECONDS
    )
