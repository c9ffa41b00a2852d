"""Three brokers as the books describe them: replicated, surviving the loss of any one of them."""

from __future__ import annotations

import signal

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.fences import none_fenced_but
from tests.cluster.load import Load
from tests.cluster.looking import QUIET, admin, create, digests, partitions_of, read_all, wait_until_whole
from tests.support.names import own_name
from tests.support.waiting import wait_until


def controller_of(cluster: LocalCluster) -> int:
    client = admin(cluster)
    found: int = client.describe_cluster(request_timeout=20).result(20).controller.id
    return found


def test_replicas_are_spread_and_hold_the_same_bytes(cluster: LocalCluster) -> None:
    topic = own_name("spread")
    create(cluster, topic, partitions=6, min_insync_replicas="2")
    with none_fenced_but(cluster), Load(cluster, topic) as load:
        load.goes_on(500)
    found = partitions_of(cluster, topic)
    assert sorted(leader for leader, _, _ in found.values()) == [1, 1, 2, 2, 3, 3]
    assert all(sorted(replicas) == [1, 2, 3] for _, replicas, _ in found.values())
    load.assert_nothing_lost_or_doubled()
    for partition in found:
        wait_until(lambda p=partition: len(digests(cluster, topic, p)) == 1, "equal replicas")  # type: ignore[misc]


def test_a_killed_leader_is_replaced_and_comes_back_with_nothing_lost(cluster: LocalCluster) -> None:
    """PCF-06, PR-12."""
    topic = own_name("killed")
    create(cluster, topic, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        victim = cluster.broker(partitions_of(cluster, topic)[0][0])
        cluster.kill_member(victim)
        load.goes_on(200)
        wait_until(lambda: victim.number not in partitions_of(cluster, topic)[0][2], "the dead broker out of sync")
        found = partitions_of(cluster, topic)
        assert sorted(found[0][1]) == [1, 2, 3], "it stays a replica"
        cluster.start_member(victim)
        wait_until_whole(cluster)
        load.goes_on(200)
    load.assert_nothing_lost_or_doubled()
    for partition in found:
        wait_until(lambda p=partition: len(digests(cluster, topic, p)) == 1, "equal replicas")  # type: ignore[misc]


def test_the_death_of_the_controller_stops_nothing(cluster: LocalCluster) -> None:
    topic = own_name("controller")
    create(cluster, topic, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        before = controller_of(cluster)
        cluster.kill_member(cluster.broker(before))
        load.goes_on(200)
        wait_until(lambda: controller_of(cluster) != before, "another controller")
        create(cluster, own_name("made-by-the-next"), factor=2)
    load.assert_nothing_lost_or_doubled()


def test_a_broker_that_is_paused_and_wakes_up_again_changes_nothing(cluster: LocalCluster) -> None:
    """Its session ends, others lead; when it wakes up it must not acknowledge anything as a leader."""
    topic = own_name("paused")
    create(cluster, topic, min_insync_replicas="2")
    victim = cluster.broker(partitions_of(cluster, topic)[0][0])
    with none_fenced_but(cluster, victim.number), Load(cluster, topic) as load:
        cluster.pause_member(victim)
        try:
            load.goes_on(100)
        finally:
            cluster.resume_member(victim)
        wait_until_whole(cluster)
        load.goes_on(100)
    load.assert_nothing_lost_or_doubled()


def test_a_group_goes_on_when_its_coordinator_dies(cluster: LocalCluster) -> None:
    """CMT-06, CO-12, CON-14."""
    topic, group = own_name("grouped"), own_name("group")
    create(cluster, topic, partitions=2)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "session.timeout.ms": 30_000, **QUIET}
    )  # fmt: skip
    seen: set[str] = set()
    consumer.subscribe([topic])
    try:
        with Load(cluster, topic) as load:
            consume_until(consumer, seen, 100)
            consumer.commit(asynchronous=False)
            coordinator = coordinator_of(cluster, group)
            cluster.kill_member(cluster.broker(coordinator))
            consume_until(consumer, seen, len(seen) + 200)
            wait_until(lambda: has_another_coordinator(cluster, group, coordinator), "another coordinator")
            consumer.commit(asynchronous=False)
            load.goes_on(10)
        consume_until(consumer, seen, len(load.acknowledged))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert {int(value) for value in seen} >= set(load.acknowledged)


def consume_until(consumer: Consumer, seen: set[str], count: int) -> None:
    def look() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.add(message.value().decode())  # type: ignore[union-attr]
        return len(seen) >= count

    wait_until(look, f"{count} records", 120.0, pause=0.0)


def has_another_coordinator(cluster: LocalCluster, group: str, former: int) -> bool:
    try:
        return coordinator_of(cluster, group) != former
    except KafkaException as error:
        if not error.args[0].retriable() and error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return False  # it still loads what the former one has written


def coordinator_of(cluster: LocalCluster, group: str) -> int:
    client = admin(cluster)
    described = client.describe_consumer_groups([group], request_timeout=20)[group].result(20)
    found: int = described.coordinator.id
    return found


def test_transactions_over_partitions_of_several_brokers(cluster: LocalCluster) -> None:
    from confluent_kafka import Producer

    topic = own_name("atomic")
    create(cluster, topic, partitions=6, min_insync_replicas="2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": own_name("txn"), **QUIET})
    producer.init_transactions(60)
    for number in range(12):
        producer.begin_transaction()
        for partition in range(6):
            producer.produce(topic, str(number), partition=partition)
        if number % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    found = read_all(cluster, topic)
    expected = [str(number) for number in range(12) if number % 3 != 2]
    values = {partition: [value for _, value in records] for partition, records in found.items()}
    assert values == dict.fromkeys(range(6), expected)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_brokers_end_and_come_back(cluster: LocalCluster, number: signal.Signals) -> None:
    topic = own_name(f"all-{number.name.lower()}")
    create(cluster, topic, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        load.goes_on(200)
    for broker in cluster.brokers:
        if number is signal.SIGKILL:
            cluster.kill_member(broker)
        else:
            cluster.stop_member(broker)
    cluster.start()
    wait_until_whole(cluster)
    load.assert_nothing_lost_or_doubled()
