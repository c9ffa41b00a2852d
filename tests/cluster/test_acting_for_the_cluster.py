"""Brokers that have no right but ClusterAction: everything that they need of each other works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import QUIET
from tests.cluster.secured import ADMIN, Locked, in_sync, locked_cluster, make
from tests.support.names import own_name
from tests.support.waiting import wait_until

BROKERS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="p" user_broker="p";'
)
SETTINGS = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT",
    "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.brokers.plain.sasl.jaas.config": BROKERS,
}


@pytest.fixture(scope="module")
def locked(running: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    """Brokers that were super users until they had their rule, and are no longer."""
    with locked_cluster(running, tmp_path_factory.mktemp("acting"), "acting", SETTINGS) as found:
        may_act = AclBinding(
            ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:broker", "*",
            AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW,
        )  # fmt: skip
        client = found.admin()
        for made in client.create_acls([may_act]).values():
            made.result(30)
        found.cluster.set({"super.users": "User:admin"})
        for broker in found.cluster.brokers:
            found.cluster.stop_member(broker)
            found.cluster.start_member(broker)
        yield found


def test_followers_follow_and_internal_topics_are_made_whoever_is_asked(locked: Locked) -> None:
    topic = own_name("acting")
    make(locked, topic)
    for broker in locked.cluster.brokers:
        config = {"bootstrap.servers": broker.address, **ADMIN, **QUIET}
        producer = Producer(config | {"transactional.id": f"{topic}-{broker.number}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, f"by {broker.number}", partition=0)
        producer.commit_transaction(60)
    consumer = Consumer({"bootstrap.servers": locked.cluster.bootstrap, **ADMIN, **QUIET, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = [message.value() for message in consumer.consume(2, 60)]
    consumer.committed([TopicPartition(topic, 0)], timeout=60)  # finds the coordinator, for which its topic is made
    consumer.close()
    assert sorted(read) == [b"by 1", b"by 2"]
    for internal in (topic, "__transaction_state", "__consumer_offsets"):
        wait_until(lambda name=internal: in_sync(locked, name) == {2}, f"both brokers have {internal}", 60)
