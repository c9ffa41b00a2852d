"""Java's producers in tight loops while one broker after the other is killed: nothing lost, doubled or out of order, no
error that the program sees.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import create, partitions_of, read_all, wait_until_whole
from tests.peers.java_process import QUICK_RETRIES, JavaProgram
from tests.support.names import own_name

KEYS = 97


@pytest.mark.timeout(400)
def test_java_producers_while_each_broker_is_killed_once(cluster: LocalCluster, tmp_path: Path) -> None:
    sent, decided = own_name("sent"), own_name("decided")
    create(cluster, sent, min_insync_replicas="2")
    create(cluster, decided, partitions=2, min_insync_replicas="2")
    common = {"bootstrap": cluster.bootstrap, **QUICK_RETRIES}
    sending = JavaProgram("SendLoop", tmp_path / "sending", {**common, "topic": sent})
    deciding = JavaProgram("DecideLoop", tmp_path / "deciding", {**common, "topic": decided, "id": own_name("loop")})
    try:
        sending.goes_on(100)
        deciding.goes_on(5)
        for broker in cluster.brokers:
            cluster.kill_member(broker)
            sending.goes_on(300)
            deciding.goes_on(5)
            cluster.start_member(broker)
            wait_until_whole(cluster)
        sending.goes_on(100)
        deciding.goes_on(5)
        sending.end()
        deciding.end()
    finally:
        sending.kill()
        deciding.kill()
    check_sent(cluster, sent, sending.lines)
    check_decided(cluster, decided, deciding.lines)


def check_sent(cluster: LocalCluster, topic: str, lines: list[str]) -> None:
    assert [line for line in lines if not line.startswith("acked ")] == []
    promised = {(int(partition), int(offset)): value for _, partition, offset, value in map(str.split, lines)}
    found = read_all(cluster, topic)
    there = {(partition, offset): value for partition, records in found.items() for offset, value in records}
    assert len(promised) == len(lines) and there == promised
    for records in found.values():
        for key in range(KEYS):
            numbers = [int(value) for _, value in records if int(value) % KEYS == key]
            assert numbers == sorted(numbers)


def check_decided(cluster: LocalCluster, topic: str, lines: list[str]) -> None:
    """Each transaction put one record into each partition."""
    committed = [value for kind, value in map(str.split, lines) if kind == "committed"]
    aborted = [value for kind, value in map(str.split, lines) if kind == "aborted"]
    assert committed and aborted and len(committed) + len(aborted) == len(lines)
    found = read_all(cluster, topic)
    assert len(found) == len(partitions_of(cluster, topic))
    for records in found.values():
        assert [value for _, value in records] == committed
    everything = read_all(cluster, topic, "read_uncommitted")
    for records in everything.values():
        assert Counter(value for _, value in records) == Counter([*committed, *aborted])
